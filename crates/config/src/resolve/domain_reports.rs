//! `[dmarc_reports]` and `[tls_reports]`: what owners of domains are told.

use crate::resolver::Resolver;
use crate::settings::{DmarcReports, TlsReports};
use crate::written::{DmarcReportsText, TlsReportsText};
use mail::{Domain, Mailbox};
use std::time::Duration;

/// Octets of a text that readers of reports see.
const TEXT_BYTES_MAX: usize = 200;

/// Reports are sent so long after the end of their day at most: what can't be sent is tried for another day.
const SPREAD_MAX: Duration = Duration::from_secs(12 * 3_600);

/// An optional text of a section, by its key.
type KeyedText<'a> = (&'static str, &'a Option<String>);

impl Resolver<'_> {
    /// `None`: they are off, or there is a mistake.
    pub(super) fn dmarc_reports(
        &mut self,
        written: &DmarcReportsText,
        hostname: &Domain,
    ) -> Option<DmarcReports> {
        let texts =
            [("organization_name", &written.organization_name), ("contact", &written.contact)];
        self.report_texts("dmarc_reports", written.from.as_deref(), texts);
        let from = self.sender_address("dmarc_reports.from", written.from.as_deref()?)?;
        let organization = written.organization_name.as_deref();
        Some(DmarcReports {
            from,
            organization_name: organization.unwrap_or(hostname.as_str()).into(),
            contact: written.contact.as_deref().map(Box::from),
            hour: written.hour,
        })
    }

    /// The same.
    pub(super) fn tls_reports(
        &mut self,
        written: &TlsReportsText,
        hostname: &Domain,
    ) -> Option<TlsReports> {
        let texts =
            [("organization_name", &written.organization_name), ("contact", &written.contact)];
        self.report_texts("tls_reports", written.from.as_deref(), texts);
        let spread = self.duration("tls_reports.spread", &written.spread);
        if spread > SPREAD_MAX {
            self.error("tls_reports.spread", "more than half a day", "\"12h\" is the most");
        }
        let from = self.sender_address("tls_reports.from", written.from.as_deref()?)?;
        let contact = match written.contact.as_deref() {
            Some(contact) => self.sender_address("tls_reports.contact", contact)?,
            None => from.clone(),
        };
        let organization = written.organization_name.as_deref();
        Some(TlsReports {
            from,
            organization_name: organization.unwrap_or(hostname.as_str()).into(),
            contact,
            spread,
        })
    }

    /// Texts that stand in reports, where there are any.
    fn report_texts(&mut self, section: &str, from: Option<&str>, texts: [KeyedText<'_>; 2]) {
        for (key, text) in texts {
            let path = format!("{section}.{key}");
            let Some(text) = text else { continue };
            if from.is_none() {
                let help = "say whom reports come from, such as from = \"reports@example.org\"";
                self.error(&path, format!("`{key}` without `from`"), help);
            }
            let is_text = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || !is_text {
                let message =
                    format!("1 to {TEXT_BYTES_MAX} printable ASCII characters are wanted");
                self.error(&path, message, "");
            }
        }
    }

    fn sender_address(&mut self, path: &str, text: &str) -> Option<Mailbox> {
        let problem = match Mailbox::parse(text, false) {
            Ok(address) if !address.domain_str().is_empty() => return Some(address),
            Ok(_) => "the domain is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        self.error(path, format!("\"{text}\" is not an address"), &problem);
        None
    }
}
