//! Answers of a table.

use std::ops::Range;

/// A name and its values.
pub type Field = (Box<str>, Box<[Box<str>]>);

/// A table's answer for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The answer in one text, as `postmap -q` would print it: several values stand with commas
    /// between them.
    pub text: Box<str>,
    /// Values by name, in the order of the configuration: attributes of LDAP, columns of SQL. Empty
    /// where the table has but one text for a key.
    pub fields: Box<[Field]>,
    /// Ranges of the text copied from the key, in order: they are controlled by the key's author. A reader that splits
    /// the text splits only the parts between them.
    pub filled: Box<[Range<u32>]>,
}

impl Entry {
    /// An answer that is one text.
    #[must_use]
    pub fn text(text: impl Into<Box<str>>) -> Entry {
        Entry { text: text.into(), ..Entry::default() }
    }

    /// An answer into which parts of the key were filled.
    #[must_use]
    pub fn filled(text: impl Into<Box<str>>, filled: Vec<Range<u32>>) -> Entry {
        Entry { text: text.into(), fields: Box::default(), filled: filled.into() }
    }

    /// All texts in one, with commas between them.
    #[must_use]
    pub fn join<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Entry {
        let (mut text, mut filled) = (String::new(), Vec::new());
        for (n, entry) in entries.into_iter().enumerate() {
            text.push_str(if n > 0 { "," } else { "" });
            // Texts are far from 4 GiB: a table's answers have limits.
            let start = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let moved = |at: u32| at.saturating_add(start);
            filled.extend(entry.filled.iter().map(|part| moved(part.start)..moved(part.end)));
            text.push_str(&entry.text);
        }
        Entry::filled(text, filled)
    }

    /// An answer of named values. Its text is all values with commas between them.
    #[must_use]
    pub fn fields(fields: impl Into<Box<[Field]>>) -> Entry {
        let fields = fields.into();
        let values = fields.iter().flat_map(|(_, values)| values.iter());
        let text = values.map(|value| &**value).collect::<Vec<_>>().join(",");
        Entry { text: text.into(), fields, filled: Box::default() }
    }

    /// The first value of a field, without regard to the case of its name (as LDAP has it).
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.values(name).first().map(|value| &**value)
    }

    /// All values of a field.
    #[must_use]
    pub fn values(&self, name: &str) -> &[Box<str>] {
        let field = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        field.map(|(_, values)| &**values).unwrap_or_default()
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = |values: &[Box<str>]| values.iter().map(|v| v.len() + 16).sum::<usize>();
        let fields = self.fields.iter().map(|(name, of)| name.len() + 32 + values(of));
        let filled = size_of_val(&*self.filled);
        size_of::<Entry>() + self.text.len() + filled + fields.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_a_text_and_names_without_case() {
        let fields = [
            (Box::from("mail"), Box::from([Box::from("a@x.test"), Box::from("b@x.test")])),
            (Box::from("mailHost"), Box::from([Box::from("one")])),
        ];
        let entry = Entry::fields(fields);
        assert_eq!(&*entry.text, "a@x.test,b@x.test,one");
        assert_eq!(entry.field("mailhost"), Some("one"));
        assert_eq!(entry.values("MAIL").len(), 2);
        assert_eq!(entry.field("none"), None);
    }
}
