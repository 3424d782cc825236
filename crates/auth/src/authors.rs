//! The author domains of a header (RFC 5322 §3.6.2).

use crate::scan::Scanned;
use mail::{address_list, header};

/// Maximum number of authors examined in one message.
const AUTHORS_MAX: usize = 100;

/// The reason why a message has no unique author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAuthor {
    /// No author is named, or readers would differ about the name.
    None,
    /// There are several From fields.
    Several,
}

/// The domain of the first author of a message, in ASCII and lower case. `added` contains whole fields to be put above
/// those of the message.
///
/// # Errors
/// If it does not have exactly one From field with a readable address.
pub fn domain_of_author(added: &[u8], message: &Scanned) -> Result<String, NoAuthor> {
    if message.unreadable.is_some() {
        return Err(NoAuthor::None);
    }
    let parts = [added, &message.header];
    let mut fields = parts.iter().flat_map(|part| header::fields(part));
    let mut authors = fields.by_ref().filter(|field| field.is("From"));
    let Some(first) = authors.next() else { return Err(NoAuthor::None) };
    if authors.next().is_some() {
        return Err(NoAuthor::Several);
    }
    domains(first.value).into_iter().next().flatten().ok_or(NoAuthor::None)
}

/// The domains in the value of a From field, in ASCII and lower case, in order. An author is `None` if the domain is
/// unreadable, or if readers would differ about the author.
pub(crate) fn domains(value: &[u8]) -> Vec<Option<String>> {
    let Some(addresses) = address_list::read(value) else { return vec![None] };
    let addresses = addresses.into_iter().take(AUTHORS_MAX);
    addresses.map(|address| mail::Domain::dns_name(&address.domain)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_author_field() {
        let author = |added: &str, message: &str| {
            let mut scan = crate::scan::Scan::new(crate::scan::ScanOptions::default());
            scan.push(message.as_bytes());
            domain_of_author(added.as_bytes(), &scan.finish())
        };
        let one = Ok("a.test".to_owned());
        assert_eq!(author("", "To: x\r\nfrom : Jo <jo@A.test>, al@b.test\r\n\r\n"), one);
        assert_eq!(author("From: jo@a.test\r\n", "To: x\r\n\r\nFrom: al@b.test\r\n"), one);
        assert_eq!(author("", "To: x\r\n\r\n"), Err(NoAuthor::None));
        assert_eq!(author("", "From: jo\r\n\r\n"), Err(NoAuthor::None));
        assert_eq!(
            author("", "From: a@b.test\r\nno field\r\nFrom: c@d.test\r\n\r\n"),
            Err(NoAuthor::None)
        );
        assert_eq!(author("From: a@a.test\r\n", "FROM: a@a.test\r\n\r\n"), Err(NoAuthor::Several));
    }

    #[test]
    fn authors_are_found_among_names_comments_and_groups() {
        for (value, expected) in [
            (" jo@Example.org", vec![Some("example.org")]),
            (" Jo <jo@example.org>", vec![Some("example.org")]),
            (" \"a@evil.org, <b@evil.org>\" <jo@example.org>", vec![Some("example.org")]),
            (" a@evil.org <jo@example.org>", vec![Some("example.org")]),
            (" jo (x@evil.org, (y)\\)) @ example.org", vec![Some("example.org")]),
            (" <@relay.org:jo@example.org>", vec![Some("example.org")]),
            (" Us: jo@a.org, Al <al@b.org>;", vec![Some("a.org"), Some("b.org")]),
            (" \"j o\"@example.org", vec![Some("example.org")]),
            (" jo@b\u{fc}cher.example", vec![Some("xn--bcher-kva.example")]),
            (" jo", vec![None]),
            (" <>", vec![None]),
            (" Nobody:;", vec![]),
            // What some readers show is not what others do.
            (" jo@example.org:", vec![None]),
            (" jo@example.org:;", vec![None]),
            (" (<jo@example.org>", vec![None]),
            (" <jo@example.org", vec![None]),
            (" <jo@example.org> <al@evil.org>", vec![None]),
            (" (jo@example.org)", vec![None]),
            ("", vec![]),
        ] {
            let found = domains(value.as_bytes());
            let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(domains("a@b.org,".repeat(1_000).as_bytes()).len(), AUTHORS_MAX);
    }
}
