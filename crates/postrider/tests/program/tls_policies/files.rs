//! A web server for policies, at port 443 of an address of this machine that nobody else has: HTTPS in
//! Python, for as many hosts as there are.

use crate::support::Files;
use crate::support::certificate::{EC, make_certificate, make_issued};
use crate::support::tool::free_port;
use crate::support::wait_until;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

/// What a host answers is in the file of its name: `STATUS TYPE SECONDS`, and the body.
const SERVER: &str = "\
import http.server, os, ssl, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        host = os.path.basename(self.headers['Host'])
        with open('asked', 'a') as asked: print(host, self.path, file=asked)
        with open(os.path.join('hosts', host)) as file: head, body = file.read().split('\\n', 1)
        status, kind, seconds = head.split(' ')
        time.sleep(int(seconds))
        self.send_response(int(status))
        self.send_header('Content-Type', kind)
        self.send_header('Location', 'https://mta-sts.enforced.plain.test/.well-known/mta-sts.txt')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *args): pass
def context(name):
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(name + '.pem', name + '.key')
    return made
usual, other = context('web'), context('stranger')
def choose(socket, name, _):
    if name and name.startswith('mta-sts.forged.'): socket.context = other
usual.sni_callback = choose
class Server(http.server.ThreadingHTTPServer):
    def get_request(self):
        socket, address = super().get_request()
        return usual.wrap_socket(socket, server_side=True, do_handshake_on_connect=False), address
Server((sys.argv[1], 443), Handler).serve_forever()
";

/// The web server, which ends with this.
pub(super) struct PolicyFiles {
    /// Where it is.
    pub(super) address: Ipv4Addr,
    files: Files,
    child: Child,
}

impl PolicyFiles {
    /// Starts it for these hosts, each `mta-sts.NAME.plain.test` with what it answers. `authority.pem`
    /// has issued its certificate, and the one for the host `issued`.
    pub(super) fn start(hosts: &[(&str, String)], issued: &str) -> PolicyFiles {
        let files = Files::new();
        let names = hosts.iter().map(|(name, _)| format!("mta-sts.{name}.plain.test"));
        let all = names.collect::<Vec<_>>().join(" ");
        make_issued(files.dir(), "authority", &[("web", &all), ("issued", issued)]);
        make_certificate(files.dir(), "stranger", EC, &["mta-sts.forged.plain.test"]);
        std::fs::create_dir(files.path("hosts")).expect("a directory");
        // What is free to one test alone is the number of a port.
        let [high, low] = free_port().to_be_bytes();
        let address = Ipv4Addr::new(127, 77, high, low);
        let child = Command::new("python3")
            .args(["-c", SERVER, &address.to_string()])
            .current_dir(files.dir())
            .stdin(Stdio::null())
            .spawn();
        let server = PolicyFiles { address, files, child: child.expect("Python") };
        for (name, answer) in hosts {
            server.answer(name, answer);
        }
        wait_until("the web server listens", || TcpStream::connect((address, 443)).is_ok());
        server
    }

    /// What a host answers from now on.
    pub(super) fn answer(&self, name: &str, answer: &str) {
        self.files.write(&format!("hosts/mta-sts.{name}.plain.test"), answer);
    }

    /// How often a host was asked.
    pub(super) fn asked(&self, name: &str) -> usize {
        let asked = std::fs::read_to_string(self.files.path("asked")).unwrap_or_default();
        let line = format!("mta-sts.{name}.plain.test /.well-known/mta-sts.txt");
        asked.lines().filter(|asked| *asked == line).count()
    }

    /// A file that was made here.
    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.files.path(name)
    }
}

impl Drop for PolicyFiles {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
