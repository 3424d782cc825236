//! `[srs]`.

use crate::resolver::Resolver;
use crate::settings::Srs;
use crate::written::SrsText;
use mail::Domain;

impl Resolver<'_> {
    pub(super) fn srs(&mut self, written: &SrsText) -> Option<Srs> {
        let (domain, file) = match (&written.domain, &written.secret_file) {
            (None, None) => return None,
            (Some(domain), Some(file)) => (domain, file),
            (Some(_), None) => {
                let help = "name a file with a secret that nobody else can read";
                self.error("srs.domain", "`domain` without `secret_file`", help);
                return None;
            }
            (None, Some(_)) => {
                let help = "say where rewritten senders are, such as domain = \"srs.example.org\"";
                self.error("srs.secret_file", "`secret_file` without `domain`", help);
                return None;
            }
        };
        let secret_file = self.file_path("srs.secret_file", file);
        let read = Domain::parse(domain).and_then(|domain| domain.to_ascii().map(|_| domain));
        match read {
            Ok(domain) => Some(Srs { domain, secret_file, secrets: Vec::new() }),
            Err(error) => {
                let message = format!("\"{domain}\" is not a domain");
                self.error("srs.domain", message, &error.to_string());
                None
            }
        }
    }
}
