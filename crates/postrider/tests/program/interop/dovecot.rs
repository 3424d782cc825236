//! Dovecot: its LMTP on a Unix socket, with mailboxes with and without room, and recipients it doesn't
//! know; and as a reader of Maildirs that we write.

use super::place::Place;
use crate::support::wait_until;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;

pub(crate) struct Dovecot {
    place: Place,
    /// Of its process.
    id: u32,
}

/// Whose the mailboxes are, by number; the group, too.
pub(crate) const USER: u32 = 65_534;

/// Octets that the mailbox of `full` may have.
const QUOTA_BYTES: u32 = 10;

fn config(place: &Place) -> String {
    let dir = place.dir();
    format!(
        "protocols = lmtp
base_dir = {dir}/run
state_dir = {dir}/state
log_path = {dir}/dovecot.log
ssl = no
first_valid_uid = 1
first_valid_gid = 1
mail_location = maildir:{dir}/mail/%n
auth_username_format = %n
mail_plugins = quota
plugin {{
  quota = maildir:User quota
  quota_rule = *:storage=100M
  quota_status_success = DUNNO
  quota_status_nouser = DUNNO
  quota_status_overquota = 452 4.2.2 Mailbox full
}}
service quota-status {{
  executable = quota-status -p postfix
  unix_listener {dir}/quota-status {{
    mode = 0666
  }}
  client_limit = 1
}}
passdb {{
  driver = static
  args = nopassword=y
}}
userdb {{
  driver = passwd-file
  args = {dir}/users
}}
service lmtp {{
  unix_listener {dir}/lmtp {{
    mode = 0666
  }}
}}
"
    )
}

pub(crate) fn start() -> Dovecot {
    let mut place = Place::new(0);
    place.write("dovecot.conf", &config(&place));
    // The disk of mailboxes, which no server makes.
    std::fs::create_dir(place.path("mail")).expect("room");
    chown(place.path("mail"), Some(USER), Some(USER)).expect("root runs Dovecot");
    let user = |name: &str, more: &str| format!("{name}::{USER}:{USER}::{}::{more}\n", place.dir());
    let full = user("full", &format!("userdb_quota_rule=*:bytes={QUOTA_BYTES}"));
    place.write("users", &[user("a", ""), user("b", ""), full].concat());
    let id = run(&mut place);
    Dovecot { place, id }
}

/// Runs it, and waits until it listens.
fn run(place: &mut Place) -> u32 {
    let file = place.path("dovecot.conf").display().to_string();
    let command = place.command("dovecot-lmtpd", &["dovecot", "-F", "-c", &file]);
    let id = place.start(command, "stderr.log");
    wait_until("Dovecot listens", || UnixStream::connect(place.path("lmtp")).is_ok());
    id
}

impl Dovecot {
    /// Ends it; what it has stays.
    pub(crate) fn end(&mut self) {
        self.place.end(self.id);
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&mut self) {
        self.id = run(&mut self.place);
    }

    /// The path of its socket.
    pub(crate) fn socket(&self) -> String {
        self.place.path("lmtp").display().to_string()
    }

    /// The path of its policy service for quotas.
    pub(crate) fn quota_status(&self) -> String {
        self.place.path("quota-status").display().to_string()
    }

    /// Where its Maildirs are: a directory for each user, whose number is [`USER`].
    pub(crate) fn mailboxes(&self) -> String {
        self.place.path("mail").display().to_string()
    }

    /// What its reader says of a mailbox.
    pub(crate) fn read(&self, words: &[&str]) -> String {
        let file = self.place.path("dovecot.conf").display().to_string();
        let all = [&["doveadm", "-c", &file][..], words].concat();
        let output = self.place.command("dovecot-lmtpd", &all).output().expect("it runs");
        let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        assert!(output.status.success(), "{words:?}: {}", said(&output.stderr));
        said(&output.stdout)
    }

    /// The messages in a mailbox.
    pub(crate) fn mail(&self, user: &str) -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(self.place.path(&format!("mail/{user}/new")));
        let paths = files.into_iter().flatten().flatten().map(|entry| entry.path());
        paths.map(|path| std::fs::read(path).expect("a message")).collect()
    }
}
