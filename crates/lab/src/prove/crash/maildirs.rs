//! Mailboxes that the relay keeps, and what must lie in them whenever it was killed.

use crate::prove::relay::Verified;
use crate::stand::{Error, Result, Stand};
use load::file::{self, FileError};
use load::ledger::{Audit, audit};
use load::mailboxes::{Look, Mailbox, Mailboxes, Stock};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Mailboxes that mail goes to, in turn. The relay makes each when its first message comes.
const MAILBOXES: usize = 60;
const DOMAINS: [&str; 3] = ["one.test", "two.test", "three.test"];
/// So many findings of a look are listed.
const FINDINGS_MAX: usize = 20;
/// No delivery was recorded for so long: there is a lull.
const STILL: Duration = Duration::from_secs(1);
/// A lull that does not come within this time is not waited for.
const LULL_WAIT_MAX: Duration = Duration::from_secs(20);

/// The mailboxes, and what the relay has said of them.
pub(super) struct Maildirs {
    root: PathBuf,
    mailboxes: Vec<Mailbox>,
    stock: Stock,
    /// The relay's event log: on no disk whose power is cut, so what it says stays said.
    events: PathBuf,
    /// Bytes of it that were read: whole lines.
    events_read: u64,
    /// Deliveries that the relay has durably recorded, as its files' names tell them: message and
    /// number of the recipient.
    recorded: BTreeSet<String>,
}

/// What a look into the mailboxes found, while no relay ran.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Judgement {
    /// Whole messages in `new` and `cur`.
    pub(super) messages: u64,
    /// Deliveries that the relay had recorded until then.
    pub(super) recorded: u64,
    /// Files in `tmp`; no deliveries.
    pub(super) leftovers: u64,
    /// Recorded deliveries without a file that is whole.
    pub(super) lost: u64,
    /// Files that lay there after the last kill and do no more.
    pub(super) vanished: u64,
    /// Acknowledged messages that are neither in all their mailboxes nor in the spool, at least.
    pub(super) unqueued: u64,
    /// Files that are not as they were sent, or no messages of a source.
    pub(super) damaged: u64,
    /// Files beside another of the same message in the same mailbox.
    pub(super) duplicates: u64,
    /// Files in a mailbox that the message was not for.
    pub(super) misdelivered: u64,
    /// The first of all that should not be.
    pub(super) findings: Vec<String>,
}

impl Judgement {
    pub(super) fn is_good(&self) -> bool {
        let Judgement { lost, vanished, unqueued, damaged, duplicates, misdelivered, .. } = self;
        [lost, vanished, unqueued, damaged, duplicates, misdelivered].iter().all(|&&n| n == 0)
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement { messages, recorded, leftovers, .. } = self;
        write!(f, "{messages} messages in mailboxes, {recorded} recorded, {leftovers} in tmp")?;
        if !self.is_good() {
            let Judgement { lost, vanished, unqueued, damaged, duplicates, misdelivered, .. } =
                self;
            write!(
                f,
                "; WRONG: {lost} lost, {vanished} vanished, {unqueued} not queued, {damaged} \
                 damaged, {duplicates} twice, {misdelivered} misdelivered"
            )?;
        }
        Ok(())
    }
}

impl Maildirs {
    /// Mailboxes below `root`, which the relay is to make in that directory; lists their addresses in `directory`.
    ///
    /// # Errors
    /// When the root can't be made, or the list written.
    pub(super) fn new(root: PathBuf, directory: &Path) -> Result<Maildirs> {
        std::fs::create_dir_all(&root).map_err(FileError::at(&root))?;
        let mailbox = |number: usize| {
            let (local, domain) = (format!("user{number}"), DOMAINS[number % DOMAINS.len()]);
            let directory = root.join(domain).join(&local);
            Mailbox { address: format!("{local}@{domain}"), directory }
        };
        let mailboxes: Vec<Mailbox> = (0..MAILBOXES).map(mailbox).collect();
        let lines = mailboxes.iter().map(|mailbox| format!("{}\n", mailbox.address));
        file::write(&directory.join("recipients"), &lines.collect::<String>())?;
        Ok(Maildirs {
            mailboxes,
            stock: Stock::default(),
            events: directory.join("events.jsonl"),
            events_read: 0,
            recorded: BTreeSet::new(),
            root,
        })
    }

    /// A source's arguments: whom to send to.
    pub(super) fn whom(directory: &Path) -> Vec<String> {
        vec!["--recipients".to_owned(), directory.join("recipients").display().to_string()]
    }

    /// The relay's route, and its event log.
    pub(super) fn config(&self) -> String {
        let (root, events) = (self.root.display(), self.events.display());
        format!(
            r#"[[route]]
maildir = {{ path = "{root}/{{domain}}/{{local}}" }}

[events]
path = "{events}"
rotate_bytes = "0"
"#
        )
    }

    /// The directories that files get their names in.
    pub(super) fn new_directories(&self) -> Vec<PathBuf> {
        self.mailboxes.iter().map(|mailbox| mailbox.directory.join("new")).collect()
    }

    /// Mailboxes that are watched from now on; all are there then.
    ///
    /// # Errors
    /// When one can't be made or watched.
    pub(super) fn watch(&self) -> Result<Mailboxes> {
        Ok(Mailboxes::make(self.mailboxes.clone(), None)?)
    }

    /// Waits until deliveries have ended; tells whether they have.
    ///
    /// # Errors
    /// When the event log can't be looked at.
    pub(super) fn wait_for_lull(&self) -> Result<bool> {
        let begun = Instant::now();
        let (mut bytes, mut since) = (0, begun);
        while begun.elapsed() < LULL_WAIT_MAX {
            let now = self.events.metadata().map_err(FileError::at(&self.events))?.len();
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
            if since.elapsed() >= STILL {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(false)
    }

    /// Looks into the mailboxes while no relay runs, and sets them against what the relay has
    /// recorded, what the sources were told, and what is in the spool.
    ///
    /// # Errors
    /// When a file can't be read.
    pub(super) fn judge(
        &mut self,
        stand: &Stand,
        spool: &Verified,
        list_max: usize,
    ) -> Result<(Judgement, Audit)> {
        self.read_events().map_err(FileError::at(&self.events))?;
        let look = self.stock.look(&self.mailboxes)?;
        let audit = audit(&stand.sent_text()?, &look.ledger, usize::MAX).map_err(Error::Ledger)?;
        let judgement = self.compare(&look, &audit, spool);
        Ok((judgement, audit.shortened(list_max)))
    }

    /// Takes in the deliveries that were recorded since the last time.
    fn read_events(&mut self) -> std::io::Result<()> {
        let mut file = File::open(&self.events)?;
        file.seek(SeekFrom::Start(self.events_read))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.events_read += whole as u64;
        self.recorded.extend(text[..whole].lines().filter_map(delivery));
        Ok(())
    }

    fn compare(&self, look: &Look, audit: &Audit, spool: &Verified) -> Judgement {
        let whole: BTreeSet<&str> = look.whole.iter().filter_map(|name| key(name)).collect();
        let lost: Vec<&String> =
            self.recorded.iter().filter(|one| !whole.contains(one.as_str())).collect();
        // Each recipient that misses a message is listed.
        let missing: BTreeSet<&str> =
            audit.missing.listed.iter().map(|found| found.id.as_str()).collect();
        let unqueued = (missing.len() as u64).saturating_sub(spool.live_messages);
        let wrong = ["damaged", "duplicate", "misdelivered"];
        let found = audit.findings().filter(|(kind, ..)| wrong.contains(kind));
        let vanished = look.vanished.iter().map(|path| format!("vanished {}", path.display()));
        let findings = lost.iter().map(|name| format!("lost {name}")).chain(vanished);
        let findings =
            findings.chain(found.map(|(kind, id, whose)| format!("{kind} {id} {whose}")));
        Judgement {
            messages: look.whole.len() as u64,
            recorded: self.recorded.len() as u64,
            leftovers: look.leftovers,
            lost: lost.len() as u64,
            vanished: look.vanished.len() as u64,
            unqueued,
            damaged: audit.damaged.count + audit.unidentified_arrivals,
            duplicates: audit.duplicates.count,
            misdelivered: audit.misdelivered.count + audit.unsent_arrived.count,
            findings: findings.take(FINDINGS_MAX).collect(),
        }
    }
}

/// The delivery that a line of the event log tells of.
fn delivery(line: &str) -> Option<String> {
    // Most lines tell of something else.
    if !line.contains("\"event\":\"delivered\"") {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    Some(format!("{}_{}", event["id"].as_str()?, event["recipient_index"].as_u64()?))
}

/// The delivery that a file's name tells of: `SECONDS.MESSAGE_RECIPIENT.HOST`.
fn key(name: &str) -> Option<&str> {
    name.split('.').nth(1)
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Maildirs, delivery, key};
    use crate::prove::relay::Verified;
    use load::ledger::audit;
    use load::mailboxes::Look;

    const EVENT: &str = r#"{"time":"t","event":"delivered","id":"000100000000002a","log":0,"recipient":"a@x","recipient_index":1}"#;

    fn judged(ledger: &str, whole: &[&str], live_messages: u64) -> Judgement {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("mail");
        let mut maildirs = Maildirs::new(root, directory.path()).expect("made");
        maildirs.recorded.insert("2a_0".to_owned());
        let sent = "r-1 acked a@x b@x\nr-2 acked a@x\nr-3 unsent\n";
        let audit = audit(sent, ledger, usize::MAX).expect("well-formed");
        let whole = whole.iter().map(|&name| name.to_owned()).collect();
        let look = Look { whole, ..Look::default() };
        maildirs.compare(&look, &audit, &Verified { live_messages, ..Verified::default() })
    }

    #[test]
    fn an_event_and_a_file_name_the_same_delivery() {
        assert_eq!(delivery(EVENT).as_deref(), Some("000100000000002a_1"));
        assert_eq!(key("1700000000.000100000000002a_1.relay.test"), Some("000100000000002a_1"));
        assert_eq!(delivery(&EVENT.replace("delivered", "deferred")), None);
        assert_eq!(delivery(&EVENT[..60]), None);
    }

    #[test]
    fn what_is_neither_in_its_mailbox_nor_in_the_spool_is_told() {
        let all = "r-1 a@x\nr-1 b@x\nr-2 a@x\n";
        assert!(judged(all, &["7.2a_0.h"], 0).is_good());
        // Two messages are missing somewhere: as many must be in the spool.
        let some = "r-1 a@x\n";
        assert!(judged(some, &["7.2a_0.h"], 2).is_good());
        assert_eq!(judged(some, &["7.2a_0.h"], 1).unqueued, 1);
    }

    #[test]
    fn a_recorded_delivery_without_its_whole_file_is_lost() {
        let judgement = judged("r-1 a@x\nr-1 b@x\nr-2 a@x\n", &["7.2a_1.h"], 9);
        assert_eq!((judgement.lost, judgement.is_good()), (1, false));
        assert_eq!(judgement.findings, ["lost 2a_0"]);
    }

    #[test]
    fn a_file_too_many_or_not_as_it_was_sent_is_wrong() {
        let of = |ledger| judged(ledger, &["7.2a_0.h"], 9);
        assert_eq!(of("r-1 a@x\nr-1 a@x\n").duplicates, 1);
        assert_eq!(of("r-1 a@x damaged\n").damaged, 1);
        assert_eq!(of("- a@x\n").damaged, 1);
        assert_eq!(of("r-1 c@x\n").misdelivered, 1);
        assert_eq!(of("r-3 a@x\n").misdelivered, 1);
    }
}
