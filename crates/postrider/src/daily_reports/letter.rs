//! A report as a message: a text for people, and the report itself as a file.

use flate2::Compression;
use flate2::write::GzEncoder;
use mail::{Mailbox, Wall};
use std::io::{self, Write as _};

/// Octets of a line of base64 (RFC 2045 §6.8).
const LINE_BYTES: usize = 76;

/// What a message is made of. Texts are ASCII.
pub(crate) struct Letter<'a> {
    pub(crate) from: &'a Mailbox,
    pub(crate) to: &'a [Mailbox],
    /// Folded where it is long.
    pub(crate) subject: String,
    pub(crate) date: Wall,
    pub(crate) message_id: String,
    /// Other fields, a line each.
    pub(crate) fields: &'a [String],
    /// Of the whole, without the boundary.
    pub(crate) content_type: &'a str,
    pub(crate) boundary: String,
    /// For people.
    pub(crate) text: &'a [String],
    pub(crate) file_type: &'a str,
    pub(crate) file_name: String,
    pub(crate) file: &'a [u8],
}

impl Letter<'_> {
    /// The whole message, with CRLF at line ends.
    pub(crate) fn compose(&self) -> Vec<u8> {
        let Letter { boundary, file_name, .. } = self;
        let to: Vec<String> = self.to.iter().map(|to| format!("<{to}>")).collect();
        let mut lines = vec![
            format!("From: <{}>", self.from),
            format!("To: {}", to.join(",\r\n\t")),
            format!("Subject: {}", self.subject),
            format!("Date: {}", self.date.rfc5322()),
            format!("Message-ID: {}", self.message_id),
            "Auto-Submitted: auto-generated".to_owned(),
        ];
        lines.extend_from_slice(self.fields);
        lines.extend([
            "MIME-Version: 1.0".to_owned(),
            format!("Content-Type: {};\r\n\tboundary=\"{boundary}\"", self.content_type),
            String::new(),
            format!("--{boundary}"),
            "Content-Type: text/plain; charset=us-ascii".to_owned(),
            String::new(),
        ]);
        lines.extend_from_slice(self.text);
        lines.extend([
            String::new(),
            format!("--{boundary}"),
            format!("Content-Type: {};\r\n\tname=\"{file_name}\"", self.file_type),
            format!("Content-Disposition: attachment;\r\n\tfilename=\"{file_name}\""),
            "Content-Transfer-Encoding: base64".to_owned(),
            String::new(),
        ]);
        let mut out = lines.join("\r\n").into_bytes();
        out.reserve(64 + self.file.len() * 3 / 2);
        out.extend_from_slice(b"\r\n");
        for line in base64(self.file).chunks(LINE_BYTES) {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        out
    }
}

/// In gzip.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn packed(report: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(report)?;
    packer.finish()
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes).into_bytes()
}
