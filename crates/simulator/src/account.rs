//! What was handed in, what arrived, and the laws between the two.
//!
//! Addresses carry the message's name (`m17.r0@d1.test`, reports go to `m17@back.test`; of X.400
//! `/S=x3.r1/O=…/` and `/S=x3/O=back/…/`), so that every arrival is known by its recipient alone.

mod p1;
mod prompt;

pub use p1::Arrival;

use super::executor::TaskGroup;
use super::names::{DEAD_DOMAIN, OR_DEAD, OR_NOWHERE, SENDER_DOMAIN, UNKNOWN_USER};
use super::network::Network;
use super::trace::Trace;
use std::cell::{Ref, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// The reply to a message that its receiver never sent.
pub const NEVER_REPLIED: u64 = u64::MAX;

/// What the client knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its end was not sent: it must not arrive.
    Begun,
    /// Its end was sent, and nothing was heard.
    Unknown,
    /// It was refused: it must not arrive.
    Refused,
    /// It was acknowledged: it must arrive or be reported.
    Acknowledged,
}

#[derive(Debug)]
struct Submission {
    name: String,
    sender: String,
    recipients: Vec<String>,
    /// It asks for TLS all the way (REQUIRETLS).
    requires_tls: bool,
    body_bytes: u64,
    checksum: u32,
    fate: Fate,
    /// When it was acknowledged.
    acknowledged_us: Option<u64>,
    /// The shard that took it.
    shard: Option<u16>,
}

/// One arrival.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The process that sent it.
    group: TaskGroup,
    connection: u64,
    /// Where in what the peer wrote the reply to the message ends.
    reply_end: u64,
    /// Where in what the node wrote the APDU begins; `None`: it is no APDU of X.400.
    apdu_start: Option<u64>,
}

/// A law was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What happened, for people.
    pub text: String,
    /// The message concerned: the name that its addresses carry.
    pub message: Option<String>,
}

#[derive(Debug, Default)]
struct Records {
    submissions: BTreeMap<String, Submission>,
    /// Of those that came over P1 what else was sent.
    transfers: BTreeMap<String, p1::Transfer>,
    /// By recipient; of reports, by recipient and Message-ID.
    copies: BTreeMap<String, Vec<Copy>>,
    mailboxes: BTreeMap<String, BTreeSet<String>>,
    /// Reports of failure by recipient: their Message-IDs.
    failed: BTreeMap<String, BTreeSet<String>>,
    /// Recipients that the DNS had no host for in the end, by a report of failure.
    hostless: BTreeSet<String>,
    /// Notices of delay, likewise.
    delayed: BTreeMap<String, BTreeSet<String>>,
    /// Recipients that were refused for good, with the transaction in which the node named them last, and when.
    refused: BTreeMap<String, (u64, TransactionKey)>,
    /// First arrivals, but for reports.
    arrived_us: BTreeMap<String, u64>,
    /// When processes began.
    starts_us: Vec<u64>,
    /// How often hosts heard MAIL of a message, by its name.
    mails: BTreeMap<String, u32>,
    violations: Vec<Violation>,
    /// Logs that a write or sync has failed of, by process: each may have kept a message that was refused.
    failed_logs: BTreeMap<TaskGroup, usize>,
}

/// A connection, and the number of a transaction on it.
pub type TransactionKey = (u64, u64);

/// What is allowed to happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Recipients that may come twice because of one crash.
    pub per_crash: usize,
    /// Domains whose recipients may be refused for good by others than their next hops.
    pub failing_domains: Vec<String>,
    /// Of what is acknowledged from then on, what is for the domain that is well is there within
    /// so long: both in microseconds.
    pub well: (u64, u64),
    /// These domains have two hosts one of which is well: what is for them is there within so long, in microseconds.
    pub stumbling: (Vec<String>, u64),
}

/// What was handed in and what arrived.
#[derive(Debug)]
pub struct Account {
    trace: Rc<Trace>,
    records: RefCell<Records>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages handed in.
    pub submitted: u64,
    /// Of them acknowledged.
    pub acknowledged: u64,
    /// Arrivals, reports included.
    pub arrived: u64,
    /// Arrivals of what had arrived.
    pub duplicates: u64,
    /// Recipients reported as failed.
    pub failed: u64,
}

impl Account {
    /// Without any records yet.
    #[must_use]
    pub fn new(trace: Rc<Trace>) -> Rc<Account> {
        Rc::new(Account { trace, records: RefCell::default() })
    }

    /// A law was broken.
    pub fn violate(&self, message: Option<&str>, text: impl Into<String>) {
        let violation = Violation { text: text.into(), message: message.map(str::to_owned) };
        if self.records().violations.contains(&violation) {
            return;
        }
        self.trace.note("VIOLATED", &[], || violation.text.clone());
        self.records.borrow_mut().violations.push(violation);
    }

    /// A law was broken about one recipient.
    pub fn violate_about(&self, recipient: &str, what: &str) {
        self.violate(Some(name_of(recipient)), format!("{recipient} {what}"));
    }

    /// Recipients that were promised and have neither arrived nor been reported.
    #[must_use]
    pub fn awaited(&self) -> BTreeSet<String> {
        let records = self.records();
        let acknowledged = records.submissions.values().filter(|s| s.fate == Fate::Acknowledged);
        let recipients = acknowledged.flat_map(Submission::awaited);
        recipients
            .filter(|r| !records.arrived(r) && !records.failed.contains_key(*r))
            .cloned()
            .collect()
    }

    /// The recipients of a message.
    #[must_use]
    pub fn recipients_of(&self, name: &str) -> Vec<String> {
        let records = self.records();
        records.submissions.get(name).map_or_else(Vec::new, |s| s.recipients.clone())
    }

    /// The message asks for TLS all the way (RFC 8689).
    pub fn require_tls(&self, name: &str) {
        if let Some(submission) = self.records.borrow_mut().submissions.get_mut(name) {
            submission.requires_tls = true;
        }
    }

    /// Whether the message to this recipient does; a report about it goes to another.
    #[must_use]
    pub fn is_tls_required(&self, recipient: &str) -> bool {
        let records = self.records();
        let submission = records.submissions.get(name_of(recipient));
        submission.is_some_and(|s| s.requires_tls && s.sender != recipient)
    }

    /// Whether the message from this sender does; a report has none.
    #[must_use]
    pub fn asks_for_tls(&self, sender: &str) -> bool {
        let records = self.records();
        let submission = records.submissions.get(name_of(sender));
        submission.is_some_and(|s| s.requires_tls && s.sender == sender)
    }

    /// From now on refused messages may arrive: a write or sync of a log of this process has failed, and what
    /// the disk holds is not known.
    pub fn handle_failed_log(&self, life: TaskGroup) {
        *self.records.borrow_mut().failed_logs.entry(life).or_default() += 1;
    }

    /// Something is queued without a sender: it must be a report to the sender of a message.
    /// (Nothing is sent about a report, RFC 5321 §4.5.5.)
    pub fn check_report_to(&self, recipient: &str) {
        let is_sender = self
            .records()
            .submissions
            .get(name_of(recipient))
            .is_some_and(|submission| submission.sender == recipient);
        if !is_sender {
            self.violate_about(recipient, "is sent a report and never sent a message");
        }
    }

    /// A client begins to hand in a message.
    pub fn submit(&self, name: &str, sender: &str, recipients: Vec<String>, body: &[u8]) {
        let submission = Submission {
            name: name.to_owned(),
            sender: sender.to_owned(),
            recipients,
            requires_tls: false,
            body_bytes: body.len() as u64,
            checksum: crc32c::crc32c(body),
            fate: Fate::Begun,
            acknowledged_us: None,
            shard: None,
        };
        self.records.borrow_mut().submissions.insert(name.to_owned(), submission);
    }

    /// A recipient is queued, and why is told.
    pub fn handle_waiting(&self, recipient: &str, why: &str) {
        self.trace.note_bytes("why", recipient.as_bytes(), || format!("{recipient}: {why}"));
    }

    /// A shard has made the message of this sender durable.
    pub fn handle_taken(&self, sender: &str, shard: u16) {
        if let Some(submission) = self.records.borrow_mut().submissions.get_mut(name_of(sender)) {
            submission.shard = Some(shard);
        }
    }

    /// A next hop has refused a recipient for good, which the node named at `written_us`. (Who is slow refuses
    /// what another host has refused meanwhile, because the node has long given that connection up.)
    pub fn handle_refused(&self, recipient: &str, transaction: TransactionKey, written_us: u64) {
        let mut records = self.records.borrow_mut();
        let last = (written_us, transaction);
        let known = records.refused.entry(recipient.to_owned()).or_insert(last);
        *known = last.max(*known);
    }

    /// The client learns more. `accepted` are the recipients that were not refused.
    pub fn conclude(&self, name: &str, fate: Fate, accepted: Option<Vec<String>>) {
        self.trace.note_bytes("client", name.as_bytes(), || format!("{name} {fate:?}"));
        let mut records = self.records.borrow_mut();
        let Some(submission) = records.submissions.get_mut(name) else { return };
        submission.fate = fate;
        submission.acknowledged_us = (fate == Fate::Acknowledged).then(|| self.trace.now_us());
        if let Some(accepted) = accepted {
            submission.recipients = accepted;
        }
    }

    /// A peer took a message.
    pub fn handle_arrival(
        &self,
        reverse_path: &str,
        recipients: &[String],
        content: &[u8],
        from: (TaskGroup, u64),
        reply_end: u64,
    ) {
        let copy = Copy { group: from.0, connection: from.1, reply_end, apdu_start: None };
        for recipient in recipients {
            self.trace.note_bytes("arrive", recipient.as_bytes(), || {
                format!("{recipient} from <{reverse_path}> on connection {}", from.1)
            });
            let key = if reverse_path.is_empty() {
                self.take_report(recipient, content)
            } else {
                self.check_content(recipient, content);
                let now_us = self.trace.now_us();
                self.records.borrow_mut().arrived_us.entry(recipient.clone()).or_insert(now_us);
                recipient.clone()
            };
            self.records.borrow_mut().copies.entry(key).or_default().push(copy);
        }
    }

    /// A file appeared in a Maildir.
    pub fn handle_mailbox(&self, directory: &Path, file: &str, content: &[u8]) {
        let mut parts = directory.iter().rev().filter_map(|part| part.to_str());
        let (Some(local), Some(domain)) = (parts.next(), parts.next()) else { return };
        let recipient = format!("{local}@{domain}");
        self.check_content(&recipient, content);
        let mut records = self.records.borrow_mut();
        records.mailboxes.entry(recipient).or_default().insert(file.to_owned());
    }

    fn check_content(&self, recipient: &str, content: &[u8]) {
        let name = name_of(recipient);
        let body = memchr::memmem::find(content, b"\r\n\r\n").map(|at| &content[at + 4..]);
        let told = {
            let records = self.records.borrow();
            records.submissions.get(name).map(|s| (s.body_bytes, s.checksum))
        };
        let found = body.map(|body| (body.len() as u64, crc32c::crc32c(body)));
        if told.is_none() || told != found {
            self.violate(
                Some(name),
                format!("{recipient}: arrived as {found:?}, sent as {told:?}"),
            );
        }
    }

    /// Reads a report; gives the key that its arrivals are counted by.
    fn take_report(&self, recipient: &str, content: &[u8]) -> String {
        let text = String::from_utf8_lossy(content);
        let field = |line: &str, name: &str| line.strip_prefix(name).map(|v| v.trim().to_owned());
        let id = text.lines().find_map(|line| field(line, "Message-ID:")).unwrap_or_default();
        let original = text.lines().find_map(|line| field(line, "Original-Envelope-Id:"));
        let about = name_of(recipient).to_owned();
        let mut records = self.records.borrow_mut();
        let submission = original.as_deref().and_then(|name| records.submissions.get(name));
        let known = submission.is_some_and(|submission| submission.sender == recipient);
        let (mut of, mut last) = (None, String::new());
        for line in text.lines() {
            if let Some(value) = field(line, "Final-Recipient: rfc822;") {
                last.clone_from(&value);
                of = Some(value);
            } else if field(line, "Status:").as_deref() == Some("5.4.4") {
                records.hostless.insert(last.clone());
            } else if let Some(action) = field(line, "Action:")
                && let Some(of) = of.take()
            {
                match action.as_str() {
                    "failed" => records.failed.entry(of).or_default().insert(id.clone()),
                    "delayed" => records.delayed.entry(of).or_default().insert(id.clone()),
                    _ => false,
                };
            }
        }
        drop(records);
        if !known || original.as_ref() != Some(&about) {
            self.violate(Some(&about), format!("{recipient}: a report about {original:?}"));
        }
        format!("{recipient} {id}")
    }

    /// Whether all that was promised came true, and nothing else happened.
    pub fn check(&self, network: &Network, bounds: &Bounds) {
        self.check_lost();
        self.check_unpromised();
        self.check_moments();
        self.check_failed(bounds);
        self.check_well(bounds.well);
        self.check_stumbling(bounds);
        self.check_duplicates(network, bounds);
        for text in network.exceeded() {
            self.violate(None, text);
        }
    }

    fn records(&self) -> Ref<'_, Records> {
        self.records.borrow()
    }

    fn check_lost(&self) {
        for recipient in self.awaited() {
            self.violate_about(&recipient, "was acknowledged and is lost");
        }
    }

    fn check_unpromised(&self) {
        let mut wrong = Vec::new();
        let records = self.records();
        for submission in records.submissions.values() {
            let never = match submission.fate {
                Fate::Begun => true,
                Fate::Refused => records.failed_logs.is_empty(),
                Fate::Unknown | Fate::Acknowledged => false,
            };
            if never && submission.recipients.iter().any(|recipient| records.arrived(recipient)) {
                wrong.push((submission.name.clone(), submission.fate));
            }
        }
        let mut twice: Vec<String> = Vec::new();
        let reports = records.failed.iter().chain(&records.delayed);
        let is_twice =
            |(of, ids): &(&String, &BTreeSet<String>)| ids.len() > 1 + records.excused(of);
        twice.extend(reports.filter(is_twice).map(|(of, _)| of.clone()));
        let files = records.mailboxes.iter().filter(|(_, files)| files.len() > 1);
        twice.extend(files.map(|(recipient, _)| recipient.clone()));
        drop(records);
        for (name, fate) in wrong {
            self.violate(Some(&name), format!("{name} is {fate:?} and arrived all the same"));
        }
        for of in twice {
            self.violate(
                Some(name_of(&of)),
                format!("{of}: two reports of one kind, or two files"),
            );
        }
    }

    /// What became known in the same moment, because one transaction said it, of recipients of one
    /// message is one report. (Who was refused once more later was reported for that; so was who had
    /// no host any more when a crash had lost the refusal.)
    fn check_moments(&self) {
        let records = self.records();
        let mut moments: BTreeMap<(&str, TransactionKey), BTreeSet<&String>> = BTreeMap::new();
        let is_of_peer = |(recipient, _): &(&String, _)| !records.hostless.contains(*recipient);
        for (recipient, (_, transaction)) in records.refused.iter().filter(is_of_peer) {
            let reports = records.failed.get(recipient).into_iter().flatten();
            moments.entry((name_of(recipient), *transaction)).or_default().extend(reports);
        }
        let many = moments.into_iter().filter(|(_, reports)| reports.len() > 1);
        let many: Vec<_> = many.map(|((name, _), ids)| (name.to_owned(), ids.len())).collect();
        drop(records);
        for (name, count) in many {
            self.violate(Some(&name), format!("{name}: {count} reports at the same time"));
        }
    }

    /// Nobody is given up without a reason: what defers heals, and nothing gets too old.
    fn check_failed(&self, bounds: &Bounds) {
        let has_reason = |to: &str| {
            let domain = to.rsplit('@').next().unwrap_or_default();
            // There may be no way for it at any time (RFC 8689 §4.2.1).
            self.is_tls_required(to)
                || fails(to)
                || bounds.failing_domains.iter().any(|failing| failing == domain)
        };
        let without: Vec<String> =
            self.records().failed.keys().filter(|to| !has_reason(to)).cloned().collect();
        for recipient in without {
            self.violate_about(&recipient, "was failed without a reason");
        }
    }

    fn check_duplicates(&self, network: &Network, bounds: &Bounds) {
        let mut unexplained = Vec::new();
        let mut by_crash: BTreeMap<TaskGroup, usize> = BTreeMap::new();
        let records = self.records();
        for (key, copies) in &records.copies {
            // A copy whose reply the node never read was lost to it. It may even arrive after the
            // next one: a slow peer reads what a closed connection left behind.
            let mut known: BTreeMap<TaskGroup, u64> = BTreeMap::new();
            // What was sent to several lives of the node may be as many messages there.
            let mut excused = records.excused(key);
            for copy in copies {
                if !copy.is_heard(network) {
                    continue;
                }
                match known.entry(copy.group) {
                    Entry::Vacant(entry) => {
                        entry.insert(copy.connection);
                    }
                    Entry::Occupied(_) if excused > 0 => excused -= 1,
                    Entry::Occupied(entry) => {
                        unexplained.push((key.clone(), *entry.get(), copy.connection));
                    }
                }
            }
            // All processes but the last ended between their copy and its settle.
            known.pop_last();
            for group in known.into_keys() {
                *by_crash.entry(group).or_default() += 1;
            }
        }
        drop(records);
        for (key, before, after) in unexplained {
            let text = format!("{key} came on connections {before} and {after} without a reason");
            self.violate(Some(name_of(&key)), text);
        }
        for (group, count) in by_crash.into_iter().filter(|(_, count)| *count > bounds.per_crash) {
            let max = bounds.per_crash;
            let text =
                format!("the end of process {group:?} doubled {count}, at most {max} allowed");
            self.violate(None, text);
        }
    }

    /// What was found wrong.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.records().violations.clone()
    }

    /// Figures.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let records = self.records();
        let files: usize = records.mailboxes.values().map(BTreeSet::len).sum();
        let copies: usize = records.copies.values().map(Vec::len).sum();
        let is_acked = |s: &&Submission| s.fate == Fate::Acknowledged;
        Totals {
            submitted: records.submissions.len() as u64,
            acknowledged: records.submissions.values().filter(is_acked).count() as u64,
            arrived: (copies + files) as u64,
            duplicates: (copies - records.copies.len()) as u64,
            failed: records.failed.len() as u64,
        }
    }
}

impl Submission {
    /// Recipients of which something must be heard: they arrive, or the sender is told. Where the
    /// sender can't be told anything, those that can't arrive come to nothing.
    fn awaited(&self) -> impl Iterator<Item = &String> {
        // Over P1 only those count of whom something must be heard.
        let is_deaf = !self.sender.ends_with(SENDER_DOMAIN) && !self.sender.starts_with('/');
        self.recipients.iter().filter(move |to| !(is_deaf && (self.requires_tls || fails(to))))
    }
}

impl Records {
    fn arrived(&self, recipient: &str) -> bool {
        self.copies.contains_key(recipient) || self.mailboxes.contains_key(recipient)
    }
}

/// What can't be delivered.
fn fails(to: &str) -> bool {
    [DEAD_DOMAIN, OR_DEAD, OR_NOWHERE].iter().any(|end| to.ends_with(end))
        || local_of(to).ends_with(UNKNOWN_USER)
}

/// What is before the @.
fn local_of(address: &str) -> &str {
    address.split('@').next().unwrap_or(address)
}

/// The message's name in an address of its own.
#[must_use]
pub fn name_of(address: &str) -> &str {
    let name = address.strip_prefix("/S=").unwrap_or(address);
    let end = name.bytes().position(|byte| matches!(byte, b'.' | b'@' | b'/'));
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}
