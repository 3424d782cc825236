//! Each client by each mechanism that it knows, on both listeners.

use super::clients::{LISTENERS, Login, Told, has_msmtp, msmtp, swaks};
use super::tokens::IdServer;
use super::{assert_refused, assert_sent, server};
use crate::support::Files;
use crate::support::certificate::make_issued;
use crate::support::foreign::build_go;
use crate::support::server::Server;
use crate::support::tool;
use std::path::{Path, PathBuf};
use std::process::Command;

const PASSWORD: &str = "pencil";
/// Whose it is says the server of tokens: `jo`.
const TOKEN: &str = "good";

fn curl(files: &Files, server: &Server, listener: usize, login: Login<'_>) -> Told {
    let message = files.write("message.txt", "From: me@source.test\r\nSubject: x\r\n\r\nbody\r\n");
    let scheme = ["smtp", "smtps"][listener];
    let url = format!("{scheme}://127.0.0.1:{}/here.test", server.addresses[listener].port());
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--ssl-reqd", "--url", &url]);
    command.args(["--login-options", &format!("AUTH={}", login.mechanism)]);
    match login.mechanism {
        "OAUTHBEARER" | "XOAUTH2" => {
            command.args(["--user", login.user, "--oauth2-bearer", login.password]);
        }
        "EXTERNAL" => {
            let [pem, key] = certificate(files);
            command.args(["--user", &format!("{}:", login.user)]);
            command.arg("--cert").arg(pem).arg("--key").arg(key);
        }
        _ => {
            command.args(["--user", &format!("{}:{}", login.user, login.password)]);
        }
    }
    command.args(["--mail-from", "me@source.test", "--mail-rcpt", "you@far.test", "--upload-file"]);
    command.arg(message).output().expect("it runs").into()
}

fn certificate(files: &Files) -> [PathBuf; 2] {
    ["pem", "key"].map(|kind| files.path(&format!("jo.{kind}")))
}

fn go(program: &Path, server: &Server, listener: usize, login: Login<'_>) -> Told {
    let address = format!("127.0.0.1:{}", server.addresses[listener].port());
    let how = ["starttls", "implicit"][listener];
    let words = [&*address, how, login.user, login.password];
    Command::new(program).args(words).output().expect("it runs").into()
}

/// `scripts/install-test-packages` fetches it.
fn nodemailer() -> Option<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages/nodemailer/package");
    (path.exists() || skips::missing("nodemailer")).then_some(path)
}

fn node(package: &Path, server: &Server, listener: usize, login: Login<'_>) -> Told {
    let script = "\
        const [path, port, secure, method, user, secret] = process.argv.slice(1);\n\
        const auth = method === 'XOAUTH2' ? { type: 'OAuth2', user, accessToken: secret } : { user, pass: secret };\n\
        const transport = require(path).createTransport({ host: '127.0.0.1', port: Number(port),\n\
            secure: secure === '1', requireTLS: true, tls: { rejectUnauthorized: false }, auth, authMethod: method });\n\
        transport.sendMail({ from: 'me@source.test', to: 'you@far.test', subject: 'x', text: 'body' })\n\
            .then((sent) => console.log(sent.response), (error) => { console.log(String(error)); process.exit(1); });\n";
    let port = server.addresses[listener].port().to_string();
    let mut command = Command::new("node");
    command.arg("-e").arg(script).arg(package);
    command.args([&port, &listener.to_string(), login.mechanism, login.user, login.password]);
    command.output().expect("it runs").into()
}

/// GNU SASL's program logs in and sends nothing; it knows STARTTLS only.
fn gsasl(server: &Server, mechanism: &str, password: &str, more: &[&str]) -> Told {
    let at = format!("--connect=127.0.0.1:{}", server.addresses[0].port());
    let mut command = Command::new("sh");
    let line = "printf '\\n' | timeout 10 gsasl --client --smtp --starttls --x509-ca-file= \"$@\"";
    command.args(["-c", line, "gsasl", &at, &format!("--mechanism={mechanism}")]);
    command.args([
        "--authentication-id=jo",
        "--authorization-id=jo",
        "--quality-of-protection=qop-auth",
    ]);
    command.arg(format!("--password={password}")).args(more);
    command.output().expect("it runs").into()
}

#[test]
fn each_client_logs_in_by_each_mechanism_that_it_knows() {
    let files = Files::new();
    make_issued(files.dir(), "ca", &[("jo", "jo.users.test"), ("id", "localhost")]);
    let id_server = IdServer::start(&files, Some("id"));
    let keys = format!(
        "logins = {{ table = \"passwords\", {} }}\n\
         mechanisms = [\"plain\", \"login\", \"scram-sha-256\", \"scram-sha-256-plus\", \"external\", \
         \"oauthbearer\", \"xoauth2\"]\n\
         client_certificates = {{ authorities = \"ca.pem\", users = {{ table = \"users\" }} }}",
        id_server.settings()
    );
    let tables = "[[table]]\nname = \"passwords\"\n[table.inline]\njo = \"{PLAIN}pencil\"\n\
                  [[table]]\nname = \"users\"\n[table.inline]\n\"jo.users.test\" = \"jo\"\n";
    let server = server(&files, &keys, tables);
    let all = ["PLAIN", "LOGIN", "SCRAM-SHA-256", "EXTERNAL", "OAUTHBEARER", "XOAUTH2"];
    let login = |mechanism: &'static str| {
        let is_token = matches!(mechanism, "OAUTHBEARER" | "XOAUTH2");
        Login { mechanism, user: "jo", password: if is_token { TOKEN } else { PASSWORD } }
    };
    let [pem, key] = certificate(&files);
    let shown =
        [format!("--tls-cert-file={}", pem.display()), format!("--tls-key-file={}", key.display())];
    let shown = [&*shown[0], &*shown[1]];
    let go_program = build_go(&files, "go-submission");
    let (has_msmtp, package) = (has_msmtp(), nodemailer());
    let mut sent = 0;
    let mut check = |told: Told, what: String| {
        assert_sent(&told, &what);
        sent += 1;
    };
    for listener in LISTENERS {
        for mechanism in all.into_iter().filter(|_| has_msmtp) {
            let more = if mechanism == "EXTERNAL" { &shown[..] } else { &[] };
            let told = msmtp(&files, &server, listener, login(mechanism), more);
            check(told, format!("msmtp {listener} {mechanism}"));
        }
        // This build has no SCRAM; where one has, it is tried elsewhere.
        for mechanism in all.into_iter().filter(|one| *one != "SCRAM-SHA-256") {
            let told = curl(&files, &server, listener, login(mechanism));
            check(told, format!("curl {listener} {mechanism}"));
        }
        check(go(&go_program, &server, listener, login("PLAIN")), format!("Go {listener}"));
        for mechanism in ["PLAIN", "LOGIN", "XOAUTH2"] {
            if let Some(package) = &package {
                let told = node(package, &server, listener, login(mechanism));
                check(told, format!("nodemailer {listener} {mechanism}"));
            }
        }
        for mechanism in ["PLAIN", "LOGIN"] {
            check(swaks(&server, listener, login(mechanism)), format!("swaks {mechanism}"));
        }
    }
    let received = files.wait_events("received", sent);
    assert!(received.iter().all(|event| event["login"] == "jo"), "{received:?}");
    // What was said of a token is remembered.
    let asked = id_server.end();
    assert_eq!(asked, 1, "the token was asked for");
}

#[test]
fn scram_is_bound_to_its_channel() {
    if Command::new("gsasl").arg("--version").output().is_err() {
        skips::missing("gsasl");
        return;
    }
    let files = Files::new();
    let keys = "logins = { table = \"passwords\" }\n\
                mechanisms = [\"scram-sha-256\", \"scram-sha-256-plus\"]";
    let table = "[[table]]\nname = \"passwords\"\n[table.inline]\njo = \"{PLAIN}pencil\"\n";
    let server = server(&files, keys, table);
    let accepted = |told: Told| assert!(told.said.contains("235 2.7.0"), "{}", told.said);
    accepted(gsasl(&server, "SCRAM-SHA-256-PLUS", PASSWORD, &[]));
    assert_refused(&gsasl(&server, "SCRAM-SHA-256-PLUS", "pen", &[]), "535 5.7.8");
    accepted(gsasl(&server, "SCRAM-SHA-256", PASSWORD, &["--no-cb"]));
    // One that could bind, and says that nobody has offered that: somebody has taken the offer away.
    let said = tool::python(
        "import base64, smtplib, ssl, sys\n\
         c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         c.ehlo()\n\
         print(c.docmd('AUTH SCRAM-SHA-256 ' + base64.b64encode(b'y,,n=jo,r=x').decode())[1].decode(), end='')\n",
        &[&server.addresses[1].port().to_string()],
    );
    assert_eq!(said, "5.7.8 TLS channel binding does not match");
}

#[test]
fn tokens_are_asked_for_and_shown_to_nobody() {
    let files = Files::new();
    let id_server = IdServer::start(&files, None);
    let keys = format!(
        "logins = {{ {}, timeout = \"1s\" }}\nmechanisms = [\"oauthbearer\", \"xoauth2\"]",
        id_server.settings()
    );
    let server = server(&files, &keys, "");
    let said = tool::python(
        "import base64, smtplib, ssl, sys\n\
         def login(mechanism, text):\n\
         \x20   c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         \x20   c.ehlo()\n\
         \x20   code, said = c.docmd('AUTH ' + mechanism + ' ' + base64.b64encode(text.encode()).decode())\n\
         \x20   if code != 334: return str(code)\n\
         \x20   told = base64.b64decode(said).decode()\n\
         \x20   return told + ' ' + str(c.docmd(base64.b64encode(b'\\1').decode())[0])\n\
         for token in ('good', 'until', 'over', 'other', 'nobodys', 'nameless', 'huge', 'moved', 'broken', 'failing', 'slow', 'good'):\n\
         \x20   print(token, login('OAUTHBEARER', 'n,a=JO,\\1auth=Bearer ' + token + '\\1\\1'))\n\
         print('al', login('XOAUTH2', 'user=al\\1auth=Bearer good\\1\\1'))\n",
        &[&server.addresses[1].port().to_string()],
    );
    let refused =
        "{\"status\":\"invalid_token\",\"schemes\":\"bearer\",\"scope\":\"mail.send\"} 535";
    let expected = format!(
        "good 235\nuntil 235\nover {refused}\nother {refused}\nnobodys {refused}\nnameless 454\nhuge 454\n\
         moved 454\nbroken 454\nfailing 454\nslow 454\ngood 235\n\
         al {{\"status\":\"401\",\"schemes\":\"bearer\",\"scope\":\"mail.send\"}} 535\n"
    );
    assert_eq!(said, expected);
    assert_eq!(id_server.end(), 11, "once for each");
    let console = server.console().join("\n");
    for secret in ["nobodys", "nameless", "s:cret", "cG9zdHJpZGVy"] {
        assert!(!console.contains(secret), "{secret}: {console}");
    }
}
