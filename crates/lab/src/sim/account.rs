//! What was handed in, what arrived, and the laws between the two.
//!
//! Addresses carry the message's name (`m17.r0@d1.test`, reports go to `m17@back.test`), so that
//! every arrival is known by its recipient alone.

use super::executor::Group;
use super::network::Network;
use super::peer::UNKNOWN_USER;
use super::trace::Trace;
use std::cell::{Ref, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// The domain that reports go to.
pub const SENDER_DOMAIN: &str = "back.test";

/// Of senders whose next hop refuses all reports.
pub const DEAF_DOMAIN: &str = "deaf.test";

/// The domain of the next hop that is dead; as a sender's, it can't be told anything either.
pub const DEAD_DOMAIN: &str = "dead.test";

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
    body_bytes: u64,
    checksum: u32,
    fate: Fate,
}

/// One arrival.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The process that sent it.
    group: Group,
    connection: u64,
    /// Where in what the peer wrote the reply to the message ends.
    reply_end: u64,
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
struct Books {
    submissions: BTreeMap<String, Submission>,
    /// By recipient; of reports, by recipient and Message-ID.
    copies: BTreeMap<String, Vec<Copy>>,
    mailboxes: BTreeMap<String, BTreeSet<String>>,
    /// Reports of failure by recipient: their Message-IDs.
    failed: BTreeMap<String, BTreeSet<String>>,
    /// Notices of delay, likewise.
    delayed: BTreeMap<String, BTreeSet<String>>,
    /// Reports by the message that they are about and their date: their Message-IDs.
    moments: BTreeMap<(String, String), BTreeSet<String>>,
    violations: Vec<Violation>,
    /// Messages that a failed sync may have kept though they were refused.
    forgiven: bool,
}

/// What may be between two arrivals of one message.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Recipients that may come twice because of one crash.
    pub per_crash: usize,
    /// Processes that ran one after the other: each reports what it knows.
    pub processes: usize,
}

/// The books.
#[derive(Debug)]
pub struct Account {
    trace: Rc<Trace>,
    books: RefCell<Books>,
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
    /// Empty books.
    #[must_use]
    pub fn new(trace: Rc<Trace>) -> Rc<Account> {
        Rc::new(Account { trace, books: RefCell::default() })
    }

    /// A law was broken.
    pub fn violate(&self, message: Option<&str>, text: impl Into<String>) {
        let violation = Violation { text: text.into(), message: message.map(str::to_owned) };
        if self.books().violations.contains(&violation) {
            return;
        }
        self.trace.note("VIOLATED", &[], || violation.text.clone());
        self.books.borrow_mut().violations.push(violation);
    }

    /// A law was broken about one recipient.
    pub fn violate_about(&self, recipient: &str, what: &str) {
        self.violate(Some(name_of(recipient)), format!("{recipient} {what}"));
    }

    /// Recipients that were promised and have neither arrived nor been reported.
    #[must_use]
    pub fn awaited(&self) -> BTreeSet<String> {
        let books = self.books();
        let acknowledged = books.submissions.values().filter(|s| s.fate == Fate::Acknowledged);
        let recipients = acknowledged.flat_map(Submission::awaited);
        recipients
            .filter(|r| !books.arrived(r) && !books.failed.contains_key(*r))
            .cloned()
            .collect()
    }

    /// From now on refused messages may arrive: a sync has failed, and what the disk holds is not
    /// known.
    pub fn forgive_refused(&self) {
        self.books.borrow_mut().forgiven = true;
    }

    /// Something is queued without a sender: it must be a report to the sender of a message.
    /// (Nothing is sent about a report, RFC 5321 §4.5.5.)
    pub fn check_report_to(&self, recipient: &str) {
        let is_sender = self
            .books()
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
            body_bytes: body.len() as u64,
            checksum: crc32c::crc32c(body),
            fate: Fate::Begun,
        };
        self.books.borrow_mut().submissions.insert(name.to_owned(), submission);
    }

    /// The client learns more. `accepted` are the recipients that were not refused.
    pub fn conclude(&self, name: &str, fate: Fate, accepted: Option<Vec<String>>) {
        self.trace.note_bytes("client", name.as_bytes(), || format!("{name} {fate:?}"));
        let mut books = self.books.borrow_mut();
        let Some(submission) = books.submissions.get_mut(name) else { return };
        submission.fate = fate;
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
        from: (Group, u64),
        reply_end: u64,
    ) {
        let copy = Copy { group: from.0, connection: from.1, reply_end };
        for recipient in recipients {
            self.trace.note_bytes("arrive", recipient.as_bytes(), || {
                format!("{recipient} from <{reverse_path}> on connection {}", from.1)
            });
            let key = if reverse_path.is_empty() {
                self.take_report(recipient, content)
            } else {
                self.check_content(recipient, content);
                recipient.clone()
            };
            self.books.borrow_mut().copies.entry(key).or_default().push(copy);
        }
    }

    /// A file appeared in a Maildir.
    pub fn handle_mailbox(&self, directory: &Path, file: &str, content: &[u8]) {
        let mut parts = directory.iter().rev().filter_map(|part| part.to_str());
        let (Some(local), Some(domain)) = (parts.next(), parts.next()) else { return };
        let recipient = format!("{local}@{domain}");
        self.check_content(&recipient, content);
        let mut books = self.books.borrow_mut();
        books.mailboxes.entry(recipient).or_default().insert(file.to_owned());
    }

    fn check_content(&self, recipient: &str, content: &[u8]) {
        let name = name_of(recipient);
        let body = memchr::memmem::find(content, b"\r\n\r\n").map(|at| &content[at + 4..]);
        let told = {
            let books = self.books.borrow();
            books.submissions.get(name).map(|s| (s.body_bytes, s.checksum))
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
        let date = text.lines().find_map(|line| field(line, "Date:")).unwrap_or_default();
        let about = name_of(recipient).to_owned();
        let mut books = self.books.borrow_mut();
        let submission = original.as_deref().and_then(|name| books.submissions.get(name));
        let known = submission.is_some_and(|submission| submission.sender == recipient);
        books.moments.entry((about.clone(), date)).or_default().insert(id.clone());
        let mut of = None;
        for line in text.lines() {
            if let Some(value) = field(line, "Final-Recipient: rfc822;") {
                of = Some(value);
            } else if let Some(action) = field(line, "Action:")
                && let Some(of) = of.take()
            {
                match action.as_str() {
                    "failed" => books.failed.entry(of).or_default().insert(id.clone()),
                    "delayed" => books.delayed.entry(of).or_default().insert(id.clone()),
                    _ => false,
                };
            }
        }
        drop(books);
        if !known || original.as_ref() != Some(&about) {
            self.violate(Some(&about), format!("{recipient}: a report about {original:?}"));
        }
        format!("{recipient} {id}")
    }

    /// Whether all that was promised came true, and nothing else happened.
    pub fn check(&self, network: &Network, bounds: Bounds) {
        self.check_lost();
        self.check_unpromised();
        self.check_moments(bounds);
        self.check_duplicates(network, bounds);
        for (address, most, max) in network.exceeded() {
            self.violate(None, format!("{most} connections to {address}, at most {max} allowed"));
        }
    }

    fn books(&self) -> Ref<'_, Books> {
        self.books.borrow()
    }

    fn check_lost(&self) {
        for recipient in self.awaited() {
            self.violate_about(&recipient, "was acknowledged and is lost");
        }
    }

    fn check_unpromised(&self) {
        let mut wrong = Vec::new();
        let books = self.books();
        for submission in books.submissions.values() {
            let never = match submission.fate {
                Fate::Begun => true,
                Fate::Refused => !books.forgiven,
                Fate::Unknown | Fate::Acknowledged => false,
            };
            if never && submission.recipients.iter().any(|recipient| books.arrived(recipient)) {
                wrong.push((submission.name.clone(), submission.fate));
            }
        }
        let mut twice: Vec<String> = Vec::new();
        let reports = books.failed.iter().chain(&books.delayed);
        twice.extend(reports.filter(|(_, ids)| ids.len() > 1).map(|(of, _)| of.clone()));
        let files = books.mailboxes.iter().filter(|(_, files)| files.len() > 1);
        twice.extend(files.map(|(recipient, _)| recipient.clone()));
        drop(books);
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

    /// What is known at the same moment of recipients of one message is one report.
    fn check_moments(&self, bounds: Bounds) {
        let books = self.books();
        let many = books.moments.iter().filter(|(_, ids)| ids.len() > bounds.processes);
        let many: Vec<_> =
            many.map(|((about, date), ids)| (about.clone(), date.clone(), ids.len())).collect();
        drop(books);
        for (about, date, count) in many {
            self.violate(Some(&about), format!("{about}: {count} reports of {date}"));
        }
    }

    fn check_duplicates(&self, network: &Network, bounds: Bounds) {
        let mut unexplained = Vec::new();
        let mut by_crash: BTreeMap<Group, usize> = BTreeMap::new();
        let books = self.books();
        for (key, copies) in &books.copies {
            // A copy whose reply the node never read was lost to it. It may even arrive after the
            // next one: a slow peer reads what a closed connection left behind.
            let mut known: BTreeMap<Group, u64> = BTreeMap::new();
            for copy in copies {
                if network.read_by_client(copy.connection) < copy.reply_end {
                    continue;
                }
                match known.entry(copy.group) {
                    Entry::Vacant(entry) => {
                        entry.insert(copy.connection);
                    }
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
        drop(books);
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
        self.books().violations.clone()
    }

    /// Figures.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let books = self.books();
        let files: usize = books.mailboxes.values().map(BTreeSet::len).sum();
        let copies: usize = books.copies.values().map(Vec::len).sum();
        let is_acked = |s: &&Submission| s.fate == Fate::Acknowledged;
        Totals {
            submitted: books.submissions.len() as u64,
            acknowledged: books.submissions.values().filter(is_acked).count() as u64,
            arrived: (copies + files) as u64,
            duplicates: (copies - books.copies.len()) as u64,
            failed: books.failed.len() as u64,
        }
    }
}

impl Submission {
    /// Recipients of which something must be heard: they arrive, or the sender is told. Where the
    /// sender can't be told anything, those that can't arrive come to nothing.
    fn awaited(&self) -> impl Iterator<Item = &String> {
        let is_deaf = !self.sender.ends_with(SENDER_DOMAIN);
        let fails = |to: &str| to.ends_with(DEAD_DOMAIN) || local_of(to).ends_with(UNKNOWN_USER);
        self.recipients.iter().filter(move |to| !(is_deaf && fails(to)))
    }
}

impl Books {
    fn arrived(&self, recipient: &str) -> bool {
        self.copies.contains_key(recipient) || self.mailboxes.contains_key(recipient)
    }
}

/// What is before the @.
fn local_of(address: &str) -> &str {
    address.split('@').next().unwrap_or(address)
}

/// The message's name in an address of its own.
#[must_use]
pub fn name_of(address: &str) -> &str {
    address.split(['.', '@']).next().unwrap_or(address)
}
