//! An OAuth 2.0 server that says whose tokens are, in one way for each token.

use crate::support::Files;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

/// Its answers. It wants to know who asks, and tells on standard output each time it is asked.
const SERVER: &str = "\
import http.server, json, ssl, sys, time, urllib.parse
good = {'active': True, 'username': 'jo', 'scope': 'openid mail.send'}
said = {
    'good': good, 'until': good | {'exp': time.time() + 3600}, 'over': good | {'exp': time.time() - 1},
    'other': good | {'scope': 'openid'}, 'nameless': {'active': True, 'scope': 'mail.send'},
    'huge': good | {'x': 'x' * 100_000},
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers['Content-Length'])).decode())
        token = form['token'][0]
        print('asked', flush=True)
        if token == 'slow': time.sleep(30)
        status, text = 200, json.dumps(said.get(token, {'active': False}))
        if self.headers['Authorization'] != 'Basic cG9zdHJpZGVyOnMlM0FjcmV0' or self.path != '/introspect':
            status = 401
        if token == 'moved': status = 302
        if token == 'broken': text = text[:-1]
        if token == 'failing': status = 503
        self.send_response(status)
        if status == 302: self.send_header('Location', '/introspect')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1] + '.pem', sys.argv[1] + '.key')
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

/// The server; it ends with this.
pub(crate) struct IdServer {
    child: Child,
    settings: String,
}

impl IdServer {
    /// Encrypted with the certificate in this file, issued by `ca.pem` for `localhost`; or not at all.
    pub(crate) fn start(files: &Files, certificate: Option<&str>) -> IdServer {
        let secret = files.write("secret", "s:cret\n");
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).args(certificate.map(|file| files.path(file)));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("stdout is a pipe");
        BufReader::with_capacity(1, stdout).read_line(&mut line).expect("a port");
        let (scheme, more) = match certificate {
            Some(_) => {
                ("https://localhost", format!(", ca_file = \"{}\"", files.path("ca.pem").display()))
            }
            None => ("http://127.0.0.1", String::new()),
        };
        let settings = format!(
            "introspection = {{ url = \"{scheme}:{}/introspect\", client_id = \"postrider\", \
             secret_file = \"{}\", scope = \"mail.send\"{more} }}",
            line.trim(),
            secret.display()
        );
        IdServer { child, settings }
    }

    /// The key of `logins` that names it.
    pub(crate) fn settings(&self) -> &str {
        &self.settings
    }

    /// How often it was asked. It is asked nothing more.
    pub(crate) fn end(mut self) -> usize {
        self.child.kill().expect("it runs");
        let mut said = String::new();
        let stdout = self.child.stdout.as_mut().expect("stdout is a pipe");
        stdout.read_to_string(&mut said).expect("text");
        said.lines().count()
    }
}

impl Drop for IdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
