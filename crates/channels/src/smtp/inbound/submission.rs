//! Submission by users with logins (RFC 6409).

use super::settings::{SmtpListener, SmtpListenerText, Submission};
use crate::logins::{LoginKeys, LoginsText, MechanismText};
use crate::originate::{AuthorsText, FieldRules, SenderRules};
use config::quantity::DurationText;
use config::{ProtocolSection, ProtocolSettings, Reader, TableRefText, Takes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::server::LoginRules;
use std::sync::Arc;
use std::time::Duration;

/// Maximum delay, as long as clients wait for a reply.
const FAILURE_DELAY_MAX: Duration = Duration::from_secs(60);

/// Keys of a `[[listener]]` for submission, in addition to those of SMTP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SubmissionText {
    #[serde(flatten)]
    smtp: SmtpListenerText,
    /// With `kind = "submission"`: source of users and passwords, one of `table`, `ldap`, `dovecot` and
    /// `introspection`. Required, unless all users log in by certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    logins: Option<LoginsText>,
    /// Table of the addresses and domains (`@example.org`) that each user may send from, separated by commas or blanks.
    /// MAIL with another sender gets 553 5.7.1. Default: any sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    senders: Option<TableRefText>,
    /// Permitted addresses in From, Sender, Resent-From and Resent-Sender; a message with another address gets 550
    /// 5.7.1. Default: `senders` if `senders` is set, otherwise `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    authors: Option<AuthorsText>,
    /// SASL mechanisms (RFC 4422), offered in encrypted sessions only. SCRAM-SHA-256 works only for passwords stored as
    /// `{SCRAM-SHA-256}` or `{PLAIN}`, and clients that support it do not fall back to another one. With `logins = {
    /// dovecot = … }` only those that Dovecot offers as well are offered.
    mechanisms: Vec<MechanismText>,
    /// Omit the client's name and address from the Received field. Events still contain them.
    hide_client: bool,
    /// Maximum duration of a session without a login, then 421 4.4.2. Dovecot has the same default of three minutes.
    login_timeout: DurationText,
    /// Maximum number of failed logins in one session; the last one gets 421 4.7.0.
    #[schemars(range(min = 1))]
    max_login_failures: u32,
    /// Maximum number of failed logins per hour of one client (an IPv4 address or an IPv6 /64), at all listeners
    /// together. Further connections get 421 4.7.0, and AUTH gets 454 4.7.0. 0 for no limit.
    login_failures_per_hour: u32,
    /// Maximum number of failed logins per hour as one user, from all clients together. Further AUTH commands get 454
    /// 4.7.0, even from the real user. 0 for no limit.
    login_failures_per_hour_of_user: u32,
    /// Delay of the reply to a failed login.
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
            let help = "name the table of the users' addresses: senders = { table = \"senders\" }";
            reader.error(
                "authors",
                "authors are restricted to `senders`, but `senders` is missing",
                help,
            );
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
            reader.error("mechanisms", "`mechanisms` is empty", help);
        }
        let mechanisms = text.mechanisms.iter().map(|one| one.name()).collect();
        let failures_max = text.max_login_failures;
        let timeout = reader.timeout("login_timeout", &text.login_timeout);
        listener.server.logins = Some(LoginRules { mechanisms, failures_max, timeout });
        let failure_delay = reader.duration("login_failure_delay", &text.login_failure_delay);
        if failure_delay > FAILURE_DELAY_MAX {
            let message = "clients wait at most a minute for a failed login";
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
        let origin = listener.fields.origin.clone();
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
