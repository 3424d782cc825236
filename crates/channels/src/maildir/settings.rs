//! What a `maildir` route is told.

use config::{ChannelSection, Destination, Explainer, Reader, Settings};
use mail::Mailbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Keep in a Maildir on this server: written to `tmp`, synced, then moved to `new`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct MaildirText {
    /// The Maildir of a recipient. `{domain}` and `{local}` stand for the recipient's domain and
    /// local part in lower case; what could lead elsewhere (`/`, a leading dot) is written as
    /// `%2F`, `%2E`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl ChannelSection for MaildirText {
    const KEY: &'static str = "maildir";
    const SUMMARY: &'static str = "Keep in a Maildir on this server.";
    const EXAMPLE: &'static str = "maildir = { path = \"/srv/mail/{domain}/{local}\" }";
    type Text = MaildirText;

    fn read(text: MaildirText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let Some(path) = text.path else {
            let help = "such as path = \"/srv/mail/{domain}/{local}\"";
            reader.error("", "a route to nowhere: `path` is missing", help);
            return None;
        };
        match Template::parse(&path) {
            Ok(template) => {
                if !path.contains("{local}") {
                    let help = "add {local} to give each recipient a Maildir of its own";
                    reader.warn("path", "all recipients share one Maildir", help);
                }
                Some(Arc::new(Maildir { template }))
            }
            Err(help) => {
                reader.error("path", "not a path for Maildirs", &help);
                None
            }
        }
    }

    fn mailbox_at(path: &str) -> Option<Arc<dyn Settings>> {
        Some(Arc::new(Maildir { template: Template::parse(path).ok()? }))
    }
}

/// A Maildir per recipient.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Maildir {
    template: Template,
}

impl Maildir {
    /// The Maildir of this recipient.
    pub(super) fn path_for(&self, recipient: &Mailbox) -> PathBuf {
        self.template.path_for(recipient)
    }
}

impl Settings for Maildir {
    fn key(&self) -> &'static str {
        MaildirText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here(&self.template.0)
    }

    fn has_place_for(&self, recipient: &Mailbox) -> bool {
        self.template.fits(recipient)
    }

    fn explain_destination(&self, recipient: &Mailbox, explainer: &mut Explainer<'_>) {
        explainer.own_key("path", self.path_for(recipient).display().to_string());
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Maildir>() == Some(self)
    }
}

/// The path of each recipient's Maildir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(String);

impl Template {
    /// A template with `{domain}` and `{local}`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(template: &str) -> Result<Template, String> {
        if template.is_empty() {
            return Err("the path is empty".to_owned());
        }
        let mut rest = template;
        while let Some(open) = rest.find(['{', '}']) {
            let tail = &rest[open..];
            let close = tail.find('}').map_or(tail.len(), |at| at + 1);
            match &tail[..close] {
                "{domain}" | "{local}" => rest = &tail[close..],
                other => {
                    return Err(format!(
                        "`{other}` stands for nothing: use {{domain}} and {{local}}"
                    ));
                }
            }
        }
        Ok(Template(template.to_owned()))
    }

    /// Whether this recipient's Maildir can have its name: the parts of a path have at most 255
    /// octets, and escapes make long local parts longer.
    pub(super) fn fits(&self, recipient: &Mailbox) -> bool {
        if recipient.local().len() <= SHORT_LOCAL_BYTES {
            return true;
        }
        let path = self.path_for(recipient);
        path.iter().all(|part| part.len() <= FILE_NAME_BYTES_MAX)
    }

    /// The Maildir of this recipient. Nothing in an address can lead out of the template's tree.
    pub(super) fn path_for(&self, recipient: &Mailbox) -> PathBuf {
        let domain = recipient.domain();
        let domain = domain.to_ascii().unwrap_or_else(|_| domain.as_str().to_owned());
        let mut path = String::with_capacity(self.0.len() + recipient.as_str().len());
        let mut rest = self.0.as_str();
        while let Some(open) = rest.find('{') {
            path.push_str(&rest[..open]);
            rest = &rest[open..];
            if let Some(tail) = rest.strip_prefix("{domain}") {
                push_file_name(&mut path, &domain);
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix("{local}") {
                push_file_name(&mut path, &recipient.local_unquoted().to_lowercase());
                rest = tail;
            } else {
                break;
            }
        }
        path.push_str(rest);
        PathBuf::from(path)
    }
}

/// A local part up to this fits into a file name, every octet of it escaped.
const SHORT_LOCAL_BYTES: usize = 64;
/// NAME_MAX of Linux and of nearly all file systems.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Appends a text as part of one file name: what a path gives a meaning to, and `%`, as `%XX`.
fn push_file_name(path: &mut String, text: &str) {
    if text.is_empty() {
        path.push_str("%00");
    }
    for (at, c) in text.char_indices() {
        match c {
            '.' if at == 0 => path.push_str("%2E"),
            '/' | '%' | '\\' | '\0'..='\x1f' | '\x7f' => {
                path.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c => path.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_leads_out_of_the_tree() {
        let maildir = Template::parse("/srv/{domain}/{local}").unwrap();
        let path = |address: &str| {
            maildir.path_for(&Mailbox::parse(address, true).unwrap()).display().to_string()
        };
        assert_eq!(path("Jo.Doe@Example.ORG"), "/srv/example.org/jo.doe");
        assert_eq!(path("\"../../etc\"@example.org"), "/srv/example.org/%2E.%2F..%2Fetc");
        assert_eq!(path("\"jo.doe\"@example.org"), "/srv/example.org/jo.doe");
        assert_eq!(path("a%b@example.org"), "/srv/example.org/a%25b");
        assert_eq!(path("x@bücher.example"), "/srv/xn--bcher-kva.example/x");
        assert!(Template::parse("/srv/{user}").is_err());
        assert!(Template::parse("/srv/{local").is_err());
        assert!(Template::parse("/srv/local}").is_err());
    }
}
