//! A zone that is signed, one that is not, and a resolver that validates: Debian's ldnsutils and
//! unbound.

use crate::interop::place::{Place, succeed};
use crate::support::tool;
use crate::support::tool::free_port;
use std::path::Path;

/// `dane.test`, signed, and `plain.test`, which is not.
pub(super) struct Zones {
    /// The resolver, as `[dns]` has it.
    pub(super) server: String,
    /// Where it is asked by those who know of port 53 only.
    pub(super) resolver: String,
    _place: Place,
}

const HEAD: &str =
    "$TTL 300\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\nns IN A 127.0.0.1\n";

impl Zones {
    /// The records of both. What is all zeros in the signed one is changed after it was signed.
    pub(super) fn start(signed: &str, plain: &str) -> Zones {
        let mut place = Place::new(0);
        place.write("dane.test.zone", &format!("$ORIGIN dane.test.\n{HEAD}{signed}"));
        place.write("plain.test.zone", &format!("$ORIGIN plain.test.\n{HEAD}{plain}"));
        let sign = "key=$(ldns-keygen -a ECDSAP256SHA256 -k dane.test) && mv $key.key anchor && \
                    cp anchor $key.key && ldns-signzone -n dane.test.zone $key && \
                    sed -i 's/ 000000/ 110000/' dane.test.zone.signed";
        succeed(&mut place.command("ldnsutils", &["sh", "-c", sign]));
        let port = free_port();
        // No other test's, as the port is its own.
        let [high, low] = port.to_be_bytes();
        let resolver = format!("127.{high}.{low}.53");
        place.write("unbound.conf", &settings(&place.dir(), (port, &resolver)));
        let server = place.command("unbound", &["unbound", "-d", "-c", "unbound.conf"]);
        place.start(server, "unbound.log");
        place.wait_listening(port);
        Zones { server: format!("127.0.0.1:{port}"), resolver, _place: place }
    }
}

/// It has both zones as if it had asked for them, and believes in the key of the signed one.
fn settings(dir: &str, (port, resolver): (u16, &str)) -> String {
    let zone = |name: &str, file: &str| {
        format!(
            "auth-zone:\n  name: \"{name}\"\n  zonefile: \"{file}\"\n  for-downstream: no\n  \
             for-upstream: yes\n  fallback-enabled: no\n"
        )
    };
    format!(
        "server:\n  interface: 127.0.0.1@{port}\n  interface: {resolver}@53\n  username: \"\"\n  chroot: \"\"\n  \
         directory: \"{dir}\"\n  pidfile: \"\"\n  use-syslog: no\n  do-daemonize: no\n  \
         do-not-query-localhost: no\n  module-config: \"validator iterator\"\n  \
         trust-anchor-file: \"anchor\"\n  local-zone: \"test.\" nodefault\n  val-log-level: 2\n\
         remote-control:\n  control-enable: no\n{}{}",
        zone("dane.test.", "dane.test.zone.signed"),
        zone("plain.test.", "plain.test.zone"),
    )
}

/// SHA-256 of a certificate, for `2 0 1` and `3 0 1`.
pub(super) fn certificate_digest(pem: &Path) -> String {
    digest(&format!("openssl x509 -in {} -outform DER", pem.display()))
}

/// SHA-256 of its key, for `2 1 1` and `3 1 1`.
pub(super) fn key_digest(pem: &Path) -> String {
    let public = format!("openssl x509 -in {} -noout -pubkey", pem.display());
    digest(&format!("{public} | openssl pkey -pubin -outform DER"))
}

fn digest(command: &str) -> String {
    let text = tool::succeed("sh", &["-c", &format!("{command} | sha256sum")]);
    text.split(' ').next().expect("a digest").to_owned()
}
