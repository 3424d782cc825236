//! Header fields that a run adds: the same in each message, or one of several values by weight.

use crate::random::{Shares, weight};
use std::str::FromStr;

/// Values that a pattern with `{N}` stands for, at most.
const VALUES_MAX: u64 = 1_000_000;

/// A field of each message: `NAME: VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedField {
    name: String,
    value: String,
}

/// A field whose value differs: `NAME=VALUE*WEIGHT|VALUE|…`; `{N}` in a value stands for 0 to N-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariedField {
    name: String,
    values: Shares<String>,
}

/// All that a run adds.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtraFields {
    fixed: Vec<FixedField>,
    varied: Vec<VariedField>,
    seed: u64,
}

impl ExtraFields {
    pub(super) fn new(fixed: &[FixedField], varied: &[VariedField], seed: u64) -> ExtraFields {
        ExtraFields { fixed: fixed.to_vec(), varied: varied.to_vec(), seed }
    }

    /// Appends those of a message.
    pub(super) fn write(&self, message: u64, out: &mut Vec<u8>) {
        let mut field = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        for FixedField { name, value } in &self.fixed {
            field(name, &value.replace("{n}", &message.to_string()));
        }
        for (n, VariedField { name, values }) in self.varied.iter().enumerate() {
            // Two fields of one message are drawn each by itself.
            let salt = self.seed.wrapping_add(n as u64 + 1).wrapping_mul(0x2545_F491_4F6C_DD1D);
            if let Some(value) = values.pick(message ^ salt) {
                field(name, value);
            }
        }
    }
}

/// RFC 5322 §2.2: printable ASCII but for the colon.
fn name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no name of a field"))
}

fn value(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_line = text.len() <= 900 && !text.chars().any(char::is_control);
    is_line.then(|| text.to_owned()).ok_or_else(|| "a value is one line of 900 octets".to_owned())
}

impl FromStr for FixedField {
    type Err = String;

    fn from_str(text: &str) -> Result<FixedField, String> {
        let (before, behind) = text.split_once(':').ok_or("NAME: VALUE")?;
        Ok(FixedField { name: name(before.trim_end())?, value: value(behind)? })
    }
}

impl FromStr for VariedField {
    type Err = String;

    fn from_str(text: &str) -> Result<VariedField, String> {
        let (before, behind) = text.split_once('=').ok_or("NAME=VALUE*WEIGHT|VALUE|...")?;
        let mut values = Vec::new();
        for one in behind.split('|') {
            let (pattern, share) = match one.rsplit_once('*') {
                Some((pattern, share)) => (pattern, weight(share)?),
                None => (one, 1),
            };
            for expanded in expand(&value(pattern)?)? {
                values.push((share, expanded));
            }
        }
        let values = Shares::new(values).ok_or("no value")?;
        Ok(VariedField { name: name(before)?, values })
    }
}

/// The values that a pattern stands for.
fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let Some((before, (count, behind))) =
        pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return Ok(vec![pattern.to_owned()]);
    };
    let count = count.parse().ok().filter(|count| (1..=VALUES_MAX).contains(count));
    let count: u64 = count.ok_or_else(|| format!("{pattern:?}: {{1}} to {{{VALUES_MAX}}}"))?;
    Ok((0..count).map(|n| format!("{before}{n}{behind}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn lines(fields: &ExtraFields, message: u64) -> Vec<String> {
        let mut out = Vec::new();
        fields.write(message, &mut out);
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn fields_are_fixed_or_drawn_by_weight() {
        let fixed = ["X-Campaign: spring".parse().unwrap(), "X-Number:{n}".parse().unwrap()];
        let varied = ["X-Tenant=acme*3|globex".parse().unwrap(), "X-Pool=p{4}".parse().unwrap()];
        let fields = ExtraFields::new(&fixed, &varied, 1);
        assert_eq!(lines(&fields, 7)[..2], ["X-Campaign: spring", "X-Number: 7"]);
        assert_eq!(lines(&fields, 7), lines(&fields, 7));
        let mut counts = BTreeMap::<String, u32>::new();
        for message in 0..8_000 {
            for line in &lines(&fields, message)[2..] {
                *counts.entry(line.clone()).or_default() += 1;
            }
        }
        assert!((5_700..6_300).contains(&counts["X-Tenant: acme"]), "{counts:?}");
        assert!((1_800..2_200).contains(&counts["X-Pool: p3"]), "{counts:?}");
        assert_eq!(counts.len(), 6);
        // Another seed, other draws.
        let other = ExtraFields::new(&fixed, &varied, 2);
        assert!((0..100).any(|message| lines(&other, message) != lines(&fields, message)));
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for bad in ["", "x", ": v", "a b: v", "é: v", "x: a\nb"] {
            assert!(bad.parse::<FixedField>().is_err(), "{bad}");
        }
        for bad in ["", "x", "=v", "x=a*0", "x=a*b", "x=a{0}", "x=a{b}", "x=a{1000001}"] {
            assert!(bad.parse::<VariedField>().is_err(), "{bad}");
        }
    }
}
