//! The programs by which people send mail.

use crate::support::Files;
use crate::support::server::Server;
use crate::support::tool;
use std::process::{Command, Output, Stdio};

/// How one logs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login<'a> {
    pub(super) mechanism: &'a str,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) is_sent: bool,
    pub(super) said: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Told {
        let texts = [output.stdout, output.stderr].concat();
        Told {
            is_sent: output.status.success(),
            said: String::from_utf8_lossy(&texts).into_owned(),
        }
    }
}

/// The listener with STARTTLS is the first, that with TLS from the start the second.
pub(super) const LISTENERS: [usize; 2] = [0, 1];

fn port(server: &Server, listener: usize) -> String {
    server.addresses[listener].port().to_string()
}

/// swaks sends a message.
pub(super) fn swaks(server: &Server, listener: usize, login: Login<'_>) -> Told {
    let port = port(server, listener);
    let how = ["--tls", "--tls-on-connect"][listener];
    let words = [
        "--server",
        "127.0.0.1",
        "--port",
        &port,
        how,
        "--auth",
        login.mechanism,
        "--auth-user",
        login.user,
        "--auth-password",
        login.password,
        "--auth-hide-password",
        "--from",
        "me@source.test",
        "--to",
        "you@far.test",
    ];
    tool::run("swaks", &words).into()
}

/// msmtp sends a message; with these words besides.
pub(super) fn msmtp(
    files: &Files,
    server: &Server,
    listener: usize,
    login: Login<'_>,
    more: &[&str],
) -> Told {
    let message = files.write("message", "From: me@source.test\nSubject: x\n\nbody\n");
    let mut command = Command::new("msmtp");
    command
        .args(["--file=/dev/null", "--host=127.0.0.1", "--tls=on", "--debug"])
        .arg(format!("--port={}", port(server, listener)))
        .arg(["--tls-starttls=on", "--tls-starttls=off"][listener])
        .arg(format!("--auth={}", login.mechanism.to_lowercase()))
        .arg(format!("--user={}", login.user))
        .arg(format!("--passwordeval=echo {}", login.password))
        .args(["--tls-trust-file=", "--tls-certcheck=off", "--from=me@source.test"])
        .args(more)
        .arg("you@far.test")
        .env("HOME", files.dir())
        .stdin(Stdio::from(std::fs::File::open(message).expect("a file")));
    command.output().expect("it runs").into()
}

/// Whether it is there; it comes with `scripts/install-test-packages`.
pub(super) fn has_msmtp() -> bool {
    let is_there = Command::new("msmtp").arg("--version").output().is_ok();
    is_there || skips::missing("msmtp")
}
