//! Dovecot's authentication server, with a few users.

use crate::interop::place::Place;
use crate::support::wait_until;
use std::os::unix::net::UnixStream;

/// The password of each of them.
pub(crate) const PASSWORD: &str = "pencil";

pub(crate) struct DovecotAuth {
    place: Place,
    /// Of its process.
    id: u32,
}

fn config(place: &Place) -> String {
    let dir = place.dir();
    format!(
        "protocols = none
base_dir = {dir}/run
state_dir = {dir}/state
log_path = {dir}/dovecot.log
ssl = no
auth_mechanisms = plain login cram-md5 scram-sha-256
auth_username_format = %Lu
auth_failure_delay = 0
passdb {{
  driver = passwd-file
  args = scheme=PLAIN {dir}/passwords
}}
userdb {{
  driver = static
  args = uid=65534 gid=65534 home={dir}
}}
service auth {{
  unix_listener {dir}/auth-client {{
    mode = 0666
  }}
}}
"
    )
}

impl DovecotAuth {
    /// One that knows `jo`, `al` and `hub`.
    pub(crate) fn start() -> DovecotAuth {
        let mut place = Place::new(0);
        place.write("dovecot.conf", &config(&place));
        place.write("passwords", &format!("jo:{PASSWORD}\nal:{PASSWORD}\nhub:{PASSWORD}\n"));
        let id = run(&mut place);
        DovecotAuth { place, id }
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.place.end(self.id);
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&mut self) {
        self.id = run(&mut self.place);
    }

    /// The path of its socket.
    pub(crate) fn socket(&self) -> String {
        self.place.path("auth-client").display().to_string()
    }
}

/// Runs it, and waits until it listens.
fn run(place: &mut Place) -> u32 {
    let file = place.path("dovecot.conf").display().to_string();
    let command = place.command("dovecot-lmtpd", &["dovecot", "-F", "-c", &file]);
    let id = place.start(command, "stderr.log");
    let socket = place.path("auth-client");
    wait_until("Dovecot listens", || UnixStream::connect(&socket).is_ok());
    id
}
