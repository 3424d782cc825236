//! `[reports]`.

use crate::resolver::Resolver;
use crate::settings::{ReportRetry, ReportTo, Reports};
use crate::written::{ReportRetryText, ReportsOverrideText, ReportsText};
use mail::Mailbox;

impl Resolver<'_> {
    /// The values at `at`: `reports`, or the table of a route.
    pub(super) fn reports(&mut self, at: &str, text: &ReportsText) -> Reports {
        let key = |name: &str| format!("{at}.{name}");
        let to = match text.to.as_str() {
            "sender" => ReportTo::Sender,
            "nobody" => ReportTo::Nobody,
            address => match self.report_address(&key("to"), address) {
                Some(address) => ReportTo::Address(address),
                None => ReportTo::Sender,
            },
        };
        let mut optional = |name: &str, text: &Option<String>| {
            text.as_deref().and_then(|text| self.report_address(&key(name), text))
        };
        let copy_to = optional("copy_to", &text.copy_to);
        let double_bounce_to = optional("double_bounce_to", &text.double_bounce_to);
        let directory = text.directory.as_deref();
        Reports {
            to,
            copy_to,
            directory: directory.map(|path| self.file_path(&key("directory"), path)),
            returns: text.returns,
            per_sender_per_hour: text.per_sender_per_hour,
            delays_to_strangers: text.delays_to_strangers,
            double_bounce_to,
        }
    }

    pub(super) fn report_retry(&mut self, text: Option<&ReportRetryText>) -> ReportRetry {
        let Some(text) = text else { return ReportRetry::default() };
        let key = |name: &str| format!("reports.retry.{name}");
        let mut wait =
            |name: &str, text: &Option<_>| text.as_ref().map(|text| self.timeout(&key(name), text));
        ReportRetry {
            first: wait("first", &text.first),
            longest: wait("longest", &text.longest),
            give_up_after: wait("give_up_after", &text.give_up_after),
        }
    }

    fn report_address(&mut self, path: &str, text: &str) -> Option<Mailbox> {
        let problem = match Mailbox::parse(text, false) {
            Ok(address) if address.has_domain() => return Some(address),
            Ok(_) => "the domain is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = if path.ends_with(".to") {
            format!("\"{text}\" is not \"sender\", \"nobody\" or an address")
        } else {
            format!("\"{text}\" is not an address")
        };
        self.error(path, message, &problem);
        None
    }
}

/// `[reports]` with a route's changes.
pub(super) fn merge(base: &ReportsText, changes: &ReportsOverrideText) -> ReportsText {
    let or = |change: &Option<String>, base: &Option<String>| change.clone().or(base.clone());
    ReportsText {
        to: changes.to.as_ref().unwrap_or(&base.to).clone(),
        copy_to: or(&changes.copy_to, &base.copy_to),
        directory: or(&changes.directory, &base.directory),
        returns: changes.returns.unwrap_or(base.returns),
        per_sender_per_hour: changes.per_sender_per_hour.unwrap_or(base.per_sender_per_hour),
        delays_to_strangers: changes.delays_to_strangers.unwrap_or(base.delays_to_strangers),
        double_bounce_to: or(&changes.double_bounce_to, &base.double_bounce_to),
        retry: None,
    }
}
