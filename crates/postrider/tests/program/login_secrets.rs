//! What routes log in with, where it is not one password in a file: the environment, tables, tokens that a
//! server gives out.

use crate::smarthosts::{PASSWORD, far, logins, near_with, send, write_secret};
use crate::support::Files;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::wait_until;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

fn route(domain: &str, port: u16, keys: &str) -> String {
    format!(
        "[[route]]\nname = \"{domain}\"\ndomains = [\"{domain}.test\"]\n\
         retry = {{ first = \"1s\", longest = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"], {keys} }}\n"
    )
}

#[test]
fn a_password_stands_in_the_environment_or_is_handed_over() {
    let far_files = Files::new();
    let far = far(&far_files);
    let port = far.addresses[0].port();
    let login = |place: &str| {
        format!("tls = \"required\", login = {{ user = \"relay\", password_file = \"{place}\" }}")
    };
    let routes = route("env", port, &login("env:RELAY_PASSWORD"))
        + &route("handed", port, &login("$CREDENTIALS_DIRECTORY/relay"));
    let files = Files::new();
    write_secret(&files, "relay", &format!("{PASSWORD}\n"));
    let directory = files.dir().display().to_string();
    let environment = [("RELAY_PASSWORD", PASSWORD), ("CREDENTIALS_DIRECTORY", &directory)];
    let near = near_with(&files, &routes, &environment);
    for (count, domain) in ["env", "handed"].iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
    }
    wait_until("two logins", || logins(&far_files) == ["relay"; 2]);
    shows_nothing(&files, &near, "you@env.test", "relay, by env:RELAY_PASSWORD", PASSWORD);
    near.stop();
    // Without it nothing starts.
    let output = Command::new(POSTRIDER)
        .args(["serve", "--config", CONFIG])
        .env_remove("RELAY_PASSWORD")
        .current_dir(files.dir())
        .output()
        .expect("postrider runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("env:RELAY_PASSWORD: the variable is not set"), "{said}");
    far.stop();
}

/// Nobody is shown the secret, neither by `explain`, which says where it comes from, nor on the console.
fn shows_nothing(files: &Files, server: &Server, recipient: &str, shown: &str, secret: &str) {
    let explained = Command::new(POSTRIDER)
        .args(["explain", "--config", CONFIG, recipient])
        .current_dir(files.dir())
        .output()
        .expect("postrider runs");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains(shown) && !explained.contains(secret), "{explained}");
    assert!(!server.console().iter().any(|line| line.contains(secret)));
}

#[test]
fn a_table_has_the_login_of_each_host() {
    let far_files = Files::new();
    let far = far(&far_files);
    let [starttls, implicit] = [0, 1].map(|at: usize| far.addresses[at].port());
    let login = |table: &str| format!("tls = \"required\", login = {{ table = \"{table}\" }}");
    let begins = "tls_start = \"implicit\", ";
    let routes = route("port", starttls, &login("ports"))
        + &route("host", implicit, &format!("{begins}{}", login("hosts")))
        + &route("nobody", starttls, &login("others"));
    let tables = format!(
        "[[table]]\nname = \"ports\"\n[table.inline]\n\
         \"127.0.0.1\" = \"another:wrong\"\n\"127.0.0.1:{starttls}\" = \"relay:{PASSWORD}\"\n\
         [[table]]\nname = \"hosts\"\n[table.inline]\n\"[127.0.0.1]:{implicit}\" = \"relay:{PASSWORD}\"\n\
         [[table]]\nname = \"others\"\n[table.inline]\n\"other.test\" = \"relay:{PASSWORD}\"\n"
    );
    let files = Files::new();
    let near = near_with(&files, &(tables + &routes), &[]);
    for (count, domain) in ["port", "host"].iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
    }
    wait_until("two logins", || logins(&far_files) == ["relay"; 2]);
    // Who is not in the table is not sent to without.
    send(&near, "nobody");
    let why = "no credentials: table others: no entry for 127.0.0.1";
    wait_until("it waits", || {
        files.events_of("suspended").iter().any(|event| event.to_string().contains(why))
    });
    assert_eq!(logins(&far_files).len(), 2);
    let shown = "by table ports and host";
    shows_nothing(&files, &near, "you@port.test", shown, PASSWORD);
    near.stop();
    far.stop();
}

/// Gives out tokens, `token-1` and on, each good for ten seconds, for the refresh token that it gave out
/// last. What it is asked it tells on standard output; lines on its input say how it answers from then on.
const ENDPOINT: &str = "\
import http.server, json, sys, threading, urllib.parse
state = {'how': 'well', 'tokens': 0, 'refresh': 'refresh-0'}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers['Content-Length'])).decode())
        known = (self.headers['Authorization'] == 'Basic cG9zdHJpZGVyOnMlM0FjcmV0' and self.path == '/token'
            and form['grant_type'] == ['refresh_token'] and form['scope'] == ['mail send']
            and form['refresh_token'] == [state['refresh']])
        status, answer = 200, {}
        if state['how'] == 'ill' or not known:
            status, answer = 400, {'error': 'invalid_grant', 'error_description': 'refresh-0 is bad'}
        elif state['how'] == 'huge':
            answer = {'x': 'x' * 100_000}
        else:
            state['tokens'] += 1
            state['refresh'] = f\"refresh-{state['tokens']}\"
            answer = {'access_token': f\"token-{state['tokens']}\", 'token_type': 'Bearer',
                'expires_in': 10, 'refresh_token': state['refresh']}
        print(status, flush=True)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_address[1], flush=True)
state['how'] = sys.argv[1]
def listen():
    for line in sys.stdin: state['how'] = line.strip()
threading.Thread(target=listen, daemon=True).start()
server.serve_forever()
";

struct Endpoint {
    child: Child,
    port: u16,
    _said: BufReader<ChildStdout>,
}

impl Endpoint {
    fn start(how: &str) -> Endpoint {
        let mut command = Command::new("python3");
        command.args(["-c", ENDPOINT, how]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        let mut said = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a port");
        Endpoint { child, port: line.trim().parse().expect("a port"), _said: said }
    }

    fn answer(&mut self, how: &str) {
        use std::io::Write as _;
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
        writeln!(stdin, "{how}").expect("it reads");
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host that takes any token, and keeps what was said in logins.
fn taker() -> (Peer, Arc<Mutex<Vec<String>>>) {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&said);
    let peer = Peer::start_at("127.0.0.1:0", "250 AUTH XOAUTH2", move |line| {
        let initial = line.strip_prefix("AUTH XOAUTH2 ")?;
        kept.lock().expect("no panic").push(initial.to_owned());
        Some("235 2.7.0 Welcome".to_owned())
    });
    (peer, said)
}

fn oauth_route(files: &Files, endpoint: &Endpoint, peer: &Peer) -> String {
    write_secret(files, "client", "s:cret\n");
    write_secret(files, "refresh", "refresh-0\n");
    let port = peer.address.rsplit_once(':').expect("a port").1.parse().expect("a port");
    route(
        "oauth",
        port,
        &format!(
            "idle_timeout = \"1s\", login = {{ user = \"relay@x\", oauth = {{ \
             url = \"http://127.0.0.1:{}/token\", client_id = \"postrider\", \
             client_secret_file = \"client\", refresh_token_file = \"refresh\", \
             scope = \"mail send\" }} }}",
            endpoint.port
        ),
    )
}

/// What XOAUTH2 says.
fn initial(token: &str) -> String {
    use base64::Engine as _;
    let text = format!("user=relay@x\u{1}auth=Bearer {token}\u{1}\u{1}");
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn a_token_is_fetched_and_renewed_before_its_end() {
    let (endpoint, files) = (Endpoint::start("well"), Files::new());
    let (peer, said) = taker();
    let near = near_with(&files, &oauth_route(&files, &endpoint, &peer), &[]);
    send(&near, "oauth");
    peer.wait_taken(1);
    // Its next one is there before the first has ended, and so is what it is renewed with, which is
    // kept first: the second is in use for sure when the third has come.
    let refresh = || std::fs::read_to_string(files.path("refresh")).expect("it is there");
    wait_until("it is renewed", || refresh() == "refresh-2\n");
    wait_until("it is renewed again", || refresh() == "refresh-3\n");
    send(&near, "oauth");
    peer.wait_taken(2);
    let said = said.lock().expect("no panic").clone();
    assert_eq!(said[0], initial("token-1"));
    assert!(said[1] == initial("token-2") || said[1] == initial("token-3"), "{said:?}");
    let shown = format!("relay@x, by a token of 127.0.0.1:{}", endpoint.port);
    shows_nothing(&files, &near, "you@oauth.test", &shown, "refresh-");
    shows_nothing(&files, &near, "you@oauth.test", &shown, "s:cret");
    near.stop();
}

#[test]
fn without_a_token_mail_waits_for_a_reason_that_has_a_name() {
    for (how, why) in [("ill", "it returned 400 Bad Request: invalid_grant"), ("huge", "limit")] {
        let (mut endpoint, files) = (Endpoint::start(how), Files::new());
        let (peer, said) = taker();
        let near = near_with(&files, &oauth_route(&files, &endpoint, &peer), &[]);
        send(&near, "oauth");
        let place = format!("no credentials for relay@x: a token of 127.0.0.1:{}: ", endpoint.port);
        wait_until(why, || {
            files.events_of("suspended").iter().any(|event| {
                let reason = event["reason"].as_str().unwrap_or_default();
                reason.contains(&place) && reason.contains(why) && event["status"] == "4.3.5"
            })
        });
        near.wait_console("it is told", |line| {
            line.contains("not renewed: ") && line.contains(why)
        });
        assert_eq!(said.lock().expect("no panic").len(), 0, "nothing is said without");
        endpoint.answer("well");
        peer.wait_taken(1);
        assert!(!near.console().iter().any(|line| line.contains("refresh-0")));
        near.stop();
    }
}
