//! Object identifiers of contents, as octets.

/// mime-body-part, its data: 1.3.6.1.7.1.2.1.1 (RFC 2157 §3.1.2).
pub const MIME_DATA: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 1, 1];
/// mime-body-part, its parameters: 1.3.6.1.7.1.2.2.1.
pub const MIME_PARAMETERS: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 2, 1];
/// MIME in a file transfer: 1.3.6.1.7.1.2.1.5 (RFC 2157 §3.1.1).
pub const MIME_FILE: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 1, 5];
/// A list of header fields: 1.3.6.1.7.1.3.2 (RFC 2156 appendix D).
pub const FIELD_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 2];
/// The header of a DSN: 1.3.6.1.7.1.3.3.
pub const DSN_HEADER_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 3];
/// Fields of a DSN: 1.3.6.1.7.1.3.4.
pub const DSN_FIELD_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 4];
/// The pseudo information type of a message that came through a gateway: 1.3.6.1.7.1.3.5.
pub const EIT_MIXER: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 5];
/// A message that was a multipart: 1.3.6.1.7.1.1.3 (RFC 2157 §6.6).
pub const MULTIPART: &[u8] = &[0x2b, 6, 1, 7, 1, 1, 3];
/// GeneralText, its data: 2.6.1.4.11 (X.420 annex B).
pub const GENERAL_TEXT_DATA: &[u8] = &[0x56, 1, 4, 11];
/// GeneralText, its parameters: 2.6.1.11.11.
pub const GENERAL_TEXT_PARAMETERS: &[u8] = &[0x56, 1, 11, 11];
/// File transfer, its data: 2.6.1.4.12.
pub const FILE_DATA: &[u8] = &[0x56, 1, 4, 12];
/// File transfer, its parameters: 2.6.1.11.12.
pub const FILE_PARAMETERS: &[u8] = &[0x56, 1, 11, 12];
/// Contents of a file that are octets: 1.0.8571.5.3 (ISO 8571-2).
pub const UNSTRUCTURED_BINARY: &[u8] = &[0x28, 0xc2, 0x7b, 5, 3];
/// An attachment of which nothing is known: 2.16.840.1.113694.2.2.1.1 (RFC 2157 §6.4).
pub const UNKNOWN_ATTACHMENT: &[u8] = &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x1e, 2, 2, 1, 1];
/// An incomplete copy: 2.6.1.5.0 (X.420 annex A).
pub const INCOMPLETE_COPY: &[u8] = &[0x56, 1, 5, 0];
/// Languages: 2.6.1.5.1.
pub const LANGUAGES: &[u8] = &[0x56, 1, 5, 1];
/// Automatic submission: 2.6.1.5.2.
pub const AUTO_SUBMITTED: &[u8] = &[0x56, 1, 5, 2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::oid_text;

    #[test]
    fn octets_are_what_the_comments_say() {
        for (oid, text) in [
            (MIME_DATA, "1.3.6.1.7.1.2.1.1"),
            (MIME_PARAMETERS, "1.3.6.1.7.1.2.2.1"),
            (MIME_FILE, "1.3.6.1.7.1.2.1.5"),
            (FIELD_LIST, "1.3.6.1.7.1.3.2"),
            (DSN_HEADER_LIST, "1.3.6.1.7.1.3.3"),
            (DSN_FIELD_LIST, "1.3.6.1.7.1.3.4"),
            (EIT_MIXER, "1.3.6.1.7.1.3.5"),
            (MULTIPART, "1.3.6.1.7.1.1.3"),
            (GENERAL_TEXT_DATA, "2.6.1.4.11"),
            (GENERAL_TEXT_PARAMETERS, "2.6.1.11.11"),
            (FILE_DATA, "2.6.1.4.12"),
            (FILE_PARAMETERS, "2.6.1.11.12"),
            (UNSTRUCTURED_BINARY, "1.0.8571.5.3"),
            (UNKNOWN_ATTACHMENT, "2.16.840.1.113694.2.2.1.1"),
            (INCOMPLETE_COPY, "2.6.1.5.0"),
            (LANGUAGES, "2.6.1.5.1"),
            (AUTO_SUBMITTED, "2.6.1.5.2"),
        ] {
            assert_eq!(oid_text(oid), text);
        }
    }
}
