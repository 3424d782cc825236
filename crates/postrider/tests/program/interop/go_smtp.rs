//! go-smtp, which takes mail, and sends it on by its client before the reply to the content.

use super::cases::orders;
use super::chain::{Habits, Hop};
use crate::support::Files;
use crate::support::foreign::{Foreign, build_go};
use std::process::Command;

pub(crate) struct GoSmtp {
    server: Foreign,
    /// The program lies there.
    _files: Files,
}

pub(crate) fn start(next_port: u16) -> GoSmtp {
    let files = Files::new();
    let mut command = Command::new(build_go(&files, "go-smtp"));
    command.arg(orders(next_port));
    GoSmtp { server: Foreign::start(command), _files: files }
}

impl Hop for GoSmtp {
    fn port(&self) -> u16 {
        self.server.port()
    }

    fn rude_port(&self) -> u16 {
        self.server.rude_port()
    }

    fn habits(&self) -> Habits {
        Habits { dsn: true, holds: true, ends_header: false, returns_all: false, retries: true }
    }

    /// It puts off once.
    fn open_gate(&self) {}
}
