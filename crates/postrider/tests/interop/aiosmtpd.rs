//! aiosmtpd, which takes mail, and smtplib, which sends it on before the reply to the content.

use super::cases::{DEFERRAL, DEFERRED, REFUSALS, RUDE, SIZE_MAX};
use super::chain::{Habits, Hop};
use super::support::foreign::Foreign;
use serde_json::json;
use std::process::Command;

pub(crate) struct Aiosmtpd {
    server: Foreign,
    rude_port: u16,
}

pub(crate) fn start(next_port: u16) -> Aiosmtpd {
    let refusals: Vec<_> = REFUSALS
        .iter()
        .map(|refusal| json!([refusal.step, refusal.from, refusal.to, refusal.reply()]))
        .collect();
    let told = json!({
        "next_port": next_port,
        "size_max": SIZE_MAX,
        "refusals": refusals,
        "rude": RUDE,
        "deferred": DEFERRED,
        "deferral": DEFERRAL,
    });
    // Debian's package is Debian's Python's.
    let mut command = Command::new("/usr/bin/python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/aiosmtpd/relay.py");
    command.arg(script).arg(told.to_string());
    let server = Foreign::start(command);
    let port = server.events_of("listening")[0]["rude_port"].as_u64();
    let rude_port = port.and_then(|port| u16::try_from(port).ok()).expect("a port");
    Aiosmtpd { server, rude_port }
}

impl Hop for Aiosmtpd {
    fn port(&self) -> u16 {
        let (_, port) = self.server.address.rsplit_once(':').expect("a port");
        port.parse().expect("a port")
    }

    fn rude_port(&self) -> u16 {
        self.rude_port
    }

    fn habits(&self) -> Habits {
        Habits { dsn: false, holds: true, ends_header: false, returns_all: false, retries: true }
    }

    /// It puts off once.
    fn open_gate(&self) {}
}
