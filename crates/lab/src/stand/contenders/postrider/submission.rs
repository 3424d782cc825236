//! A submission listener, and somebody who guesses passwords there.

use crate::stand::certificate::{Certificate, KeyKind};
use crate::stand::error::{Error, Result};
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{ExitReport, Server};
use load::file;
use load::listener::free_port;
use load::process::{Process, this_program};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Wrong logins in a second.
pub(super) const GUESSES: u32 = 50;
/// Users whose passwords are guessed.
const USERS: u32 = 1000;
/// Of everybody, as OWASP's cheat sheet has it at least: 19 MiB, two passes. Some 20 ms of a processor.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$cG9zdHJpZGVyLWJlbmNo$\
                    CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
/// The guesser may take so long to end.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Where users log in.
pub(super) struct Submission {
    address: String,
    certificate: Certificate,
    directory: PathBuf,
}

impl Submission {
    /// # Errors
    /// When no port is free, or no certificate can be made.
    pub(super) fn at_free_port(place: &ServerSetup) -> Result<Submission> {
        let port = free_port().map_err(|error| Error::Missing(error.to_string()))?;
        Ok(Submission {
            address: format!("127.0.0.1:{port}"),
            certificate: Certificate::make(&place.directory.join("login"), KeyKind::EcdsaP256)?,
            directory: place.directory.clone(),
        })
    }

    /// The listener, its certificate and its users.
    pub(super) fn sections(&self) -> String {
        let mut text = self.certificate.section();
        let address = &self.address;
        let _ = write!(
            text,
            "[[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"{address}\"\n\
             logins = {{ table = \"passwords\" }}\n\n[[table]]\nname = \"passwords\"\n\
             [table.inline]\n"
        );
        for user in 0..USERS {
            let _ = writeln!(text, "user{user} = \"{HASH}\"");
        }
        text + "\n"
    }

    /// The server, at which passwords are guessed as long as it runs.
    ///
    /// # Errors
    /// When the guesser can't be started.
    pub(super) fn guess_at(self, server: Box<dyn Server>) -> Result<Box<dyn Server>> {
        let rate = GUESSES.to_string();
        let mut command = Command::new(this_program()?);
        command.args(["guess", "--to", &self.address, "--rate", &rate]);
        command.args(["--users", &USERS.to_string()]);
        command.stdout(file::create(&self.directory.join("guesses.json"))?);
        command.stderr(file::create(&self.directory.join("guess.log"))?);
        let guesser = Process::start("guess", &mut command)?;
        Ok(Box::new(Guessed { guesser, server }))
    }
}

struct Guessed {
    guesser: Process,
    server: Box<dyn Server>,
}

impl Server for Guessed {
    fn pid(&self) -> u32 {
        self.server.pid()
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.server.files()
    }

    fn check_running(&mut self) -> Result<()> {
        self.guesser.check_running()?;
        self.server.check_running()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        self.server.wait_until_ready()
    }

    fn sync_count(&mut self) -> Option<u64> {
        self.server.sync_count()
    }

    fn flush(&mut self) -> Result<()> {
        self.server.flush()
    }

    fn stop(self: Box<Self>) -> Result<ExitReport> {
        self.guesser.stop(STOP_MAX)?;
        self.server.stop()
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.guesser.stop(STOP_MAX)?;
        self.server.kill()
    }
}
