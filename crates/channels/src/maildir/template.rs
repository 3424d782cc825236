//! Paths of Maildirs. Neither an address nor a table can lead out of the directory before the first placeholder.

use crate::values::{self, ValueError, ValueNames};
use config::Values;
use lookup::Entry;
use mail::{Class, EnhancedStatus, Failure, Mailbox};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// NAME_MAX of Linux and of nearly all file systems.
const PART_BYTES_MAX: usize = 255;
/// PATH_MAX of Linux.
const PATH_BYTES_MAX: usize = 4_096;
/// Maximum digits of one `{hash:N}`, for at most 65,536 subdirectories.
const HASH_DIGITS_MAX: u32 = 4;
/// Digits of all `{hash:N}` together, as many as the hash has.
const ALL_HASH_DIGITS_MAX: u32 = 16;
/// An address up to this length fits into a file name even with every octet escaped.
const SHORT_ADDRESS_BYTES: usize = 80;

/// Owner of the Maildir at a path: a recipient without its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// In lower case and without quotes.
    pub(super) local: String,
    /// In lower case, as A-labels.
    pub(super) domain: String,
}

impl Owner {
    /// The recipient with its tag.
    pub(super) fn of(recipient: &Mailbox) -> Owner {
        let domain = recipient.domain();
        let domain = domain.to_ascii().unwrap_or_else(|_| domain.as_str().to_owned());
        Owner { local: recipient.local_unquoted().to_lowercase(), domain }
    }

    /// FNV-1a of the address, 64 bits. It spreads addresses over directories and must never change.
    fn hash(&self) -> u64 {
        let octets = self.local.bytes().chain([b'@']).chain(self.domain.bytes());
        let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3)
        });
        hash ^ (hash >> 32)
    }
}

/// The path of each recipient's Maildir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MaildirTemplate {
    written: String,
    /// The part before the first placeholder, up to a `/`.
    root: PathBuf,
    /// The part after the root. Empty if all recipients share the root.
    pieces: Vec<TemplatePiece>,
}

/// A piece of a path below its root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePiece {
    Literal(String),
    Domain,
    Local,
    /// `digits` digits of the hash, after the `taken` ones that earlier placeholders used.
    Hash {
        taken: u32,
        digits: u32,
    },
    /// A value of the recipient's entry in a table.
    Value(String),
}

/// Reason for which a recipient has no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceError {
    /// A value of the recipient's entry is missing or unusable.
    Value(ValueError),
    /// A file name of more than 255 octets, or a path of more than 4,096. `by_value` is set if a value caused it.
    TooLong { by_value: bool },
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Value(error) => error.fmt(f),
            PlaceError::TooLong { .. } => write!(
                f,
                "the path is too long: at most {PART_BYTES_MAX} octets for each name and \
                 {PATH_BYTES_MAX} in total"
            ),
        }
    }
}

impl From<ValueError> for PlaceError {
    fn from(error: ValueError) -> PlaceError {
        PlaceError::Value(error)
    }
}

impl PlaceError {
    /// The failure for the message. A wrong table can be corrected, and concerns this mailbox only (RFC 3463 §3.3:
    /// X.2.0). An address that is too long stays so (§3.2: X.1.3).
    pub(super) fn failure(&self) -> Failure {
        let (class, status) = match self {
            PlaceError::TooLong { by_value: false } => {
                (Class::Permanent, EnhancedStatus::new(5, 1, 3))
            }
            _ => (Class::Transient, EnhancedStatus::new(4, 2, 0)),
        };
        Failure::local(class, status, format!("no path for the mailbox: {self}"))
    }
}

impl MaildirTemplate {
    /// Parses a template with `{domain}`, `{local}`, `{hash:2}` and values with these `names`.
    ///
    /// # Errors
    /// A description of the error, for people.
    pub(super) fn parse(template: &str, names: &ValueNames<'_>) -> Result<MaildirTemplate, String> {
        if template.is_empty() {
            return Err("the path is empty".to_owned());
        }
        if template.contains('\0') {
            return Err("NUL in a path".to_owned());
        }
        if template.len() > PATH_BYTES_MAX {
            return Err(format!("a path has at most {PATH_BYTES_MAX} octets"));
        }
        let open = template.find(['{', '}']);
        let Some(open) = open else {
            let (written, root) = (template.to_owned(), PathBuf::from(template));
            return Ok(MaildirTemplate { written, root, pieces: Vec::new() });
        };
        let root = template[..open].rfind('/').map_or(0, |slash| slash + 1);
        let below = template[root..].trim_end_matches('/');
        if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err("after the first placeholder no name may be empty, `.` or `..`".to_owned());
        }
        let root = PathBuf::from(&template[..root]);
        Ok(MaildirTemplate { written: template.to_owned(), root, pieces: pieces_of(below, names)? })
    }

    /// The template as written.
    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    /// The part before the first placeholder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns true if all recipients share the root as their Maildir.
    pub(super) fn is_one_maildir(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns true if each recipient has a separate Maildir, as far as the template shows.
    pub(super) fn tells_recipients_apart(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, TemplatePiece::Local | TemplatePiece::Value(_)))
    }

    /// Returns true if the template refers to values of the recipient's entry.
    pub(super) fn has_values(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplatePiece::Value(_)))
    }

    /// Returns true if the recipient's Maildir name fits: escapes lengthen long local parts.
    pub(super) fn fits(&self, owner: &Owner) -> bool {
        if owner.local.len() + owner.domain.len() <= SHORT_ADDRESS_BYTES {
            return true;
        }
        let too_long = PlaceError::TooLong { by_value: false };
        let some = [Box::from("x")];
        self.path_for(owner, &|_| &some).err() != Some(too_long)
    }

    /// Path from the root to a Maildir. `values` are those of the recipient's table entry.
    ///
    /// # Errors
    /// A value is missing or leads out of the root, or the path is too long.
    pub(super) fn path_for(
        &self,
        owner: &Owner,
        values: Values<'_, '_>,
    ) -> Result<PathBuf, PlaceError> {
        let mut path = String::with_capacity(self.written.len() + 32);
        let mut last_value = None;
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Literal(text) => path.push_str(text),
                TemplatePiece::Domain => push_file_name(&mut path, &owner.domain),
                TemplatePiece::Local => push_file_name(&mut path, &owner.local),
                TemplatePiece::Hash { taken, digits } => {
                    for n in *taken..taken + digits {
                        let _ = write!(path, "{:x}", (owner.hash() >> (4 * n)) & 0xf);
                    }
                }
                TemplatePiece::Value(name) => {
                    path.push_str(checked(name, values::one(values, name)?)?);
                    last_value = Some(name);
                }
            }
        }
        let bytes = self.root.as_os_str().len() + path.len();
        if bytes > PATH_BYTES_MAX || path.split('/').any(|part| part.len() > PART_BYTES_MAX) {
            return Err(PlaceError::TooLong { by_value: last_value.is_some() });
        }
        // A literal beside a value can produce `..`: `.{name}` with the value `.`.
        match last_value {
            Some(name) if path.split('/').any(|part| matches!(part, "" | "." | "..")) => {
                Err(ValueError::bad(name, "results in a name that is empty, `.` or `..`").into())
            }
            _ => Ok(PathBuf::from(path)),
        }
    }
}

/// The pieces of a path below its root.
fn pieces_of(below: &str, names: &ValueNames<'_>) -> Result<Vec<TemplatePiece>, String> {
    let mut pieces = Vec::new();
    let mut taken = 0;
    let mut rest = below;
    while let Some(open) = rest.find(['{', '}']) {
        if open > 0 {
            pieces.push(TemplatePiece::Literal(rest[..open].to_owned()));
        }
        let tail = &rest[open..];
        let close = tail.find('}').map_or(tail.len(), |at| at + 1);
        let placeholder = &tail[..close];
        let name = placeholder.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        pieces.push(match name {
            Some("domain") => TemplatePiece::Domain,
            Some("local") => TemplatePiece::Local,
            Some(name) if name.starts_with("hash:") => {
                let digits = name["hash:".len()..].parse().unwrap_or(0);
                if !(1..=HASH_DIGITS_MAX).contains(&digits) || taken + digits > ALL_HASH_DIGITS_MAX
                {
                    return Err(format!(
                        "`{placeholder}`: a hash has 1 to {HASH_DIGITS_MAX} digits, all together \
                         at most {ALL_HASH_DIGITS_MAX}"
                    ));
                }
                taken += digits;
                TemplatePiece::Hash { taken: taken - digits, digits }
            }
            Some(name) if names.has(name) => TemplatePiece::Value(name.to_owned()),
            _ => {
                return Err(format!(
                    "unknown placeholder `{placeholder}`: use {{domain}}, {{local}} and \
                     {{hash:2}}; {names}"
                ));
            }
        });
        rest = &tail[close..];
    }
    if !rest.is_empty() {
        pieces.push(TemplatePiece::Literal(rest.to_owned()));
    }
    Ok(pieces)
}

/// An entry with its filled-in parts escaped to be part of one file name, as `{local}` is. They are taken from the key,
/// and so from the sender's choice of address: a slash must not lead into another mailbox.
pub(super) fn with_names_of_keys(entry: &Entry) -> Cow<'_, Entry> {
    if entry.filled.is_empty() {
        return Cow::Borrowed(entry);
    }
    let (mut text, mut from) = (String::with_capacity(entry.text.len() + 8), 0);
    for part in &entry.filled {
        let (start, end) = (part.start as usize, part.end as usize);
        text.push_str(entry.text.get(from..start).unwrap_or_default());
        if let Some(value) = entry.text.get(start..end).filter(|value| !value.is_empty()) {
            push_file_name(&mut text, value);
        }
        from = end;
    }
    text.push_str(entry.text.get(from..).unwrap_or_default());
    Cow::Owned(Entry::text(text))
}

/// A value that is a relative path below the root, without a final `/`, which some directories use to mark Maildirs.
fn checked<'v>(name: &str, value: &'v str) -> Result<&'v str, ValueError> {
    let bad = |why: &str| Err(ValueError::bad(name, why));
    let trimmed = value.strip_suffix('/').unwrap_or(value);
    if value.starts_with('/') {
        return bad("is an absolute path");
    }
    if value.contains('\0') {
        return bad("contains NUL");
    }
    match trimmed.split('/').find(|part| matches!(*part, "" | "." | "..")) {
        Some("") => bad("is empty, or contains an empty name"),
        Some(_) => bad("contains `.` or `..`"),
        None => Ok(trimmed),
    }
}

/// Appends a text as part of one file name. `%` and characters with a meaning in paths are escaped as `%XX`.
fn push_file_name(path: &mut String, text: &str) {
    if text.is_empty() {
        path.push_str("%00");
    }
    for (at, c) in text.char_indices() {
        match c {
            '.' if at == 0 => path.push_str("%2E"),
            '/' | '%' | '\\' | '\0'..='\x1f' | '\x7f' => {
                let _ = write!(path, "%{:02X}", u32::from(c));
            }
            c => path.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(address: &str) -> Owner {
        Owner::of(&Mailbox::parse(address, true).unwrap())
    }

    /// The whole path of a recipient without an entry.
    fn path(template: &str, address: &str) -> String {
        let template = MaildirTemplate::parse(template, &ValueNames::default()).unwrap();
        let below = template.path_for(&owner(address), &|_| &[]).unwrap();
        template.root().join(below).display().to_string()
    }

    /// The path below the root, with these values of whatever name.
    fn with(template: &MaildirTemplate, values: &[&str]) -> Result<PathBuf, PlaceError> {
        let values: Vec<Box<str>> = values.iter().map(|value| Box::from(*value)).collect();
        let values: &[Box<str>] = &values;
        template.path_for(&owner("a@b"), &|_| values)
    }

    #[test]
    fn no_address_leads_out_of_the_tree() {
        let path = |address| path("/srv/{domain}/{local}", address);
        assert_eq!(path("Jo.Doe@Example.ORG"), "/srv/example.org/jo.doe");
        assert_eq!(path("\"../../etc\"@example.org"), "/srv/example.org/%2E.%2F..%2Fetc");
        assert_eq!(path("\"jo.doe\"@example.org"), "/srv/example.org/jo.doe");
        assert_eq!(path("a%b@example.org"), "/srv/example.org/a%25b");
        assert_eq!(path("x@bücher.example"), "/srv/xn--bcher-kva.example/x");
    }

    #[test]
    fn the_root_ends_before_the_first_placeholder() {
        let root = |text| {
            let template = MaildirTemplate::parse(text, &ValueNames::default()).unwrap();
            template.root().display().to_string()
        };
        assert_eq!(root("/srv/mail/{domain}/{local}"), "/srv/mail/");
        assert_eq!(root("/srv/mail/u-{local}"), "/srv/mail/");
        assert_eq!(root("/{local}"), "/");
        assert_eq!(root("{local}"), "");
        assert_eq!(root("/srv/all"), "/srv/all");
        assert_eq!(path("/srv/u-{local}/Maildir/", "a@b"), "/srv/u-a/Maildir");
        assert_eq!(path("mail/{local}", "a@b"), "mail/a");
    }

    #[test]
    fn mistakes_in_a_template_are_told() {
        for (template, told) in [
            ("", "is empty"),
            ("/srv/{user}", "unknown placeholder `{user}`"),
            ("/srv/{local", "unknown placeholder `{local`"),
            ("/srv/local}", "unknown placeholder `}`"),
            ("/srv/{local}/../{domain}", "no name may be empty"),
            ("/srv/{domain}//{local}", "no name may be empty"),
            ("/srv/{domain}/./{local}", "no name may be empty"),
            ("/srv/{hash:0}/{local}", "1 to 4 digits"),
            ("/srv/{hash:5}/{local}", "1 to 4 digits"),
            ("/srv/{hash:}/{local}", "1 to 4 digits"),
            (
                "/srv/{hash:4}/{hash:4}/{hash:4}/{hash:4}/{hash:1}/{local}",
                "all together at most 16",
            ),
            ("/srv/\0/{local}", "NUL in a path"),
            ("/srv/{box}", "need recipients = { table = "),
        ] {
            let error = MaildirTemplate::parse(template, &ValueNames::default()).unwrap_err();
            assert!(error.contains(told), "{template:?}: {error}");
        }
        let error =
            MaildirTemplate::parse("/srv/{user}", &ValueNames::some(&["box", "q"])).unwrap_err();
        assert!(error.ends_with("entries of table \"t\" have {box}, {q}"), "{error}");
    }

    #[test]
    fn a_hash_spreads_addresses_and_stays_the_same() {
        assert_eq!(path("/m/{hash:2}/{local}", "a@example.org"), "/m/92/a");
        let both = path("/m/{hash:1}/{hash:1}/{local}", "A@Example.org");
        assert_eq!(both, "/m/9/2/a");
        let mut counts = std::collections::BTreeMap::new();
        for n in 0..25_600 {
            let directory = path("{hash:2}", &format!("user{n}@example.org"));
            *counts.entry(directory).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 256);
        assert!(counts.values().all(|count| (50..200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_value_names_a_path_below_the_root_and_no_other() {
        let template =
            MaildirTemplate::parse("/srv/mail/{box}", &ValueNames::some(&["Box"])).unwrap();
        let path = |values: &[&str]| with(&template, values);
        let below = |value| path(&[value]).map(|path| path.display().to_string());
        assert_eq!(below("a").as_deref(), Ok("a"));
        assert_eq!(below("example.org/a/Maildir/").as_deref(), Ok("example.org/a/Maildir"));
        assert_eq!(below("...").as_deref(), Ok("..."));
        assert_eq!(path(&[]), Err(ValueError::Missing("box".to_owned()).into()));
        let several = path(&["a", "b"]).unwrap_err().to_string();
        assert!(several.contains("has 2 values"), "{several}");
        for (value, told) in [
            ("..", "contains `.`"),
            ("a/../../b", "contains `.`"),
            ("./a", "contains `.`"),
            ("/etc", "absolute"),
            ("/", "absolute"),
            ("", "is empty"),
            ("a//b", "empty name"),
            ("a//", "empty name"),
            ("a\0b", "NUL"),
        ] {
            let error = path(&[value]).unwrap_err();
            assert!(error.to_string().contains(told), "{value:?}: {error}");
            assert_eq!(error.failure().status, EnhancedStatus::new(4, 2, 0), "{value:?}");
        }
        let dots = MaildirTemplate::parse("/srv/.{box}", &ValueNames::some(&["box"])).unwrap();
        assert_eq!(with(&dots, &["a"]), Ok(PathBuf::from(".a")));
        assert!(with(&dots, &["/a"]).is_err());
        assert!(with(&dots, &["."]).is_err());
    }

    #[test]
    fn what_a_pattern_takes_of_an_address_is_part_of_one_name() {
        let made = |of: &[(&str, bool)]| {
            let (mut text, mut filled) = (String::new(), Vec::new());
            for (part, is_of_key) in of {
                let start = text.len() as u32;
                text.push_str(part);
                filled.extend(is_of_key.then_some(start..text.len() as u32));
            }
            with_names_of_keys(&Entry::filled(text, filled)).text.to_string()
        };
        let path =
            |local| made(&[("x.test", true), ("/", false), (local, true), ("/Maildir/", false)]);
        assert_eq!(path("jo"), "x.test/jo/Maildir/");
        assert_eq!(path("jo/.Trash"), "x.test/jo%2F.Trash/Maildir/");
        assert_eq!(path("../al"), "x.test/%2E.%2Fal/Maildir/");
        assert_eq!(path(".."), "x.test/%2E./Maildir/");
        assert_eq!(path("\"a/b\""), "x.test/\"a%2Fb\"/Maildir/");
        assert_eq!(path(""), "x.test//Maildir/");
        let entry = Entry::text("x.test/jo/");
        assert!(matches!(with_names_of_keys(&entry), Cow::Borrowed(_)));
    }

    #[test]
    fn names_have_255_octets_and_paths_4096() {
        let template = MaildirTemplate::parse("/srv/{box}", &ValueNames::some(&["box"])).unwrap();
        let path = |value: &str| with(&template, &[value]).map(drop);
        let too_long = Err(PlaceError::TooLong { by_value: true });
        assert_eq!(path(&"x".repeat(255)), Ok(()));
        assert_eq!(path(&"x".repeat(256)), too_long);
        let long = format!("{}/", "x".repeat(99)).repeat(41);
        assert_eq!(path(&long[..4_091]), Ok(()));
        assert_eq!(path(&long[..4_092]), too_long);
        // An address is refused for good, and at RCPT already.
        let template = MaildirTemplate::parse("/srv/{local}", &ValueNames::default()).unwrap();
        let percents = |count: usize| owner(&format!("{}@far.test", "%".repeat(count)));
        assert!(template.fits(&percents(85)));
        assert!(!template.fits(&percents(86)));
        let error = template.path_for(&percents(86), &|_| &[]).unwrap_err();
        assert_eq!(error.failure().status, EnhancedStatus::new(5, 1, 3));
    }
}
