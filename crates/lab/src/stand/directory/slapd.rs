//! OpenLDAP's slapd with all users, on a port of its own.

use super::{Error, Population, Result, User};
use crate::stand::system;
use load::file::{self, FileError};
use load::listener::free_port;
use load::proc::Usage;
use load::process::Process;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SLAPD: &str = "/usr/sbin/slapd";
const SLAPADD: &str = "/usr/sbin/slapadd";
/// It must listen within this time.
const START_MAX: Duration = Duration::from_secs(60);
/// And end within this one.
const STOP_MAX: Duration = Duration::from_secs(30);
/// What its database may grow to: room for ten million users.
const DATABASE_BYTES_MAX: u64 = 16 << 30;

/// A running slapd; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Slapd {
    process: Process,
    address: String,
}

/// Whether it can be started here.
///
/// # Errors
/// What is missing.
pub(crate) fn find() -> Result<()> {
    if [SLAPD, SLAPADD].iter().all(|program| Path::new(program).exists()) {
        return Ok(());
    }
    let help =
        "slapd is not installed (Debian: package slapd; scripts/with-packages slapd COMMAND)";
    Err(Error::Missing(help.to_owned()))
}

impl Slapd {
    /// Fills the database if that wasn't done yet, and starts. `log` is for what it says.
    ///
    /// # Errors
    /// When the database can't be filled, or it doesn't listen.
    pub(crate) fn start(population: &Population, log: &Path) -> Result<Slapd> {
        let port = free_port().map_err(|error| Error::Missing(error.to_string()))?;
        Slapd::start_at(format!("127.0.0.1:{port}"), population, log)
    }

    /// The same where others look for it, `HOST:PORT`.
    ///
    /// # Errors
    /// When the database can't be filled, or it doesn't listen.
    pub(crate) fn start_at(address: String, population: &Population, log: &Path) -> Result<Slapd> {
        let directory = population.once("slapd", |directory| fill(population, directory))?;
        let config = directory.join("slapd.conf");
        file::write(&config, &settings(&directory))?;
        let mut command = Command::new(SLAPD);
        // With a level of messages it stays in the foreground: a child of ours.
        command.args(["-d", "none", "-h", &format!("ldap://{address}/"), "-f"]).arg(&config);
        let log = file::create(log)?;
        let output = log.try_clone().map_err(FileError::at(&config))?;
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        let process = Process::start("slapd", &mut command)?;
        let mut slapd = Slapd { process, address };
        slapd.wait_until_it_listens()?;
        Ok(slapd)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            self.process.check_running()?;
            if begun.elapsed() > START_MAX {
                return Err(Error::Server(format!("slapd does not answer at {}", self.address)));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Where it listens, `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Has it answer nothing until it may go on, or go on.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn pause(&mut self, is_paused: bool) -> Result<()> {
        self.process.check_running()?;
        Ok(self.process.pause(is_paused)?)
    }

    /// What it has used of processors.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        Usage::of_one(self.process.pid()).map_or(0.0, |usage| usage.cpu_seconds())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it had ended, or doesn't end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.process.check_running()?;
        self.process.stop(STOP_MAX)?;
        Ok(())
    }
}

/// Makes the database of all users.
fn fill(population: &Population, directory: &Path) -> Result<()> {
    file::create_directory(&directory.join("db"))?;
    let config = directory.join("slapd.conf");
    file::write(&config, &settings(directory))?;
    let ldif = directory.join("users.ldif");
    let mut out = BufWriter::new(file::create(&ldif)?);
    let written = write(population.users(), &mut out).and_then(|()| out.flush());
    written.map_err(FileError::at(&ldif))?;
    eprintln!("filling slapd's database (minutes for 500,000 users)");
    // Quick: without the checks and syncs that a database in use needs.
    system::run(Command::new(SLAPADD).arg("-q").arg("-f").arg(&config).arg("-l").arg(&ldif))?;
    // What was written without a sync reaches the disk now, not while somebody is measured.
    let data = directory.join("db/data.mdb");
    let synced = File::open(&data).and_then(|file| file.sync_all());
    synced.map_err(FileError::at(&data))?;
    Ok(std::fs::remove_file(&ldif).map_err(FileError::at(&ldif))?)
}

/// `slapd.conf`: what an operator would set up for mail, with an index for what is asked for, and
/// with what a client needs that keeps a copy (RFC 4533, or pages of all).
fn settings(directory: &Path) -> String {
    let directory = directory.display();
    // The numbers are OpenLDAP's for experiments (1.3.6.1.4.1.4203.666).
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
attributetype ( 1.3.6.1.4.1.4203.666.1.9001 NAME '{PATH_ATTRIBUTE}'
  EQUALITY caseExactIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 SINGLE-VALUE )
objectclass ( 1.3.6.1.4.1.4203.666.3.9001 NAME '{PATH_CLASS}' SUP top AUXILIARY
  MAY {PATH_ATTRIBUTE} )
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload syncprov
pidfile {directory}/slapd.pid
argsfile {directory}/slapd.args
sizelimit unlimited
tool-threads 2
database mdb
suffix {SUFFIX}
directory {directory}/db
maxsize {DATABASE_BYTES_MAX}
index objectClass,uid,mail,entryUUID,entryCSN eq
access to * by * read
overlay syncprov
"
    )
}

/// Where the tree begins.
pub(super) const SUFFIX: &str = "dc=example,dc=org";
/// Below which the users are.
pub(crate) const PEOPLE: &str = "ou=people,dc=example,dc=org";
/// What is told of a user's mailbox.
pub(crate) const PATH_ATTRIBUTE: &str = "mailboxPath";
/// The class that has it.
pub(super) const PATH_CLASS: &str = "mailboxUser";

/// Writes the tree, with an entry for each user.
///
/// # Errors
/// When it can't be written.
pub(super) fn write(users: impl Iterator<Item = User>, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
         dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people\n"
    )?;
    for user in users {
        let (local, address, path) = (user.local(), user.address(), user.path());
        write!(
            out,
            "\ndn: uid={local},{PEOPLE}\nobjectClass: inetOrgPerson\nobjectClass: {PATH_CLASS}\n\
             uid: {local}\ncn: {local}\nsn: {local}\nmail: {address}\n{PATH_ATTRIBUTE}: {path}\n"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Population;
    use super::{Slapd, User, find, settings, write};
    use crate::stand::system;
    use std::path::Path;

    #[test]
    fn what_is_asked_for_has_an_index() {
        let text = settings(Path::new("/x"));
        assert!(text.contains("index objectClass,uid,mail,"), "{text}");
        assert!(text.contains("directory /x/db\n"), "{text}");
    }

    #[test]
    fn it_serves_the_users_that_it_was_filled_with() {
        if let Err(why) = find() {
            eprintln!("skipped: {why}");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let population =
            Population::make(&directory.path().join("users"), 200, 10, 1).expect("made");
        for _ in 0..2 {
            let log = directory.path().join("slapd.log");
            let slapd = Slapd::start(&population, &log).expect("it starts");
            assert!(slapd.cpu_seconds() >= 0.0);
            // Postfix's own client asks, where it is installed.
            if Path::new("/usr/lib/postfix/postfix-ldap.so").exists() {
                let text = format!(
                    "server_host = ldap://{}\nsearch_base = ou=people,dc=example,dc=org\n\
                     bind = no\nversion = 3\nquery_filter = (mail=%s)\n\
                     result_attribute = mailboxPath\n",
                    slapd.address()
                );
                let map = directory.path().join("map.cf");
                std::fs::write(&map, text).expect("written");
                let map = format!("ldap:{}", map.display());
                let query = ["-q", "user0000200@example.org", &map];
                let answer = system::run_words("postmap", &query).expect("found");
                assert_eq!(answer.trim(), "example.org/user0000200/");
            }
            slapd.stop().expect("it ends");
        }
    }

    #[test]
    fn each_user_is_an_entry_of_its_own() {
        let mut out = Vec::new();
        write([User(1), User(20)].into_iter(), &mut out).expect("to memory");
        let text = String::from_utf8(out).expect("ASCII");
        let entries: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(entries.len(), 4);
        assert!(entries.iter().all(|entry| entry.starts_with("dn: ")), "{text}");
        let expected = "dn: uid=user0000020,ou=people,dc=example,dc=org\n\
            objectClass: inetOrgPerson\nobjectClass: mailboxUser\nuid: user0000020\n\
            cn: user0000020\nsn: user0000020\nmail: user0000020@example.org\n\
            mailboxPath: example.org/user0000020/\n";
        assert_eq!(entries[3], expected);
    }
}
