//! Tables of networks (Postfix's cidr_table(5)).

use super::lines::{Lines, is_space};
use super::mistake::{TableFileError, too_large};
use super::rules::{Builder, RULES_BYTES_MAX, RuleError, Rules, negation, skip_space};
use super::table::{EntryText, Judge};
use super::{Entry, LookupError, Table, table};
use std::net::IpAddr;

/// Networks, each with its answer. The first that has the address, wins. A key that is no address is in
/// none.
#[derive(Debug)]
pub struct CidrTable {
    rules: Rules<Network, Box<str>>,
}

/// A network, or all addresses of its family outside the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
    is_negated: bool,
}

impl CidrTable {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns all errors. Postfix skips an invalid rule; here the whole file is rejected, since later rules would
    /// change their meaning.
    pub fn read(content: &[u8]) -> Result<CidrTable, Vec<TableFileError>> {
        CidrTable::read_judged(content, &table::any)
    }

    /// The same, of answers that can be used.
    ///
    /// # Errors
    /// Likewise, and all answers that can't.
    pub fn read_judged(content: &[u8], judge: Judge<'_>) -> Result<CidrTable, Vec<TableFileError>> {
        if content.len() > RULES_BYTES_MAX {
            return Err(too_large(content.len(), RULES_BYTES_MAX));
        }
        let mut builder = Builder::new();
        for line in Lines::new(content) {
            let test = |text: &[u8], from| read_network(text, from, text.len());
            builder.read(&line, test, |text| read_rule(text, judge));
        }
        Ok(CidrTable { rules: builder.finish()? })
    }
}

impl Table for CidrTable {
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let Ok(address) = key.parse() else { return Ok(None) };
        let found = self.rules.first(|network| network.has(address));
        Ok(found.map(|(_, answer)| Entry::text(answer.clone())))
    }
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        let is_inside = match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            // Not in the other family, and not outside of a network of the other one.
            _ => return false,
        };
        is_inside != self.is_negated
    }

    /// Returns true if the address has bits set beyond the network's.
    fn has_host_bits(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.to_bits().checked_shl(self.bits).unwrap_or(0) != 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(self.bits).unwrap_or(0) != 0,
        }
    }
}

/// Reads a network and its answer.
fn read_rule(text: &[u8], judge: Judge<'_>) -> Result<(Network, Box<str>), RuleError> {
    let (_, start) = negation(text, 0);
    let len = text.iter().skip(start).take_while(|byte| !is_space(**byte)).count();
    let network = read_network(text, 0, start + len)?;
    let from = skip_space(text, start + len);
    let answer = text.get(from..).unwrap_or_default();
    if answer.is_empty() {
        return Err((text.len(), "the network has no value".to_owned()));
    }
    let answer = std::str::from_utf8(answer)
        .map_err(|error| (from + error.valid_up_to(), "the value is not UTF-8".to_owned()))?;
    let entry = EntryText { key: None, text: answer, goes_on: false, so_far: None };
    table::check_usable(judge, &entry).map_err(|why| (from, why))?;
    Ok((network, answer.into()))
}

/// Reads `!192.0.2.0/24`, `2001:db8::/32`, `[2001:db8::1]`, `[::]/0`.
fn read_network(text: &[u8], from: usize, end: usize) -> Result<Network, RuleError> {
    let (is_negated, start) = negation(text, from);
    let written = text.get(start..end).unwrap_or_default();
    let written = String::from_utf8_lossy(written).into_owned();
    let wrong = |why: String| Err((start, why));
    if written.is_empty() {
        return wrong("network missing".to_owned());
    }
    let unbracketed = match written.strip_prefix('[') {
        None => written.clone(),
        Some(rest) => match rest.split_once(']') {
            Some((inside, behind)) if behind.is_empty() || behind.starts_with('/') => {
                format!("{inside}{behind}")
            }
            Some(_) => return wrong(format!("\"{written}\" continues after its bracket")),
            None => return wrong(format!("the bracket of \"{written}\" is not closed")),
        },
    };
    let (address, bits) = match unbracketed.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (&*unbracketed, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return wrong(format!("\"{written}\" is not a network; write, for example, 192.0.2.0/24"));
    };
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => bits_max,
        Some(bits) => match read_bits(bits) {
            Some(bits) if bits <= bits_max => bits,
            _ => return wrong(format!("\"{written}\": at most {bits_max} bits")),
        },
    };
    let network = Network { address, bits, is_negated };
    if network.has_host_bits() {
        return wrong(format!("\"{written}\" has bits set after the first {bits}"));
    }
    Ok(network)
}

fn read_bits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // With many zeros before it, it is still a number.
    is_number.then(|| text.trim_start_matches('0')).map(|text| match text {
        "" => 0,
        _ => text.parse().unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_are_told_at_once() {
        let content = b" 10.0.0.1 x\n10.0.0.1\n\n10.1.2.3/24 x\n!10.0.0.0/33 x\n[::1 x\n[::1]2 x\n\
                        if 10.0.0.0/8 x\nendif\nendif\nname x\n10.0.0.1\n  x\xe4\nif ::/0\nendif y\nif ::/0\n!\n";
        let mistakes = CidrTable::read(content).expect_err("mistakes");
        let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "1:1: a rule must begin at the start of a line",
                "2:9: the network has no value",
                "4:1: \"10.1.2.3/24\" has bits set after the first 24",
                "5:2: \"10.0.0.0/33\": at most 32 bits",
                "6:1: the bracket of \"[::1\" is not closed",
                "7:1: \"[::1]2\" continues after its bracket",
                "8:4: \"10.0.0.0/8 x\": at most 32 bits",
                "10:1: `endif` without `if`",
                "11:1: \"name\" is not a network; write, for example, 192.0.2.0/24",
                "13:4: the value is not UTF-8",
                "15:7: no text is allowed after `endif`",
                "16:1: `if` without `endif`",
                "17:2: network missing",
            ]
        );
    }

    #[test]
    fn a_file_has_its_limit() {
        let mut content = vec![b'#'; RULES_BYTES_MAX];
        assert!(CidrTable::read(&content).is_ok());
        content.push(b'#');
        assert!(CidrTable::read(&content).is_err());
    }
}
