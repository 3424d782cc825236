//! Laws of the tables that are read from files, for files that nobody would write.

use lookup::{CidrTable, MISTAKES_MAX, PatternSyntax, PatternTable, Table, TextTable, fold};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

fn text(table: &dyn Table, key: &str) -> Option<String> {
    table.find(key).expect("never damaged").map(|entry| entry.text.into())
}

/// Pieces of files of every kind.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"\n",
        b"\n",
        b" ",
        b"\t",
        b"\r\n",
        b"#",
        b"if ",
        b"endif",
        b"!",
        b"/",
        b"/",
        b"a",
        b"\"",
        b"\\",
        b"$1",
        b"${",
        b"}",
        b"$$",
        b"(",
        b")",
        b"[",
        b"]",
        b"[:alpha:]",
        b"-",
        b"*",
        b"+?",
        b"{2,3}",
        b"|",
        b"^",
        b"(?i)",
        b"(?:",
        b"\\1",
        b"\\Q",
        b"\\x{41}",
        b"10.0.0.0/8",
        b"::/0",
        b"1",
        "é".as_bytes(),
        b"\xff",
        b"\0",
        b"i",
        b"x",
        b"m",
    ];
    proptest::collection::vec(proptest::sample::select(PIECES), 0..60)
        .prop_map(|list| list.concat())
}

proptest! {
    #[test]
    fn a_table_of_texts_is_a_map(pairs in proptest::collection::vec(("[a-dA-Dßé@]{1,4}", "[a-z]{1,3}"), 0..80)) {
        let mut file = String::new();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for (key, value) in &pairs {
            file.push_str(&format!("{key}\t{value}\n"));
            model.entry(fold(key).into_owned()).or_insert_with(|| value.clone());
        }
        let read = TextTable::read(file.as_bytes()).expect("a table");
        let inline = TextTable::inline(pairs.iter().map(|(key, value)| (&**key, &**value)));
        prop_assert_eq!(read.keys_count(), Some(model.len() as u64));
        prop_assert_eq!(read.warnings().len().min(MISTAKES_MAX), (pairs.len() - model.len()).min(MISTAKES_MAX));
        for (key, _) in &pairs {
            let expected = model.get(&*fold(key)).cloned();
            prop_assert_eq!(text(&read, key), expected.clone());
            prop_assert_eq!(text(&read, &key.to_uppercase()), expected.clone());
            prop_assert_eq!(text(&inline, key), expected);
        }
        prop_assert_eq!(text(&read, "none"), None);
    }

    #[test]
    fn the_first_network_wins(rules in proptest::collection::vec((any::<bool>(), any::<u32>(), 0..=32_u32), 1..20), asked in any::<u32>()) {
        let mut file = String::new();
        let mut expected = None;
        for (index, (is_negated, address, bits)) in rules.iter().enumerate() {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let network = address & mask;
            let mark = if *is_negated { "!" } else { "" };
            file.push_str(&format!("{mark}{}/{bits} rule{index}\n", Ipv4Addr::from(network)));
            if expected.is_none() && (asked & mask == network) != *is_negated {
                expected = Some(format!("rule{index}"));
            }
        }
        let table = CidrTable::read(file.as_bytes()).expect("networks");
        prop_assert_eq!(text(&table, &Ipv4Addr::from(asked).to_string()), expected);
        prop_assert_eq!(text(&table, "::1"), None);
    }

    #[test]
    fn an_address_is_in_each_network_around_it(address in any::<u128>(), bits in 0..=128_u32) {
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let network = IpAddr::from((address & mask).to_be_bytes());
        let table = CidrTable::read(format!("{network}/{bits} x").as_bytes()).expect("a network");
        let asked = IpAddr::from(address.to_be_bytes());
        prop_assert_eq!(text(&table, &asked.to_string()), Some("x".to_owned()));
    }

    #[test]
    fn a_quoted_text_matches_itself(key in "[ -~]{1,12}") {
        // Each byte behind a backslash, but for letters and digits, which would mean something else.
        let quoted: String = key.chars().map(|c| {
            if c.is_ascii_alphanumeric() { c.to_string() } else { format!("[{c}]") }
        }).collect();
        let quoted = quoted.replace("[^]", "\\^").replace("[/]", "\\/").replace("[\\]", "\\\\");
        for syntax in [PatternSyntax::Posix, PatternSyntax::Perl] {
            let file = format!("/^({quoted})$/ <$1>");
            let table = PatternTable::read(file.as_bytes(), syntax).map_err(|m| TestCaseError::fail(format!("{file}: {m:?}")))?;
            prop_assert_eq!(text(&table, &key), Some(format!("<{key}>")));
            prop_assert_eq!(text(&table, &format!("{key}x")), None);
        }
    }

    #[test]
    fn whatever_a_file_has_it_is_a_table_or_mistakes_with_their_places(content in pieces(), key in ".{0,12}") {
        let lines = content.split(|byte| *byte == b'\n').count();
        let made: [Result<Box<dyn Table>, _>; 4] = [
            TextTable::read(&content).map(|table| Box::new(table) as Box<dyn Table>),
            CidrTable::read(&content).map(|table| Box::new(table) as Box<dyn Table>),
            PatternTable::read(&content, PatternSyntax::Posix).map(|table| Box::new(table) as Box<dyn Table>),
            PatternTable::read(&content, PatternSyntax::Perl).map(|table| Box::new(table) as Box<dyn Table>),
        ];
        for made in made {
            let told = match &made {
                Ok(table) => {
                    let _ = table.find(&key);
                    table.warnings()
                }
                Err(mistakes) => {
                    prop_assert!(!mistakes.is_empty());
                    mistakes
                }
            };
            for mistake in told {
                prop_assert!((1..=lines).contains(&(mistake.line as usize)), "{mistake} of {lines}");
                prop_assert!(mistake.column >= 1 && !mistake.text.contains('\n'), "{mistake}");
            }
            // Not known to be a rule's alone: no regex of ours is refused by the crate for its syntax.
            prop_assert!(told.iter().all(|m| !m.text.contains("beyond us")), "{told:?}");
        }
    }
}
