//! postal, the load generator of Debian that publications use: a child process. It sends no more than
//! some 24,000 messages a minute, whatever limit it is given.

use super::error::{Error, Result};
use super::minutes::MinuteFile;
use super::source::{Load, SourceReport};
use load::file::{self, FileError};
use load::ledger::Followed;
use load::process::{Process, ProcessError};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const POSTAL: &str = "/usr/sbin/postal";
/// Transactions that run when it is to end have so long.
const STOP_MAX: Duration = Duration::from_secs(20);
/// When it told of no message for so long after that, none runs any more.
const STILL: Duration = Duration::from_secs(1);
/// Between two looks at its log.
const STEP: Duration = Duration::from_millis(20);

/// A running postal.
#[derive(Debug)]
pub(crate) struct Postal {
    process: Option<Process>,
    directory: PathBuf,
    begun: Instant,
    /// Until it was told to end.
    seconds: f64,
    /// Its own log: a line for each message that was taken.
    log: Followed,
    pub(crate) minutes: MinuteFile,
}

/// Whether it is here.
///
/// # Errors
/// What would help.
pub(crate) fn find() -> Result<()> {
    if Path::new(POSTAL).exists() {
        return Ok(());
    }
    Err(Error::Missing("postal is not installed (Debian: package postal)".to_owned()))
}

impl Postal {
    /// Starts it in a directory of its own: it sends to `to`, `HOST:PORT`.
    ///
    /// # Errors
    /// When it can't be started, or the load is none for it.
    pub(crate) fn start(directory: &Path, to: &str, load: &Load) -> Result<Postal> {
        let recipients = load.recipients.as_ref();
        let recipients = recipients
            .ok_or_else(|| Error::Missing("postal needs a file of recipients".to_owned()))?;
        let (host, port) = to.rsplit_once(':').unwrap_or((to, "25"));
        file::create_directory(directory)?;
        let output = directory.join("minutes");
        let log = directory.join("postal.log");
        // They are there before anybody follows them.
        file::create(&log)?;
        file::write(&directory.join("sender"), "sender@source.grey\n")?;
        let mut command = Command::new(POSTAL);
        command.current_dir(directory).args(["-f", "sender", "-p", port]);
        command.args(["-m", &(load.body_bytes.max / 1024).to_string()]);
        command.args(["-M", &(load.body_bytes.min / 1024).to_string()]);
        command.args(["-t", &(load.sources * load.sessions).to_string()]);
        if let Some(rate) = load.rate {
            let per_minute = (rate * 60.0).round().max(1.0);
            command.args(["-r", &per_minute.to_string()]);
        }
        command.args(["-c", &load.per_connection.max.to_string(), host]).arg(recipients);
        command.stdin(Stdio::null()).stdout(file::create(&output)?);
        command.stderr(file::create(&directory.join("errors.log"))?);
        Ok(Postal {
            process: Some(Process::start("postal", &mut command)?),
            directory: directory.to_owned(),
            begun: Instant::now(),
            seconds: 0.0,
            log: Followed::sink(log),
            minutes: MinuteFile(output),
        })
    }

    /// Messages taken until now.
    ///
    /// # Errors
    /// When its log can't be read.
    pub(crate) fn count(&mut self) -> Result<u64> {
        Ok(self.log.count()?)
    }

    /// # Errors
    /// When it has ended: by itself it never does.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match &mut self.process {
            Some(process) => Ok(process.check_running()?),
            None => Err(Error::Missing("postal has ended".to_owned())),
        }
    }

    /// Ends it, if it runs: SIGINT, on which it begins no message any more; when none runs, SIGKILL, for it goes
    /// on with empty minutes for ever.
    ///
    /// # Errors
    /// When it can't be told to, or had ended by itself.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.check_running()?;
        self.seconds = self.begun.elapsed().as_secs_f64();
        let told = kill_process(Pid::from_child(process.child()), Signal::INT);
        told.map_err(|error| ProcessError::System("postal", error.into()))?;
        let (asked, mut since, mut count) = (Instant::now(), Instant::now(), self.count()?);
        while since.elapsed() < STILL && asked.elapsed() < STOP_MAX {
            std::thread::sleep(STEP);
            let now = self.count()?;
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        Ok(process.kill()?)
    }

    /// What it did, in the manner of a source: a report, and a ledger.
    ///
    /// # Errors
    /// When its log can't be read, or the ledger not written.
    pub(crate) fn account(&mut self) -> Result<(SourceReport, Followed)> {
        let path = self.log.path().to_owned();
        let text = std::fs::read(&path).map_err(FileError::at(&path))?;
        let ledger = ledger(&String::from_utf8_lossy(&text));
        let acked = ledger.lines().filter(|line| line.contains(" acked ")).count() as u64;
        let path = self.directory.join("ledger");
        file::write(&path, &ledger)?;
        let report = SourceReport { seconds: self.seconds, acked, ..SourceReport::default() };
        Ok((report, Followed::source(path)))
    }
}

/// A source's ledger of postal's log. A message that was taken is `CHECKSUM <FROM> <TO>` there; what
/// else stands in it are replies that postal had not expected.
fn ledger(log: &str) -> String {
    let mut out = String::new();
    for (number, line) in log.lines().enumerate() {
        // Writing to a String can't fail.
        let _ = match taken(line) {
            Some((hash, recipient)) => writeln!(out, "{hash} acked {recipient}"),
            None => match refusal(line) {
                Some(code) => writeln!(out, "postal-{number} refused {code}"),
                None => continue,
            },
        };
    }
    out
}

fn taken(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (hash, _sender, recipient) = (words.next()?, words.next()?, words.next()?);
    let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let recipient = recipient.strip_prefix('<')?.strip_suffix('>')?;
    (is_hash && words.next().is_none()).then_some((hash, recipient))
}

/// The code in `Server error:451 …`.
fn refusal(line: &str) -> Option<u16> {
    let (_, reply) = line.split_once("Server error:")?;
    reply.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::ledger;

    #[test]
    fn its_log_becomes_a_ledger() {
        let log = "96af68567e63d2324dd14641e18bd6eb <a@b> <user1@example.org>\n\
            Server error:451 4.3.0 <user2@example.org>: Temporary lookup failure.\n\
            Server timed out on read.\n\
            dd03a724df28d979775fed741df12df8 <a@b> <user3@example.org>\n\
            dd03a724df28d979775fed741df12df8 <a@b>\n";
        let expected = "96af68567e63d2324dd14641e18bd6eb acked user1@example.org\n\
            postal-1 refused 451\n\
            dd03a724df28d979775fed741df12df8 acked user3@example.org\n";
        assert_eq!(ledger(log), expected);
        assert_eq!(ledger(""), "");
    }
}
