//! Octets from text.

/// The octets that hexadecimal digits stand for; blanks are skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A TSDU in DT TPDUs of one packet.
pub(crate) fn packet(tsdu: &[u8]) -> Vec<u8> {
    let mut packet = x400::tpkt::header(tsdu.len() + 3).to_vec();
    packet.extend([2, 0xF0, 0x80]);
    packet.extend(tsdu);
    packet
}
