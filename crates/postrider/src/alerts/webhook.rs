//! An alert to a web server: POST with JSON, over TLS that is verified, or within this machine.

use super::settings::Webhook;
use crate::https;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Timeout for one request, from the connection to the last octet of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between attempts; there is one attempt more than pauses.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
];
/// Maximum size of a response, which is not read further.
const RESPONSE_BYTES_MAX: usize = 16 << 10;

/// Posts an alert, with a bounded number of attempts.
///
/// # Errors
/// The failure of the last attempt, without the path of the URL, which may be a secret.
pub(super) async fn post(webhook: &Webhook, json: Vec<u8>) -> Result<(), String> {
    post_with(webhook, json, &PAUSES).await
}

async fn post_with(webhook: &Webhook, json: Vec<u8>, pauses: &[Duration]) -> Result<(), String> {
    let body = Bytes::from(json);
    let mut pauses = pauses.iter();
    loop {
        let late = |_| Err(format!("no response within {REQUEST_TIMEOUT:?}"));
        let sent = timeout(REQUEST_TIMEOUT, send(webhook, body.clone())).await.unwrap_or_else(late);
        match (sent, pauses.next()) {
            (Ok(()), _) => return Ok(()),
            (Err(_), Some(pause)) => sleep(*pause).await,
            (Err(why), None) => return Err(format!("{}: {why}", webhook.at.authority)),
        }
    }
}

async fn send(webhook: &Webhook, body: Bytes) -> Result<(), String> {
    let Webhook { at, ca_file } = webhook;
    let client = match at.is_encrypted {
        true => Some(Arc::new(https::client_aside(ca_file.clone()).await?)),
        false => None,
    };
    let request = Request::post(&*at.path)
        .header(HOST, &*at.authority)
        .header(USER_AGENT, https::USER_AGENT_NAME)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|_| "the request cannot be created".to_owned())?;
    let stream = https::connect(&at.host, at.port, client).await?;
    let response = https::exchange_whole(stream, request, RESPONSE_BYTES_MAX).await?;
    // A redirect would pass the alert to a server that the operator did not name.
    match response.status() {
        status if status.is_success() => Ok(()),
        status if status.is_redirection() => {
            Err(format!("it returned {status}; redirects are not followed"))
        }
        status => Err(format!("it returned {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::WebPlace;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Posts to a server with these responses, in turn. Returns the number of requests, and the result.
    async fn posted(responses: &[&str]) -> (usize, Result<(), String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/secret", listener.local_addr().unwrap());
        let webhook = Webhook { at: WebPlace::parse(&url).unwrap(), ca_file: None };
        let server = async {
            for (response, count) in responses.iter().zip(1..) {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4_096];
                let length = stream.read(&mut request).await.unwrap();
                assert!(request[..length].starts_with(b"POST /secret HTTP/1.1\r\n"), "{count}");
                let text = format!("HTTP/1.1 {response}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        };
        let pauses = [Duration::ZERO; PAUSES.len()];
        let ((), result) = tokio::join!(server, post_with(&webhook, b"{}".to_vec(), &pauses));
        let result = result.map_err(|why| why.replace(&*webhook.at.authority, "HOST"));
        (responses.len(), result)
    }

    #[tokio::test]
    async fn requests_are_bounded_and_redirects_are_failures() {
        let down = "503 Service Unavailable";
        assert_eq!(posted(&[down, down, "204 No Content"]).await, (3, Ok(())));
        assert_eq!(posted(&[down, down, down, down, "200 OK"]).await, (5, Ok(())));
        let redirect = "302 Found\r\nLocation: http://127.0.0.1:1/";
        let result = posted(&[redirect; 5]).await.1.unwrap_err();
        assert_eq!(result, "HOST: it returned 302 Found; redirects are not followed");
    }
}
