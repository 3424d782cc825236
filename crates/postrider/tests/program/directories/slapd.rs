//! Debian's slapd, with a directory of a few people.

use crate::interop::place::{Place, succeed};
use crate::support::tool::free_port;
use rustix::process::Signal;
use std::process::Command;

/// Where all entries are.
pub(crate) const BASE: &str = "dc=box,dc=test";

/// As whom it runs: Debian's nobody.
const USER: &str = "65534";

/// A server, which is killed at the end.
pub(crate) struct Slapd {
    place: Place,
    port: u16,
    /// While it runs.
    id: Option<u32>,
}

impl Slapd {
    /// One that knows `joe`, `ann` and `eve` of `box.test`, each with `/srv/NAME` as description; the
    /// password of `joe` is `password of joe`.
    pub(crate) fn start() -> Slapd {
        let place = Place::new(0);
        let mut slapd = Slapd { place, port: free_port(), id: None };
        slapd.place.write("slapd.conf", &slapd.settings());
        slapd.place.write("entries.ldif", &entries());
        succeed(&mut slapd.shell("mkdir db && /usr/sbin/slapadd -q -f slapd.conf -l entries.ldif"));
        slapd.run();
        slapd
    }

    /// Runs it, after a stop too.
    pub(crate) fn run(&mut self) {
        let url = self.url();
        let line = format!("exec /usr/sbin/slapd -d 0 -f slapd.conf -h {url}/");
        let command = self.shell(&line);
        self.id = Some(self.place.start(command, "slapd.log"));
        self.place.wait_listening(self.port);
    }

    pub(crate) fn stop(&mut self) {
        let id = self.id.take().expect("it runs");
        self.place.end(id);
    }

    /// Halts it, or has it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        self.place.signal(self.id.expect("it runs"), signal);
    }

    pub(crate) fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// A line for the shell in its directory, as its user.
    fn shell(&self, line: &str) -> Command {
        let words = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "sh", "-c"];
        self.place.command("slapd", &[&words[..], &[line]].concat())
    }

    fn settings(&self) -> String {
        let dir = self.place.dir();
        format!(
            "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {dir}/slapd.pid
argsfile {dir}/slapd.args
database mdb
suffix {BASE}
rootdn cn=admin,{BASE}
rootpw secret
directory {dir}/db
index mail eq
"
        )
    }
}

fn entries() -> String {
    let mut out = format!("dn: {BASE}\nobjectClass: domain\ndc: box\n\n");
    for name in ["joe", "ann", "eve"] {
        out += &format!(
            "dn: uid={name},{BASE}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\n\
             sn: {name}\nmail: {name}@box.test\ndescription: /srv/{name}\n"
        );
        // Eve has none.
        out += &if name == "eve" {
            "\n".into()
        } else {
            format!("userPassword: password of {name}\n\n")
        };
    }
    out
}
