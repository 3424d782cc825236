//! `[[certificate]]`.

use crate::certificate::{Certificate, NamePattern};
use crate::resolver::Resolver;
use crate::written::CertificateText;
use mail::Domain;
use std::path::PathBuf;

impl Resolver<'_> {
    pub(super) fn certificates(&mut self, written: &[CertificateText]) -> Vec<Certificate> {
        let numbered = written.iter().enumerate();
        numbered.filter_map(|(index, text)| self.certificate(index, text)).collect()
    }

    /// `None`: there is a mistake in it.
    fn certificate(&mut self, index: usize, text: &CertificateText) -> Option<Certificate> {
        let at = format!("certificate[{index}]");
        if text.names.is_empty() {
            let help = "say whom it is shown to, such as names = [\"mx.example.org\"]";
            self.error(&at, "a certificate without `names`", help);
        }
        let numbered = text.names.iter().enumerate();
        let names: Vec<NamePattern> = numbered
            .filter_map(|(number, name)| self.name_pattern(&format!("{at}.names[{number}]"), name))
            .collect();
        let chain = self.certificate_file(&at, "chain", text.chain.as_deref());
        let key = self.certificate_file(&at, "key", text.key.as_deref());
        let line = self.document.line(&at).unwrap_or(0);
        Some(Certificate { names, chain: chain?, key: key?, line })
    }

    fn certificate_file(&mut self, at: &str, key: &str, path: Option<&str>) -> Option<PathBuf> {
        if path.is_none() {
            let help = format!("name the file, such as {key} = \"/etc/postrider/mx.pem\"");
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
                let help = "a domain is wanted, such as \"mx.example.org\" or \"*.example.org\"";
                self.error(path, format!("\"{text}\" is not a name for a certificate"), help);
                None
            }
        }
    }
}
