//! Pebble, a test authority for ACME of those who run Let's Encrypt.

use crate::support::name_server::NameServer;
use crate::support::tool::free_port;
use crate::support::{Files, certificate::make_issued, tool, wait_until};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `scripts/install-test-packages` builds it.
pub(super) fn program() -> Option<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages/pebble/pebble");
    let is_there = path.exists() || skips::missing("pebble");
    is_there.then_some(path)
}

/// Where an authority is, and where it looks for those whom it asks.
pub(super) struct Place {
    pub(super) names: NameServer,
    port: u16,
    management: u16,
    /// Where challenges are answered.
    pub(super) answers: u16,
}

impl Place {
    /// With a certificate for the authority's own server. `mx.here.test` and `www.here.test` are this machine.
    pub(super) fn new(files: &Files) -> Place {
        make_issued(files.dir(), "ca", &[("pebble", "localhost")]);
        let names = NameServer::start();
        for name in ["mx.here.test", "www.here.test"] {
            names.host(name, &["127.0.0.1"]);
        }
        let [port, management, answers] = [free_port(), free_port(), free_port()];
        Place { names, port, management, answers }
    }

    /// `[acme]` with what the test adds.
    pub(super) fn section(&self, more: &str) -> String {
        let Place { port, answers, .. } = self;
        format!(
            "[acme]\ndirectory = \"https://localhost:{port}/dir\"\nterms_agreed = true\n\
             contact = \"postmaster@here.test\"\naddress = \"127.0.0.1:{answers}\"\n\
             ca_file = \"ca.pem\"\nretry = \"1s\"\n{more}\n"
        )
    }
}

/// A running authority; ended when the test ends, however it ends.
pub(super) struct Pebble(Child);

impl Pebble {
    /// Starts it with what the test has to say about its configuration and environment.
    pub(super) fn start(
        program: &Path,
        files: &Files,
        place: &Place,
        more: &[(&str, Value)],
        environment: &[(&str, &str)],
    ) -> Pebble {
        let mut config = json!({
            "listenAddress": format!("127.0.0.1:{}", place.port),
            "managementListenAddress": format!("127.0.0.1:{}", place.management),
            "certificate": "pebble.pem",
            "privateKey": "pebble.key",
            "httpPort": place.answers,
            "tlsPort": place.answers,
            "retryAfter": { "authz": 1, "order": 1 },
        });
        more.iter().for_each(|(key, value)| config[*key] = value.clone());
        files.write("pebble.json", &json!({ "pebble": config }).to_string());
        let log = std::fs::File::create(files.path("pebble.log")).expect("a file");
        let mut command = Command::new(program);
        command
            .args(["-config", "pebble.json", "-dnsserver", &place.names.address])
            .current_dir(files.dir())
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0")])
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("pebble: {error}"));
        let pebble = Pebble(child);
        for port in [place.port, place.management] {
            wait_until("pebble", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        }
        let root = format!("https://localhost:{}/roots/0", place.management);
        let (ca, to) = (files.path("ca.pem"), files.path("root.pem"));
        let (ca, to) = (ca.display().to_string(), to.display().to_string());
        tool::succeed("curl", &["-sSf", "--cacert", &ca, "-o", &to, &root]);
        pebble
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
