//! `[[certificate]]`.

use crate::certificate::{Certificate, NamePattern, Ordered, issued};
use crate::listener::takes::Takes;
use crate::listener::{CertificateIdentity, ClientCertificates, ProtocolSettings};
use crate::resolver::Resolver;
use crate::written::{
    CertificateIdentityText, CertificateText, ClientCertificatesText, KeyType, ListenerText,
    ListenerTls,
};
use mail::Domain;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of names of one certificate: the limit of Let's Encrypt.
const NAMES_MAX: usize = 100;

impl Resolver<'_> {
    pub(super) fn certificates(
        &mut self,
        written: &[CertificateText],
        first_spool: &Path,
    ) -> Vec<Certificate> {
        let store = issued(first_spool);
        let mut certificates = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let certificate = self.certificate(index, text, &store, &certificates);
            certificates.extend(certificate);
        }
        certificates
    }

    /// `None`: there is a mistake in it.
    fn certificate(
        &mut self,
        index: usize,
        text: &CertificateText,
        store: &Path,
        others: &[Certificate],
    ) -> Option<Certificate> {
        let at = format!("certificate[{index}]");
        if text.names.is_empty() {
            let help = "name the hosts, for example names = [\"mx.example.org\"]";
            self.error(&at, "a certificate without `names`", help);
        }
        let numbered = text.names.iter().enumerate();
        let names: Vec<NamePattern> = numbered
            .filter_map(|(number, name)| self.name_pattern(&format!("{at}.names[{number}]"), name))
            .collect();
        let line = self.document.line(&at).unwrap_or(0);
        if text.acme {
            let (file, ordered) = self.ordered(&at, text, &names)?;
            let path = store.join(file);
            if let Some(other) = others.iter().find(|other| other.chain == path) {
                let help = format!("on line {}: both would use the same file", other.line);
                let message = "another ACME certificate has the same first name";
                self.error(&format!("{at}.names"), message, &help);
            }
            let (chain, key) = (path.clone(), path);
            return Some(Certificate { names, chain, key, ordered: Some(ordered), line });
        }
        let is_written = [("key_type", text.key_type.is_some()), ("reuse_key", text.reuse_key)];
        for (key, _) in is_written.into_iter().filter(|(_, is_written)| *is_written) {
            let help = "the key file decides; with acme = true a key is generated";
            self.error(&format!("{at}.{key}"), format!("`{key}` without `acme`"), help);
        }
        let chain = self.certificate_file(&at, "chain", text.chain.as_deref());
        let key = self.certificate_file(&at, "key", text.key.as_deref());
        Some(Certificate { names, chain: chain?, key: key?, ordered: None, line })
    }

    /// A certificate with `acme = true`: the name of its file, and how it is ordered. `None`: it has no names.
    fn ordered(
        &mut self,
        at: &str,
        text: &CertificateText,
        names: &[NamePattern],
    ) -> Option<(String, Ordered)> {
        for (key, value) in [("chain", &text.chain), ("key", &text.key)] {
            if value.is_some() {
                let message = format!("`{key}` of an ACME certificate");
                let help = "use either files or acme = true";
                self.error(&format!("{at}.{key}"), message, help);
            }
        }
        for (number, name) in names.iter().enumerate() {
            if name.is_wildcard() {
                let help = "authorities issue wildcards only by dns-01, which is not supported: \
                 list the names";
                let message = format!("\"{name}\" cannot be ordered by ACME");
                self.error(&format!("{at}.names[{number}]"), message, help);
            }
        }
        if names.len() > NAMES_MAX {
            let help = "use several certificates";
            self.error(&format!("{at}.names"), format!("more than {NAMES_MAX} names"), help);
        }
        let ordered =
            Ordered { key_type: text.key_type.unwrap_or_default(), reuse_key: text.reuse_key };
        let kind = if ordered.key_type == KeyType::Rsa { "-rsa" } else { "" };
        let file = format!("{}{kind}.pem", names.first()?);
        Some((file, ordered))
    }
    fn certificate_file(&mut self, at: &str, key: &str, path: Option<&str>) -> Option<PathBuf> {
        if path.is_none() {
            let help = format!("name the file, for example {key} = \"/etc/postrider/mx.pem\"");
            self.error(at, format!("a certificate without `{key}`"), &help);
        }
        path.map(|path| self.file_path(&format!("{at}.{key}"), path))
    }

    fn name_pattern(&mut self, path: &str, text: &str) -> Option<NamePattern> {
        let (name, is_wildcard) = match text.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (text, false),
        };
        let ascii =
            Domain::parse(name).and_then(|domain| domain.to_ascii().map(|ascii| ascii.to_string()));
        match ascii {
            Ok(name) if !name.contains(['[', '*']) => {
                Some(NamePattern::new(&name.to_ascii_lowercase(), is_wildcard))
            }
            _ => {
                let help = "write a domain, for example \"mx.example.org\" or \"*.example.org\"";
                self.error(path, format!("\"{text}\" is not a name for a certificate"), help);
                None
            }
        }
    }
}

impl Resolver<'_> {
    /// Settings of client certificates; `None` if not requested.
    pub(super) fn client_certificates(
        &mut self,
        at: &str,
        text: &ListenerText,
        tls: ListenerTls,
        protocol: Option<(&dyn ProtocolSettings, Takes)>,
    ) -> Option<Arc<ClientCertificates>> {
        let Some(asked) = &text.client_certificates else {
            if let Some(key) = protocol.and_then(|(protocol, _)| protocol.login_by_certificate()) {
                let help = "add client_certificates = { authorities = \"/path/of/ca.pem\" }";
                self.error(
                    &format!("{at}.{key}"),
                    "mechanism \"external\" without client certificates",
                    help,
                );
            }
            return None;
        };
        let path = format!("{at}.client_certificates");
        if tls == ListenerTls::Off {
            self.error(
                &path,
                "`client_certificates` without TLS",
                "add a [[certificate]], and leave `tls` out",
            );
        }
        if asked.authorities.is_none() {
            self.check_without_authorities(&path, asked);
        }
        if asked.relay && protocol.is_some_and(|(_, takes)| takes == Takes::MailOfUsers) {
            let help = "authenticate clients by certificate: mechanisms = [\"external\"]";
            self.error(&format!("{path}.relay"), "`relay` on a listener with logins", help);
        }
        let users = asked.users.as_ref();
        let users =
            users.map(|users| self.table_named(&format!("{path}.users.table"), &users.table));
        let authorities = asked.authorities.as_ref();
        Some(Arc::new(ClientCertificates {
            authorities: authorities
                .map(|file| self.file_path(&format!("{path}.authorities"), file)),
            required: asked.required,
            identity: match asked.identity {
                CertificateIdentityText::Name => CertificateIdentity::Name,
                CertificateIdentityText::Certificate => CertificateIdentity::Certificate,
                CertificateIdentityText::Key => CertificateIdentity::Key,
            },
            // A missing table is an error that was reported.
            users: users.map_or(Some(None), |found| found.map(Some))?,
            relay: asked.relay,
        }))
    }

    /// Anybody can make a certificate with any name in it.
    fn check_without_authorities(&mut self, path: &str, asked: &ClientCertificatesText) {
        if asked.users.is_none() {
            let help = "name the certificate authorities, or the users by fingerprint";
            self.error(path, "any certificate would be accepted", help);
        } else if asked.identity == CertificateIdentityText::Name {
            let help = "without `authorities` only fingerprints identify users: identity = \
             \"certificate\" or \"key\"";
            self.error(path, "certificate names are unverified", help);
        }
    }
}
