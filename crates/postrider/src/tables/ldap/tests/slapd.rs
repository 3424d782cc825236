//! Debian's slapd as a process of a test's own, with a directory that it made.

use super::admin::Admin;
use crate::tables::testing::Process;
use crate::tables::testing::unprivileged::{self, free_port};
use rustix::process::Signal;
use std::fs;
use tempfile::TempDir;

const ADMIN: &str = "cn=admin,dc=example,dc=test";
const PACKAGE: &str = "slapd";

/// A server. It is killed at the end.
pub(super) struct Slapd {
    process: Option<Process>,
    dir: TempDir,
    port: u16,
    tls_port: u16,
}

pub(super) fn is_possible() -> bool {
    unprivileged::is_possible(PACKAGE)
}

impl Slapd {
    /// One with the entries of [`super::directory`], running.
    pub(super) fn start() -> Slapd {
        Slapd::start_with("", "")
    }

    /// The same, one that tells of changes (RFC 4533); `more` are further settings for that.
    pub(super) fn start_telling(more: &str) -> Slapd {
        Slapd::start_with("moduleload syncprov", &format!("overlay syncprov\n{more}"))
    }

    /// One with these entries, for which it has room, whether or not it tells of changes.
    pub(super) fn start_large(ldif: &str, is_telling: bool) -> Slapd {
        let (modules, overlay) =
            if is_telling { ("moduleload syncprov", "overlay syncprov\n") } else { ("", "") };
        let more = format!("maxsize 2147483648\nlimits * size=unlimited\n{overlay}");
        Slapd::start_of(modules, &more, ldif)
    }

    /// One with further modules, and further settings for its directory.
    fn start_with(modules: &str, more: &str) -> Slapd {
        Slapd::start_of(modules, more, &super::directory::ldif())
    }

    fn start_of(modules: &str, more: &str, ldif: &str) -> Slapd {
        let dir = unprivileged::directory();
        let mut slapd = Slapd { process: None, dir, port: free_port(), tls_port: free_port() };
        slapd.make_certificates();
        slapd.write("slapd.conf", &slapd.settings(modules, more));
        slapd.write("entries.ldif", ldif);
        slapd.succeed("mkdir db && /usr/sbin/slapadd -q -f slapd.conf -l entries.ldif");
        slapd.run();
        slapd
    }

    /// Runs it, after a stop too.
    pub(super) fn run(&mut self) {
        let line = format!(
            "/usr/sbin/slapd -d 0 -f {} -h 'ldap://127.0.0.1:{}/ ldaps://127.0.0.1:{}/ ldapi://{}/'",
            self.file("slapd.conf"),
            self.port,
            self.tls_port,
            self.socket().replace('/', "%2F")
        );
        self.process = Some(unprivileged::start(PACKAGE, &line, self.port));
    }

    pub(super) fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            process.end(Signal::KILL);
        }
    }

    /// Runs a line in its directory, as its user.
    fn succeed(&self, line: &str) {
        unprivileged::succeed(PACKAGE, &format!("cd {} && {line}", self.dir.path().display()));
    }

    /// A file's path as it stands in a configuration.
    pub(super) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).expect("a file");
    }

    pub(super) fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// A connection that may change what is there.
    pub(super) fn admin(&self) -> Admin {
        Admin::connect(self.port, ADMIN, "secret")
    }

    pub(super) fn tls_url(&self) -> String {
        format!("ldaps://127.0.0.1:{}", self.tls_port)
    }

    pub(super) fn socket(&self) -> String {
        self.file("ldapi")
    }

    fn settings(&self, modules: &str, more: &str) -> String {
        let dir = self.dir.path().display();
        format!(
            "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
{modules}
pidfile {dir}/slapd.pid
argsfile {dir}/slapd.args
TLSCACertificateFile {dir}/ca.pem
TLSCertificateFile {dir}/server.pem
TLSCertificateKeyFile {dir}/server.key
TLSVerifyClient try
authz-regexp gidNumber=.*\\+uidNumber=0,cn=peercred,cn=external,cn=auth {ADMIN}
authz-regexp cn=postrider {ADMIN}
database mdb
suffix dc=example,dc=test
rootdn {ADMIN}
rootpw secret
directory {dir}/db
index mail,uid,cn eq
access to dn.subtree=ou=closed,dc=example,dc=test by users read by * none
access to attrs=userPassword by anonymous auth
access to * by * read
{more}
"
        )
    }

    /// An authority, and certificates of the server and of a client.
    fn make_certificates(&self) {
        let request = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        self.succeed(&format!("{request} -x509 -subj /CN=authority -keyout ca.key -out ca.pem"));
        self.write("server.ext", "subjectAltName=IP:127.0.0.1\n");
        self.write("client.ext", "extendedKeyUsage=clientAuth\n");
        for (who, name) in [("server", "directory"), ("client", "postrider")] {
            self.succeed(&format!(
                "{request} -subj /CN={name} -keyout {who}.key -out {who}.csr && openssl x509 -req \
                 -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                 -extfile {who}.ext -out {who}.pem"
            ));
        }
    }
}
