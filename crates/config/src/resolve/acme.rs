//! `[acme]`, and certificates that come from there.

use crate::acme::{Acme, ExternalAccount, Ordered};
use crate::certificate::NamePattern;
use crate::resolver::Resolver;
use crate::written::{AcmeText, CertificateText, ExternalAccountText, KeyType};
use mail::Mailbox;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Octets of a directory's URL.
const URL_BYTES_MAX: usize = 1_024;

/// Names of one certificate: what Let's Encrypt takes.
const NAMES_MAX: usize = 100;

/// A retry is no shorter: whatever an authority bears, a loop is none of it.
const RETRY_MIN: Duration = Duration::from_secs(1);

/// Where certificates are kept that an authority issued.
pub(super) fn store(first_spool: &Path) -> PathBuf {
    first_spool.join("acme")
}

impl Resolver<'_> {
    /// `None`: no certificate wants it, or there is a mistake.
    pub(super) fn acme(
        &mut self,
        written: &AcmeText,
        certificates: &[CertificateText],
        store: PathBuf,
    ) -> Option<Acme> {
        let is_written = self.document.line("acme").is_some();
        let Some(first) = certificates.iter().position(|certificate| certificate.acme) else {
            if is_written {
                let help = "say `acme = true` in a [[certificate]] instead of `chain` and `key`";
                self.warn("acme", "[acme], and no certificate that comes from there", help);
            }
            return None;
        };
        if !written.terms_agreed {
            let help =
                "read the authority's terms of service; then say terms_agreed = true in [acme]";
            let certificate = format!("certificate[{first}]");
            let place = if is_written { "acme" } else { &certificate };
            self.error(place, "the terms of the certificate authority are not agreed to", help);
        }
        self.directory_url(&written.directory);
        let retry = self.timeout("acme.retry", &written.retry);
        if !retry.is_zero() && retry < RETRY_MIN {
            self.error("acme.retry", "less than a second", "");
        }
        let contact = written.contact.as_deref().and_then(|text| self.contact(text));
        let address = written.address.as_deref();
        let address = address.and_then(|text| self.socket_address("acme.address", text));
        let ca_file = written.ca_file.as_deref().map(|path| self.file_path("acme.ca_file", path));
        let external = written.external_account.as_ref();
        Some(Acme {
            directory: written.directory.as_str().into(),
            contact,
            challenge: written.challenge,
            address,
            ca_file,
            external_account: external.and_then(|text| self.external_account(text)),
            retry,
            store,
        })
    }

    /// RFC 8555 §6.1: only over HTTPS.
    fn directory_url(&mut self, url: &str) {
        let rest = url.strip_prefix("https://");
        let host = rest.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
        let is_url = !host.is_empty()
            && !host.contains('@')
            && url.len() <= URL_BYTES_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_url {
            let help = "such as \"https://acme-v02.api.letsencrypt.org/directory\"";
            let message = format!("\"{}\" is no https URL", url.escape_debug());
            self.error("acme.directory", message, help);
        }
    }

    fn contact(&mut self, text: &str) -> Option<Box<str>> {
        let problem = match Mailbox::parse(text, false) {
            Ok(address) if !address.domain_str().is_empty() => return Some(text.into()),
            Ok(_) => "the domain is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        self.error("acme.contact", format!("\"{text}\" is not an address"), &problem);
        None
    }

    fn external_account(&mut self, text: &ExternalAccountText) -> Option<ExternalAccount> {
        let at = "acme.external_account";
        let Some((key_id, key_file)) = text.key_id.as_deref().zip(text.key_file.as_deref()) else {
            let help = "both come from the authority, for a customer of it";
            self.error(at, "`key_id` and `key_file` go together", help);
            return None;
        };
        self.printable(&format!("{at}.key_id"), key_id, 256);
        let key_file = self.file_path(&format!("{at}.key_file"), key_file);
        Some(ExternalAccount { key_id: key_id.into(), key_file })
    }

    /// A certificate with `acme = true`: the name of its file, and how it is ordered. `None`: it has no names.
    pub(super) fn ordered(
        &mut self,
        at: &str,
        text: &CertificateText,
        names: &[NamePattern],
    ) -> Option<(String, Ordered)> {
        for (key, value) in [("chain", &text.chain), ("key", &text.key)] {
            if value.is_some() {
                let message = format!("`{key}` of a certificate that comes by ACME");
                let help = "name its files, or have it ordered: not both";
                self.error(&format!("{at}.{key}"), message, help);
            }
        }
        for (number, name) in names.iter().enumerate() {
            if name.is_wildcard() {
                let help = "authorities issue such only for dns-01, which is not spoken here: \
                            write the names out";
                let message = format!("\"{name}\" can't be had by ACME");
                self.error(&format!("{at}.names[{number}]"), message, help);
            }
        }
        if names.len() > NAMES_MAX {
            let help = "make several certificates of it";
            self.error(&format!("{at}.names"), format!("more than {NAMES_MAX} names"), help);
        }
        let ordered =
            Ordered { key_type: text.key_type.unwrap_or_default(), reuse_key: text.reuse_key };
        let kind = if ordered.key_type == KeyType::Rsa { "-rsa" } else { "" };
        let file = format!("{}{kind}.pem", names.first()?);
        Some((file, ordered))
    }
}
