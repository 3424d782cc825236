//! Unicode's test vectors for names (UTS 46), which PyPI's package idna carries: read by what reads every domain.

use mail::Domain;
use std::path::Path;

/// One line of the file.
struct Row {
    source: String,
    /// What it stands for, as people read it.
    unicode: String,
    /// As the DNS has it.
    ascii: String,
    /// Why it is no name; empty: it is one.
    errors: String,
}

/// Escapes as the file has them: `\u0041`, `\x{10041}`. `None`: not Unicode (half of a pair).
fn unescaped(text: &str) -> Option<String> {
    let mut rest = text;
    let mut plain = String::new();
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (digits, end) = match escape.strip_prefix("x{") {
            Some(digits) => (&digits[..digits.find('}')?], at + 4 + digits.find('}')?),
            None => (&escape[1..5], at + 6),
        };
        plain.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        rest = &rest[end..];
    }
    Some(plain + rest)
}

fn rows() -> Vec<Row> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages");
    let path = packages.join("idna/tests/IdnaTestV2.txt");
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|e| panic!("install-test-packages: {}: {e}", path.display()));
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('#').next()?.split(';').map(str::trim).collect();
        let [source, unicode, unicode_status, ascii, ascii_status, ..] = columns[..] else {
            return None;
        };
        let of = |text: &str| unescaped(if text == "\"\"" { "" } else { text });
        let or =
            |one: &str, other: &str| if one.is_empty() { other.to_owned() } else { one.to_owned() };
        let status = or(ascii_status, unicode_status);
        let errors = if status == "[]" { String::new() } else { status };
        let unicode = or(unicode, source);
        let ascii = of(&or(ascii, &unicode))?;
        Some(Row { source: of(source)?, unicode: of(&unicode)?, ascii, errors })
    };
    text.lines().filter_map(row).collect()
}

/// What comes out otherwise: why, and of which names.
type Difference = (&'static str, fn(&Row) -> bool);

/// Names that are taken though the suite wants them refused: how, and why.
const TAKEN: [Difference; 4] = [
    (
        "a name without any letter beyond ASCII is one of the DNS and is not decoded (RFC 5890 §2.3.2.1)",
        |row| row.source.is_ascii(),
    ),
    (
        "the rule for names that are written from right to left is asked of each label by itself (RFC 5893 §2)",
        |row| row.errors.starts_with("[B"),
    ),
    ("hyphens in the third and fourth place are for registries to forbid", |row| {
        row.errors == "[V2]"
    }),
    ("characters that later versions of the standard allow", |row| row.errors == "[P1, V6]"),
];

/// Names that are refused though the suite has them mapped to one.
const REFUSED: [Difference; 2] = [
    (
        "it stands for another name: an address has one spelling but for case (RFC 6531 §3.3, RFC 5891 §5.1)",
        mapped,
    ),
    ("a dot at its end is none of an address (RFC 5321 §4.1.2)", |row| row.ascii.ends_with('.')),
];

/// Whether it is written otherwise than it is meant, but for case.
fn mapped(row: &Row) -> bool {
    let lower: String = row.source.chars().flat_map(char::to_lowercase).collect();
    row.unicode != lower
}

#[test]
fn unicodes_names_are_read_as_they_are_or_not_at_all() {
    let rows = rows();
    assert!(rows.len() > 5_000, "{}", rows.len());
    let (mut taken, mut wrong) = (0, Vec::new());
    let (mut known, mut unknown) = ([0; TAKEN.len()], [0; REFUSED.len()]);
    for row in &rows {
        let found = Domain::parse(&row.source).ok().and_then(|domain| domain.to_ascii().ok());
        match (found, row.errors.is_empty()) {
            // No name is ever taken for another one.
            (Some(found), true) if found.eq_ignore_ascii_case(&row.ascii) => taken += 1,
            (None, false) => {}
            (Some(_), false) if TAKEN.iter().any(|(_, is)| is(row)) => {
                known[TAKEN.iter().position(|(_, is)| is(row)).expect("one of them")] += 1;
            }
            (None, true) if REFUSED.iter().any(|(_, is)| is(row)) => {
                unknown[REFUSED.iter().position(|(_, is)| is(row)).expect("one of them")] += 1;
            }
            (found, _) => wrong
                .push(format!("{:?}: {found:?}, not {:?} {}", row.source, row.ascii, row.errors)),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    let differences: Vec<usize> = known.into_iter().chain(unknown).collect();
    assert!(taken > 250 && !differences.contains(&0), "{taken} {differences:?}");
}
