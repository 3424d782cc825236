//! `[dmarc_reports]`.

use crate::resolver::Resolver;
use crate::settings::DmarcReports;
use crate::written::DmarcReportsText;
use mail::{Domain, Mailbox};

/// Octets of a text that readers of reports see.
const TEXT_BYTES_MAX: usize = 200;

impl Resolver<'_> {
    /// `None`: they are off, or there is a mistake.
    pub(super) fn dmarc_reports(
        &mut self,
        written: &DmarcReportsText,
        hostname: &Domain,
    ) -> Option<DmarcReports> {
        let texts =
            [("organization_name", &written.organization_name), ("contact", &written.contact)];
        for (key, text) in texts {
            let path = format!("dmarc_reports.{key}");
            let Some(text) = text else { continue };
            if written.from.is_none() {
                let help = "say whom reports come from, such as from = \"dmarc@example.org\"";
                self.error(&path, format!("`{key}` without `from`"), help);
            }
            let is_text = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || !is_text {
                let message =
                    format!("1 to {TEXT_BYTES_MAX} printable ASCII characters are wanted");
                self.error(&path, message, "");
            }
        }
        let from = written.from.as_deref()?;
        let problem = match Mailbox::parse(from, false) {
            Ok(from) if !from.domain_str().is_empty() => {
                let organization = written.organization_name.as_deref();
                return Some(DmarcReports {
                    from,
                    organization_name: organization.unwrap_or(hostname.as_str()).into(),
                    contact: written.contact.as_deref().map(Box::from),
                    hour: written.hour,
                });
            }
            Ok(_) => "the domain is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        self.error("dmarc_reports.from", format!("\"{from}\" is not an address"), &problem);
        None
    }
}
