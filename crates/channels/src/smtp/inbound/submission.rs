//! Submission by users who log in (RFC 6409): its settings, and what it does to messages.

use super::fields::{FieldRules, TOO_MANY_FIELDS, Watch, completed};
use super::logins::LoginsText;
use super::mechanism::MechanismText;
use super::settings::{SmtpListener, SmtpListenerText};
use config::quantity::DurationText;
use config::{Config, ProtocolSection, ProtocolSettings, Reader, TableEntry, TableRefText, Takes};
use mail::field_watch::Found;
use mail::{Domain, Mailbox, Refusal, address_list, is_dot_string};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, LoginSource, Logins, Observer, Stage, TransactionView, granted_by, is_one_member,
    no_answer, observed,
};
use mta::seams::World;
use mta::tables;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::server::LoginRules;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A client waits no longer for its answer.
const FAILURE_DELAY_MAX: Duration = Duration::from_secs(60);

/// `senders` does not have it.
const NOT_YOURS: Refusal =
    Refusal::permanent((7, 1), "You may not send from this address").with_code(553);

/// `senders` does not have an author.
const NOT_YOUR_NAME: Refusal =
    Refusal::permanent((7, 1), "You may not write in the name of this author");

/// The keys of a `[[listener]]` where users log in: those of SMTP, and these.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SubmissionText {
    #[serde(flatten)]
    smtp: SmtpListenerText,
    /// With `kind = "submission"`: who knows users and their passwords, one of `table`, `ldap`,
    /// `dovecot` and `introspection`. Required, unless all log in by certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    logins: Option<LoginsText>,
    /// The table from users to the addresses and domains (`@example.org`) that they may send from,
    /// with commas or blanks between them; 553 5.7.1 to MAIL for others. Without it: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    senders: Option<TableRefText>,
    /// `senders`: every address of From, Sender, Resent-From and Resent-Sender must be one that the user may send
    /// from, too; 550 5.7.1 for others. `any`: whatever users write. Without it: `senders` where there are
    /// `senders` and a `[[tenant]]`, `any` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    authors: Option<AuthorsText>,
    /// How users may prove who they are, by SASL (RFC 4422), always encrypted. SCRAM-SHA-256 serves
    /// those only whose passwords are stored as `{SCRAM-SHA-256}` or `{PLAIN}`, and clients that
    /// know it try no other; with `logins = { dovecot = … }` what Dovecot offers of these is offered.
    mechanisms: Vec<MechanismText>,
    /// Leave the client's name and address out of the Received field. Events have them.
    hide_client: bool,
    /// The domain of authors who have none: `From: jo` becomes `From: jo@example.org` (RFC 6409 §6.3;
    /// Postfix's `myorigin`). Without it such a field stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// So long a session may last in which nobody has logged in, whatever is said in it; 421 4.4.2 at its
    /// end. Dovecot has the same three minutes.
    login_timeout: DurationText,
    /// Failed logins in one session, 421 4.7.0 at the last one.
    #[schemars(range(min = 1))]
    max_login_failures: u32,
    /// Failed logins within an hour from one client (an IPv4 address or an IPv6 /64), at all
    /// listeners together; 421 4.7.0 to connections and 454 4.7.0 to AUTH beyond it. 0: no limit.
    login_failures_per_hour: u32,
    /// Failed logins within an hour as one user, wherever from; 454 4.7.0 to AUTH beyond it, to the
    /// user himself too. 0: no limit.
    login_failures_per_hour_of_user: u32,
    /// A failed login is answered so long after it came.
    login_failure_delay: DurationText,
}

impl Default for SubmissionText {
    fn default() -> SubmissionText {
        SubmissionText {
            smtp: SmtpListenerText::default(),
            logins: None,
            senders: None,
            authors: None,
            mechanisms: vec![MechanismText::Plain, MechanismText::Login],
            hide_client: false,
            origin: None,
            login_timeout: "3m".into(),
            max_login_failures: 3,
            login_failures_per_hour: 60,
            login_failures_per_hour_of_user: 120,
            login_failure_delay: "2s".into(),
        }
    }
}

impl SubmissionText {
    fn check_authors(&self, reader: &mut Reader<'_, '_>) {
        if self.authors == Some(AuthorsText::Senders) && self.senders.is_none() {
            let help = "name the table of users' addresses: senders = { table = \"senders\" }";
            reader.error("authors", "authors are to be among `senders`, and there are none", help);
        }
    }
}

/// Whom users may name as authors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AuthorsText {
    /// Those that they may send from.
    Senders,
    /// Anybody.
    Any,
}

/// What a listener is told of submission.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) logins: Logins,
    senders: Option<Arc<TableEntry>>,
    authors: Option<AuthorsText>,
    /// Users may log in by their certificates.
    pub(super) takes_certificates: bool,
    hide_client: bool,
    /// In ASCII.
    pub(super) origin: Option<String>,
}

impl ProtocolSection for SubmissionText {
    const KIND: &'static str = "submission";
    const TAKES: Takes = Takes::MailOfUsers;
    type Text = SubmissionText;

    fn read(
        text: SubmissionText,
        reader: &mut Reader<'_, '_>,
    ) -> Option<Arc<dyn ProtocolSettings>> {
        let mut listener = SmtpListener::read(&text.smtp, reader);
        if text.mechanisms.is_empty() {
            let help = "the usual ones are [\"plain\", \"login\"]";
            reader.error("mechanisms", "nobody can log in without a mechanism", help);
        }
        let mechanisms = text.mechanisms.iter().map(|one| one.name()).collect();
        let failures_max = text.max_login_failures;
        let timeout = reader.timeout("login_timeout", &text.login_timeout);
        listener.server.logins = Some(LoginRules { mechanisms, failures_max, timeout });
        let failure_delay = reader.duration("login_failure_delay", &text.login_failure_delay);
        if failure_delay > FAILURE_DELAY_MAX {
            let message = "no client waits longer than a minute to learn that it failed";
            reader.error("login_failure_delay", message, "");
        }
        let senders = text.senders.as_ref().map(|to| reader.table("senders.table", &to.table));
        text.check_authors(reader);
        let by_certificate = |mechanism: &MechanismText| *mechanism == MechanismText::External;
        let patience = text.logins.as_ref().map_or(Duration::ZERO, |one| one.patience(reader));
        let tokens = match &text.logins {
            Some(logins) => logins.tokens(reader)?,
            None => None,
        };
        let source = match &text.logins {
            Some(logins) => logins.read(reader)?,
            None if !text.mechanisms.is_empty() && text.mechanisms.iter().all(by_certificate) => {
                LoginSource::Nobody
            }
            None => {
                let help = "name the table of passwords: logins = { table = \"passwords\" }";
                reader.error("", "a submission listener without `logins`", help);
                return None;
            }
        };
        let logins = Logins {
            source,
            tokens,
            patience,
            failures_per_hour: text.login_failures_per_hour,
            failures_per_hour_of_user: text.login_failures_per_hour_of_user,
            salts: text.logins.as_ref().and_then(LoginsText::salts),
            failure_delay,
        };
        MechanismText::check(&text.mechanisms, &logins, reader);
        let origin = text.origin.as_deref().and_then(|domain| domain_of(domain, reader));
        listener.fields = FieldRules {
            add_missing: text.smtp.add_missing_fields.unwrap_or(true),
            remove_bcc: text.smtp.remove_bcc.unwrap_or(true),
            origin: origin.clone(),
        };
        listener.submission = Some(Arc::new(Submission {
            logins,
            // One that isn't there is a mistake, which was told.
            senders: senders.map_or(Some(None), |found| found.map(Some))?,
            authors: text.authors,
            takes_certificates: text.mechanisms.iter().any(by_certificate),
            hide_client: text.hide_client,
            origin,
        }));
        Some(Arc::new(listener))
    }
}

/// What submission does to the messages of users.
pub(super) struct SubmissionStage<W: World> {
    submission: Arc<Submission>,
    /// Authors must be among these.
    authors: Option<Arc<TableEntry>>,
    world: W,
    console: Rc<dyn Console>,
}

impl<W: World> SubmissionStage<W> {
    pub(super) fn new(
        submission: &Arc<Submission>,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
    ) -> SubmissionStage<W> {
        let is_checked = match submission.authors {
            Some(authors) => authors == AuthorsText::Senders,
            // Tenants are strangers to each other: one must not write in another's name.
            None => !config.tenants.is_empty(),
        };
        SubmissionStage {
            submission: Arc::clone(submission),
            authors: submission.senders.clone().filter(|_| is_checked),
            world: world.clone(),
            console: Rc::clone(console),
        }
    }
}

impl<W: World> Stage for SubmissionStage<W> {
    fn name(&self) -> &'static str {
        SubmissionText::KIND
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        // Reports and receipts are nobody's (RFC 8098 §3).
        let (Some(senders), Some(sender)) = (&self.submission.senders, &transaction.sender) else {
            return Decision::pass();
        };
        let Some(user) = &transaction.session.client().login else {
            return Answer::Now(Err(NOT_YOURS));
        };
        let is_built = senders.builds_answers() && !is_one_member(user);
        tables::find(self.world.tables(), senders, user).then(move |found| {
            Answer::Now(match found {
                Ok(Some(entry)) if is_among(&granted_by(&entry, is_built), sender) => Ok(()),
                Ok(_) => Err(NOT_YOURS),
                Err(trouble) => Err(no_answer(&*self.console, &trouble)),
            })
        })
    }

    fn observe(&self, _: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        self.authors.is_some().then(|| Box::new(Watch::new(&WATCHED[..])) as _)
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        if self.submission.hide_client {
            draft.hide_client();
        }
        let seen = observed::<Watch>(observer);
        let Some(watch) = seen else { return Decision::pass() };
        if watch.has_more() {
            return Answer::Now(Err(TOO_MANY_FIELDS));
        }
        self.check_authors(transaction, &watch.finish())
    }
}

impl<W: World> SubmissionStage<W> {
    /// Refuses authors that the user may not send as.
    fn check_authors(&self, transaction: &TransactionView, fields: &[Found]) -> Decision<'_, ()> {
        let Some(senders) = &self.authors else { return Decision::pass() };
        let Some(user) = &transaction.session.client().login else {
            return Answer::Now(Err(NOT_YOUR_NAME));
        };
        let Some(authors) = self.authors_of(fields) else { return Answer::Now(Err(NOT_YOUR_NAME)) };
        if authors.is_empty() {
            return Decision::pass();
        }
        let is_built = senders.builds_answers() && !is_one_member(user);
        tables::find(self.world.tables(), senders, user).then(move |found| {
            Answer::Now(match found {
                Ok(Some(entry)) => {
                    let granted = granted_by(&entry, is_built);
                    let is_his = |author| is_among(&granted, author);
                    authors.iter().all(is_his).then_some(()).ok_or(NOT_YOUR_NAME)
                }
                Ok(None) => Err(NOT_YOUR_NAME),
                Err(trouble) => Err(no_answer(&*self.console, &trouble)),
            })
        })
    }

    /// Everybody whom a header names as its author or sender. `None`: that can't be read, or not by all alike.
    fn authors_of(&self, fields: &[Found]) -> Option<Vec<Mailbox>> {
        let mut authors = Vec::new();
        for field in fields {
            let value = field.value();
            let completed = match (&self.submission.origin, field.name) {
                (Some(domain), FROM) => completed(field, domain),
                _ => None,
            };
            let value = completed.as_deref().map_or(&*value, str::as_bytes);
            let addresses = address_list::read(value).filter(|_| !field.is_cut)?;
            for address in addresses {
                authors.push(mailbox_of(&address)?);
            }
        }
        Some(authors)
    }
}

/// An author as a mailbox; `None`: it lacks a domain, or is none.
fn mailbox_of(author: &address_list::Address) -> Option<Mailbox> {
    let address_list::Address { local, domain } = author;
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    let text = match is_dot_string(local) {
        true => format!("{local}@{domain}"),
        false => format!("\"{quoted}\"@{domain}"),
    };
    Mailbox::parse(&text, true).ok()
}

/// A domain in ASCII, as a setting has it.
fn domain_of(domain: &str, reader: &mut Reader<'_, '_>) -> Option<String> {
    match Domain::parse(domain).and_then(|domain| domain.to_ascii()) {
        Ok(domain) => Some(domain),
        Err(error) => {
            reader.error(
                "origin",
                format!("\"{domain}\": {error}"),
                "a domain, as in \"example.org\"",
            );
            None
        }
    }
}

/// From, Sender, and those of whoever sends a message again (RFC 5322 §3.6.2, §3.6.6).
const WATCHED: [&str; 4] = ["From", "Sender", "Resent-From", "Resent-Sender"];
const FROM: usize = 0;

/// Whether one of these addresses and domains is the sender's. A tag (`user+tag@`) is the user's.
fn is_among(granted: &[Cow<'_, str>], sender: &Mailbox) -> bool {
    let keys = tables::keys_of(sender, false);
    granted.iter().any(|word| {
        let word = word.to_lowercase();
        let word = if word.contains('@') { word } else { format!("@{word}") };
        keys.iter().any(|(_, key)| key.text == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_among_addresses_and_domains() {
        let is = |allowed: &str, sender: &str| {
            let entry = lookup::Entry::text(allowed);
            is_among(&granted_by(&entry, false), &Mailbox::parse(sender, true).unwrap())
        };
        assert!(is("jo@x.test", "Jo@X.test") && is("al@x.test, JO@x.test", "jo+list@x.test"));
        assert!(is("@x.test", "anybody@x.test") && is("y.test x.test", "anybody@x.test"));
        assert!(is("@xn--bcher-kva.example", "a@b\u{fc}cher.example"));
        for not in ["", "al@x.test", "jo@y.test", "@sub.x.test", "test", "jo+other@x.test", "jo"] {
            assert!(!is(not, "jo@x.test"), "{not}");
        }
    }
}
