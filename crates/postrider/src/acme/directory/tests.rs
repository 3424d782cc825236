//! Authorities that behave badly, over real TLS.

use super::*;
use hyper::http::HeaderMap;
use instant_acme::{Account, NewAccount};
use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use tokio::runtime::Runtime;

/// What is said to a request, by its number and first line; `None`: nothing, for as long as the client waits.
type Says = fn(usize, &str) -> Option<String>;

fn answer(status: &str, fields: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {{length}}\r\n\r\n{body}"))
}

/// An authority on this machine that says so, what it is asked by, and its directory's URL.
fn authority(says: Says) -> (AcmeClient, String) {
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], secret)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let server = Arc::new(server);
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let session = ServerConnection::new(Arc::clone(&server)).unwrap();
            let mut stream = StreamOwned::new(session, stream);
            let mut heard = [0; 4_096];
            let Ok(length) = stream.read(&mut heard) else { continue };
            let text = String::from_utf8_lossy(&heard[..length]).into_owned();
            match says(number, text.lines().next().unwrap_or_default()) {
                Some(answer) => {
                    let answer = answer.replace("{url}", &format!("https://localhost:{port}"));
                    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                    let answer = answer.replace("{length}", &body.len().to_string());
                    let _ = stream.write_all(answer.as_bytes());
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
                // Until the client has enough of it.
                None => _ = stream.read(&mut heard),
            }
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = Arc::new(crate::peer_tls::verifying_by(roots).unwrap());
    (AcmeClient::new(&client), format!("https://localhost:{port}/dir"))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn reached(says: Says) -> Result<(), String> {
    let (mut directory, url) = authority(says);
    directory.request_max = Duration::from_millis(300);
    runtime().block_on(directory.reach(&url))
}

#[test]
fn a_directory_is_asked_for_no_longer_and_no_more_than_is_bearable() {
    assert_eq!(reached(|_, _| answer("200 OK", "", "{}")), Ok(()));
    assert_eq!(reached(|_, _| None), Err("no answer within 300ms".to_owned()));
    let huge = reached(|_, _| answer("200 OK", "", &"x".repeat(ANSWER_BYTES_MAX + 1)));
    assert_eq!(huge, Err("length limit exceeded".to_owned()));
    assert_eq!(reached(|_, _| answer("200 OK", "", &"x".repeat(ANSWER_BYTES_MAX))), Ok(()));
    let failing = reached(|_, _| answer("502 Bad Gateway", "", "<html>"));
    assert_eq!(failing, Err("it returned 502 Bad Gateway".to_owned()));
    let moved = reached(|_, _| answer("302 Found", "Location: http://127.0.0.1/\r\n", ""));
    assert_eq!(moved, Err("its directory returned 302 Found".to_owned()));
    assert!(reached(|_, _| Some("garbage\r\n\r\n".to_owned())).is_err());
    assert!(
        reached(|_, _| Some(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20)))).is_err()
    );
}

/// What is said of an account that an authority doesn't give.
fn no_account(says: Says) -> String {
    let (directory, url) = authority(says);
    let new =
        NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
    let made = runtime().block_on(async {
        Account::builder_with_http(Box::new(directory)).create(&new, url, None).await
    });
    match made {
        Ok(_) => panic!("an account"),
        Err(error) => in_words(&error),
    }
}

const DIRECTORY: &str =
    r#"{"newNonce":"{url}/nonce","newAccount":"{url}/account","newOrder":"{url}/order"}"#;

#[test]
fn what_an_authority_says_is_told_and_believed_nothing() {
    let garbage = no_account(|_, _| answer("200 OK", "", "{\"newNonce\":"));
    assert!(garbage.contains("JSON"), "{garbage}");
    let fields = no_account(|_, _| answer("200 OK", "", "{}"));
    assert!(fields.contains("newNonce"), "{fields}");
    let deep = no_account(|_, _| answer("200 OK", "", &"[".repeat(100_000)));
    assert!(deep.contains("JSON"), "{deep}");
    let elsewhere =
        no_account(|_, _| answer("200 OK", "", &DIRECTORY.replace("{url}", "http://127.0.0.1:1")));
    assert_eq!(elsewhere, "it has a URL that is not https");
    let no_nonce = no_account(|number, _| match number {
        0 => answer("200 OK", "", DIRECTORY),
        _ => answer("200 OK", "", ""),
    });
    assert!(no_nonce.contains("nonce"), "{no_nonce}");
    let refused = no_account(|number, line| match number {
        0 => answer("200 OK", "", DIRECTORY),
        _ if line.starts_with("HEAD") => answer("200 OK", "Replay-Nonce: abc\r\n", ""),
        _ => answer(
            "403 Forbidden",
            "Content-Type: application/problem+json\r\n",
            "{\"type\":\"urn:ietf:params:acme:error:unauthorized\",\"detail\":\"Not \\u001b[2J you\"}",
        ),
    });
    assert_eq!(refused, "Not \u{fffd}[2J you (unauthorized)");
    // Each answer has another nonce, and none is ever right.
    let nonces = no_account(|number, line| match number {
        0 => answer("200 OK", "", DIRECTORY),
        _ if line.starts_with("HEAD") => answer("200 OK", "Replay-Nonce: abc\r\n", ""),
        _ => answer(
            "400 Bad Request",
            "Replay-Nonce: def\r\n",
            "{\"type\":\"urn:ietf:params:acme:error:badNonce\",\"detail\":\"again\"}",
        ),
    });
    assert_eq!(nonces, "again (badNonce)");
}

#[test]
fn an_authority_may_ask_for_a_pause_but_not_for_an_endless_one() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let asked = |text: &'static str| {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
        retry_after(&headers, at)
    };
    assert_eq!(asked("120"), Some(Duration::from_secs(120)));
    assert_eq!(asked("Fri, 15 Jan 2027 08:01:00 GMT"), Some(Duration::from_secs(60)));
    for none in ["-1", "soon", "", "Fri, 15 Jan 2027 07:00:00 GMT", "99999999999999999999"] {
        assert_eq!(asked(none), None, "{none}");
    }
    let (directory, url) = authority(|_, _| {
        let fields = "Retry-After: 18446744073709551615\r\n";
        answer("429 Too Many Requests", fields, "{\"detail\":\"enough\"}")
    });
    let request = Request::get(&url).body(BodyWrapper::default()).unwrap();
    let response = runtime().block_on(directory.clone().ask(request)).unwrap();
    assert_eq!(response.parts.headers[RETRY_AFTER], "60");
    assert_eq!(directory.pause(), Some(Duration::from_secs(u64::MAX)));
}

#[test]
fn only_https_is_asked() {
    let shown = |url: &str| {
        let (authority, path) = place(&url.parse().unwrap())?;
        Ok::<_, String>(format!("{authority} {path}"))
    };
    assert_eq!(shown("https://ca.test/a?b").as_deref(), Ok("ca.test /a?b"));
    assert_eq!(shown("https://[::1]:9").as_deref(), Ok("[::1]:9 /"));
    for url in ["http://ca.test/a", "/a", "ftp://ca.test/", "https://me@ca.test/"] {
        assert!(shown(url).is_err(), "{url}");
    }
}

#[test]
fn words_are_few() {
    let long = "ä".repeat(WORDS_MAX);
    let told = short(&long);
    assert!(told.ends_with('…') && told.len() <= WORDS_MAX + '…'.len_utf8());
    let problem: Problem = serde_json::from_str(
        "{\"type\":\"urn:ietf:params:acme:error:compound\",\"subproblems\":\
         [{\"detail\":\"one\",\"identifier\":{\"type\":\"dns\",\"value\":\"a.test\"}},{\"type\":\"x\"}]}",
    )
    .unwrap();
    assert_eq!(problem_in_words(&problem), "compound; one; x");
    assert_eq!(problem_in_words(&serde_json::from_str("{}").unwrap()), "no reason was given");
}
