//! Mail that a spam filter has marked goes to a separate folder.

use super::folder;
use config::Reader;
use mail::header;
use mta::seams::MailFolder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mail with this header field goes to a folder of the Maildir.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(super) struct JunkText {
    /// Name of the field. Only the header's first 64 KiB are searched.
    header: String,
    /// Value of the field, in any case. `Yes` also matches `Yes, score=7.1`.
    value: String,
    /// The folder (Maildir++). It is created if missing, and its messages count for the quota.
    folder: String,
}

impl Default for JunkText {
    fn default() -> JunkText {
        JunkText {
            header: "X-Spam-Flag".to_owned(),
            value: "YES".to_owned(),
            folder: ".Junk".to_owned(),
        }
    }
}

/// The mark of junk, and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Junk {
    header: String,
    value: String,
    folder: String,
}

impl Junk {
    /// Reads the settings. `None` after an error, which was reported to `reader`.
    pub(super) fn read(text: &JunkText, reader: &mut Reader<'_, '_>) -> Option<Junk> {
        let JunkText { header, value, folder } = text;
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if header.is_empty() || !header.bytes().all(is_name) {
            let help = "for example header = \"X-Spam-Flag\"";
            reader.error("junk.header", format!("\"{header}\" is not a field name"), help);
        }
        if value.trim().is_empty() {
            reader.error("junk.value", "an empty value", "for example value = \"YES\"");
        }
        let directory = folder.strip_prefix('.').and_then(folder::directory_of);
        let Some(folder) = directory.filter(|directory| directory == folder) else {
            let help = "write it as in the Maildir, for example folder = \".Junk\"";
            reader.error("junk.folder", format!("\"{folder}\" is not a folder"), help);
            return None;
        };
        Some(Junk { header: header.clone(), value: value.trim().to_owned(), folder })
    }

    /// The folder of a message with this start of its header.
    pub(super) fn folder_of(&self, start: &[u8]) -> Option<MailFolder> {
        let mut fields = header::fields(start).filter(|field| field.is(&self.header));
        fields.any(|field| self.is_mark(&field.unfolded())).then(|| self.folder())
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        format!("{} for {}: {}", self.folder, self.header, self.value)
    }

    fn folder(&self) -> MailFolder {
        MailFolder { name: self.folder.clone(), is_made: true }
    }

    fn is_mark(&self, value: &[u8]) -> bool {
        let (start, rest) = value.split_at(self.value.len().min(value.len()));
        start.eq_ignore_ascii_case(self.value.as_bytes())
            && matches!(rest.first(), None | Some(b' ' | b'\t' | b',' | b';'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_whole_value_or_its_first_word() {
        let junk = Junk { header: "X-Spam".into(), value: "Yes".into(), folder: ".Junk".into() };
        let is = |start: &str| junk.folder_of(start.as_bytes()).is_some();
        for marked in [
            "X-Spam: Yes\r\n\r\n",
            "Subject: a\r\nx-spam:\r\n yes\r\n",
            "X-Spam: No\r\nX-Spam: YES, score=7.1\r\n",
        ] {
            assert!(is(marked), "{marked:?}");
        }
        for other in [
            "",
            "X-Spam: Yesterday\r\n",
            "X-Spam: No, Yes\r\n",
            "\r\nX-Spam: Yes\r\n",
            "X-Spam-2: Yes\r\n",
        ] {
            assert!(!is(other), "{other:?}");
        }
    }
}
