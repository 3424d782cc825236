//! Text in files of the server's own: its last line, `{"crc32c":"…"}`, lets damage show that leaves text.

const BEGIN: &[u8] = b"{\"crc32c\":\"";
const END: &[u8] = b"\"}\n";

/// Size of the seal line.
pub(crate) const SEAL_BYTES: usize = BEGIN.len() + 8 + END.len();

/// Text without the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealedContent<'t> {
    /// As it was written.
    Whole(&'t [u8]),
    /// Text without a seal: written by an earlier version, or truncated.
    Without(&'t [u8]),
    /// Text that differs from the written one.
    Damaged(&'t [u8]),
}

/// The error for text that differs from the written one.
pub(crate) const DAMAGED: &str = "its checksum is wrong";

/// The line of a text, which ends with a line end.
fn seal_of(text: &[u8]) -> Vec<u8> {
    let checksum = format!("{:08x}", crc32c::crc32c(text));
    [BEGIN, checksum.as_bytes(), END].concat()
}

/// Adds the line.
pub(crate) fn sealed(mut text: Vec<u8>) -> Vec<u8> {
    let seal = seal_of(&text);
    text.extend(seal);
    text
}

/// Looks at the line.
pub(crate) fn opened(file: &[u8]) -> SealedContent<'_> {
    let at = file.len().saturating_sub(SEAL_BYTES);
    let (text, line) = file.split_at(at);
    if line.len() < SEAL_BYTES || !line.starts_with(BEGIN) || !line.ends_with(END) {
        return SealedContent::Without(file);
    }
    if line == seal_of(text) { SealedContent::Whole(text) } else { SealedContent::Damaged(text) }
}

/// The text, possibly written by an earlier version without a seal.
///
/// # Errors
/// Returns an error if it differs from the written text.
pub(crate) fn checked(file: &[u8]) -> Result<&[u8], &'static str> {
    match opened(file) {
        SealedContent::Whole(text) | SealedContent::Without(text) => Ok(text),
        SealedContent::Damaged(_) => Err(DAMAGED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_what_was_written_shows() {
        let text = b"[\n1,\n2\n]\n";
        let file = sealed(text.to_vec());
        assert_eq!(opened(&file), SealedContent::Whole(text));
        assert_eq!(file.len(), text.len() + SEAL_BYTES);
        for bit in 0..file.len() * 8 {
            let mut turned = file.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            match opened(&turned) {
                SealedContent::Damaged(_) => {}
                // The line is none any more, and is no part of such a text either.
                SealedContent::Without(all) => {
                    assert_eq!(all, turned);
                    assert!(serde_json::from_slice::<Vec<u32>>(all).is_err(), "{bit}");
                }
                SealedContent::Whole(_) => panic!("{bit}"),
            }
        }
        for length in 0..file.len() {
            assert_eq!(opened(&file[..length]), SealedContent::Without(&file[..length]));
        }
        assert_eq!(checked(text), Ok(&text[..]));
        assert_eq!(opened(&sealed(Vec::new())), SealedContent::Whole(b""));
    }
}
