//! Whatever the DNS gives out as a domain's TLS reporting record: what is read leads to few places, and to none
//! that could write lines of a request or of a header.

use auth::tls_report::{
    DESTINATIONS_MAX, Destination, RECORD_BYTES_MAX, URI_BYTES_MAX, destinations,
};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let found = destinations(&[bytes]);
    assert!(found.len() <= DESTINATIONS_MAX);
    assert!(found.is_empty() || bytes.len() <= RECORD_BYTES_MAX);
    for destination in &found {
        match destination {
            Destination::Mailbox(mailbox) => {
                assert!(!mailbox.as_str().contains(char::is_control));
                assert!(!mailbox.domain_str().is_empty());
            }
            Destination::Web(address) => {
                assert!(address.port > 0 && address.path.starts_with('/'));
                assert!(address.path.len() <= URI_BYTES_MAX);
                let text = address.to_string();
                assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
                let again = format!("v=TLSRPTv1;rua={text}");
                // With its port it may be too long.
                let is_same = destinations(&[again.as_bytes()]) == [destination.clone()];
                assert!(is_same || text.len() > URI_BYTES_MAX || text.contains([',', ';']));
            }
        }
    }
    // Two of them are none.
    let both = destinations(&[bytes, b"v=TLSRPTv1;rua=mailto:a@b.test"]);
    assert!(found.is_empty() || both.is_empty());
}
