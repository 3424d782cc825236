//! A report as a message (RFC 7489 §7.2.1.1, appendix C).

use super::Terms;
use super::day::{DAY_MS, Domain};
use auth::dmarc::reporting::tag;
use aws_lc_rs::digest;
use flate2::Compression;
use flate2::write::GzEncoder;
use mail::{Mailbox, Wall};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Octets of a line of base64 (RFC 2045 §6.8).
const LINE_BYTES: usize = 76;

/// One domain's report about one day.
pub(super) struct Letter<'a> {
    pub(super) terms: &'a Terms,
    /// Whose policy it is about.
    pub(super) domain: &'a str,
    pub(super) counted: &'a Domain,
    /// The day.
    pub(super) number: u64,
    pub(super) now: Wall,
}

impl Letter<'_> {
    /// First and last second of the day.
    fn range(&self) -> (u64, u64) {
        let begin = self.number * (DAY_MS / 1_000);
        (begin, begin + DAY_MS / 1_000 - 1)
    }

    /// The same whenever it is made.
    fn id(&self) -> String {
        let of = format!("{} {} {}", self.terms.hostname, self.domain, self.number);
        let hash = digest::digest(&digest::SHA256, of.as_bytes());
        let mut id = format!("{}.", self.number);
        for byte in hash.as_ref().iter().take(8) {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    fn xml(&self) -> String {
        let settings = &self.terms.settings;
        let (begin, end) = self.range();
        let mut out = String::with_capacity(1_024 + self.counted.rows.len() * 640);
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feedback>");
        tag(&mut out, "version", "1.0");
        out.push_str("<report_metadata>");
        tag(&mut out, "org_name", &settings.organization_name);
        tag(&mut out, "email", settings.from.as_str());
        if let Some(contact) = &settings.contact {
            tag(&mut out, "extra_contact_info", contact);
        }
        tag(&mut out, "report_id", &self.id());
        let _ = write!(out, "<date_range><begin>{begin}</begin><end>{end}</end></date_range>");
        let published = &self.counted.published;
        let _ = write!(out, "</report_metadata>\n<policy_published>{published}</policy_published>");
        for (row, count) in &self.counted.rows {
            let Some((source, rest)) = row.split_once(' ') else { continue };
            out.push_str("\n<record><row>");
            tag(&mut out, "source_ip", source);
            let _ = write!(out, "<count>{count}</count>{rest}</record>");
        }
        out.push_str("\n</feedback>\n");
        out
    }

    /// The report in its packing: what limits of those who want it are about.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn packed(&self) -> io::Result<Vec<u8>> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(self.xml().as_bytes())?;
        packer.finish()
    }

    /// The whole message, with CRLF at line ends.
    pub(super) fn compose(&self, packed: &[u8], to: &[Mailbox]) -> Vec<u8> {
        let Terms { settings, hostname } = self.terms;
        let (domain, id) = (self.domain, self.id());
        let (begin, end) = self.range();
        let to: Vec<String> = to.iter().map(|to| format!("<{to}>")).collect();
        let boundary = format!("=_{id}");
        let name = format!("{hostname}!{domain}!{begin}!{end}.xml.gz");
        let mut out = String::with_capacity(1_024 + packed.len() * 3 / 2);
        for line in [
            format!("From: <{}>", settings.from),
            format!("To: {}", to.join(",\r\n\t")),
            format!(
                "Subject: Report Domain: {domain}\r\n\tSubmitter: {hostname}\r\n\tReport-ID: <{id}>"
            ),
            format!("Date: {}", self.now.rfc5322()),
            format!("Message-ID: <dmarc.{id}.{:x}@{hostname}>", self.now.0),
            "Auto-Submitted: auto-generated".to_owned(),
            "MIME-Version: 1.0".to_owned(),
            format!("Content-Type: multipart/mixed;\r\n\tboundary=\"{boundary}\""),
            String::new(),
            format!("--{boundary}"),
            "Content-Type: text/plain; charset=us-ascii".to_owned(),
            String::new(),
            format!("This is a DMARC aggregate report about mail in the name of\r\n{domain},"),
            format!("made by {}.", settings.organization_name),
            String::new(),
            format!("--{boundary}"),
            format!("Content-Type: application/gzip;\r\n\tname=\"{name}\""),
            format!("Content-Disposition: attachment;\r\n\tfilename=\"{name}\""),
            "Content-Transfer-Encoding: base64".to_owned(),
            String::new(),
        ] {
            out.push_str(&line);
            out.push_str("\r\n");
        }
        let mut out = out.into_bytes();
        for line in base64(packed).chunks(LINE_BYTES) {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        out
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes).into_bytes()
}
