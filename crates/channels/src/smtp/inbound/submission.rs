//! Submission by users with logins (RFC 6409).

use super::settings::{SmtpListener, SmtpListenerText, Submission};
use crate::logins::{LoginKeys, LoginsText, MechanismText};
use crate::originate::{AuthorsText, FieldRules, SenderRules};
use config::quantity::DurationText;
use config::{ProtocolSection, ProtocolSettings, Reader, TableRefText, Takes};
use mail::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::server::LoginRules;
use std::sync::Arc;
use std::time::Duration;

/// Maximum delay, as long as clients wait for a reply.
const FAILURE_DELAY_MAX: Duration = Duration::from_secs(60);

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
        let keys = LoginKeys {
            logins: text.logins.as_ref(),
            mechanisms: &text.mechanisms,
            failures_per_hour: text.login_failures_per_hour,
            failures_per_hour_of_user: text.login_failures_per_hour_of_user,
            failure_delay,
        };
        let logins = keys.read(reader)?;
        let origin = text.origin.as_deref().and_then(|domain| domain_of(domain, reader));
        listener.fields = FieldRules {
            add_missing: text.smtp.add_missing_fields.unwrap_or(true),
            remove_bcc: text.smtp.remove_bcc.unwrap_or(true),
            origin: origin.clone(),
        };
        listener.submission = Some(Arc::new(Submission {
            logins,
            takes_certificates: keys.take_certificates(),
            senders: Arc::new(SenderRules {
                // A missing table is an error, already reported.
                senders: senders.map_or(Some(None), |found| found.map(Some))?,
                authors: text.authors,
                hide_client: text.hide_client,
                origin,
            }),
        }));
        Some(Arc::new(listener))
    }
}

/// The domain of a setting in ASCII.
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
