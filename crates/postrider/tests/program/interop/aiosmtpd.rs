//! aiosmtpd, which takes mail, and smtplib, which sends it on before the reply to the content.

use super::cases::orders;
use super::chain::{Habits, Hop};
use crate::support::foreign::Foreign;
use std::process::Command;

pub(crate) struct Aiosmtpd(Foreign);

pub(crate) fn start(next_port: u16) -> Aiosmtpd {
    // Debian's package is Debian's Python's.
    let mut command = Command::new("/usr/bin/python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/aiosmtpd/relay.py");
    command.arg(script).arg(orders(next_port));
    Aiosmtpd(Foreign::start(command))
}

impl Hop for Aiosmtpd {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn rude_port(&self) -> u16 {
        self.0.rude_port()
    }

    fn habits(&self) -> Habits {
        Habits { dsn: false, holds: true, ends_header: false, returns_all: false, retries: true }
    }

    /// It puts off once.
    fn open_gate(&self) {}
}
