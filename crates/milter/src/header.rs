//! The header of a message as filters see it, and change it.

use crate::answer::Change;

/// A header of more fields is not given to filters.
pub const FIELDS_MAX: usize = 10_000;

/// The part of the header with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldPosition {
    /// Among those that this server adds before the content.
    Added,
    /// In the content.
    Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    /// Its last line end included, if it has one.
    text: Vec<u8>,
    place: FieldPosition,
}

impl Field {
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        let field = mail::header::fields(&self.text).next()?;
        Some((field.name, field.value))
    }

    fn is(&self, name: &[u8]) -> bool {
        self.parts().is_some_and(|(own, _)| own.eq_ignore_ascii_case(name))
    }
}

/// The fields of a message: first those that this server has added so far, then those of the content. The
/// Received field that it adds last is not among them, and filters count it as the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    fields: Vec<Field>,
    is_added_changed: bool,
    is_content_changed: bool,
}

impl Header {
    /// Reads the fields that were added, and those at the start of the content. `None`: they are more than
    /// [`FIELDS_MAX`].
    #[must_use]
    pub fn read(added: &[u8], content: &[u8]) -> Option<Header> {
        let mut header = Header::default();
        for (text, place) in [(added, FieldPosition::Added), (content, FieldPosition::Content)] {
            for field in mail::header::fields(text) {
                if header.fields.len() == FIELDS_MAX {
                    return None;
                }
                let text = text.get(field.range).unwrap_or_default().to_vec();
                header.fields.push(Field { text, place });
            }
        }
        Some(header)
    }

    /// Names and values, which are all between the colon and the last line end.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().filter_map(Field::parts)
    }

    /// Applies a change of fields; other changes have no effect. With `leading_space`, values include the
    /// blank after the colon.
    pub fn apply(&mut self, change: &Change, leading_space: bool) {
        match change {
            Change::AddField { name, value } => {
                self.append(name, value, leading_space);
            }
            Change::InsertField { index, name, value } => {
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                // The first is the Received field, which is not here.
                let at = index.saturating_sub(1).min(self.fields.len());
                self.insert(at, name, value, leading_space);
            }
            Change::ChangeField { index, name, value } => {
                let nth = usize::try_from(*index).unwrap_or(usize::MAX).max(1) - 1;
                let called = self.fields.iter().enumerate().filter(|(_, field)| field.is(name));
                match called.map(|(at, _)| at).nth(nth) {
                    Some(at) => self.replace(at, name, value, leading_space),
                    None if value.is_empty() => {}
                    None => self.append(name, value, leading_space),
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, at: usize, name: &[u8], value: &[u8], leading_space: bool) {
        let added =
            self.fields.iter().take_while(|field| field.place == FieldPosition::Added).count();
        let place = if at <= added { FieldPosition::Added } else { FieldPosition::Content };
        self.fields.insert(at, Field { text: written(name, value, leading_space), place });
        self.note_changed(place);
    }

    fn append(&mut self, name: &[u8], value: &[u8], leading_space: bool) {
        let (text, place) = (written(name, value, leading_space), FieldPosition::Content);
        self.fields.push(Field { text, place });
        self.note_changed(place);
    }

    fn replace(&mut self, at: usize, name: &[u8], value: &[u8], leading_space: bool) {
        let Some(field) = self.fields.get_mut(at) else { return };
        let place = field.place;
        if value.is_empty() {
            self.fields.remove(at);
        } else {
            field.text = written(name, value, leading_space);
        }
        self.note_changed(place);
    }

    fn note_changed(&mut self, place: FieldPosition) {
        match place {
            FieldPosition::Added => self.is_added_changed = true,
            FieldPosition::Content => self.is_content_changed = true,
        }
    }

    /// The fields before the content, if they changed.
    #[must_use]
    pub fn added(&self) -> Option<Vec<u8>> {
        self.is_added_changed.then(|| self.text(FieldPosition::Added))
    }

    /// Returns true if fields of the content changed.
    #[must_use]
    pub fn is_content_changed(&self) -> bool {
        self.is_content_changed
    }

    /// The fields of the content.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.text(FieldPosition::Content)
    }

    fn text(&self, place: FieldPosition) -> Vec<u8> {
        let mut text: Vec<u8> = Vec::new();
        for field in self.fields.iter().filter(|field| field.place == place) {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(&field.text);
        }
        text
    }
}

/// Returns a field as text. Later lines of its value begin with a blank, and empty lines are dropped: a
/// filter must not end the header.
fn written(name: &[u8], value: &[u8], leading_space: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len() + value.len() + 4);
    text.extend_from_slice(name);
    text.push(b':');
    if !leading_space {
        text.push(b' ');
    }
    let is_blank = |line: &&[u8]| line.iter().all(|byte| matches!(byte, b' ' | b'\t'));
    let lines = value.split(|byte| matches!(byte, b'\r' | b'\n'));
    for (n, line) in lines.enumerate().filter(|(n, line)| *n == 0 || !is_blank(line)) {
        if n > 0 {
            text.extend_from_slice(b"\r\n");
            text.extend((!line.starts_with(b" ") && !line.starts_with(b"\t")).then_some(b'\t'));
        }
        text.extend_from_slice(line);
    }
    text.extend_from_slice(b"\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADDED: &[u8] = b"X-Ours: 1\r\n";
    const CONTENT: &[u8] = b"From: a\r\nX-Two: 1\r\n\tfolded\r\nx-two:2\r\n";

    fn header() -> Header {
        Header::read(ADDED, CONTENT).unwrap()
    }

    fn add(name: &str, value: &str) -> Change {
        Change::AddField { name: name.into(), value: value.into() }
    }

    fn insert(index: u32, name: &str) -> Change {
        Change::InsertField { index, name: name.into(), value: b"new".into() }
    }

    fn change(index: u32, name: &str, value: &str) -> Change {
        Change::ChangeField { index, name: name.into(), value: value.into() }
    }

    fn after(changes: &[Change]) -> (Option<String>, Option<String>) {
        let mut header = header();
        changes.iter().for_each(|change| header.apply(change, false));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let content = header.is_content_changed().then(|| text(header.content()));
        (header.added().map(text), content)
    }

    #[test]
    fn filters_see_all_fields_and_what_is_not_changed_stays() {
        let header = header();
        let names: Vec<&[u8]> = header.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"X-Ours"[..], b"From", b"X-Two", b"x-two"]);
        assert_eq!(header.fields().nth(2).unwrap().1, b" 1\r\n\tfolded");
        assert_eq!(header.content(), CONTENT);
        assert_eq!(after(&[change(3, "X-Two", ""), Change::Sender(vec![])]), (None, None));
    }

    #[test]
    fn what_is_inserted_in_front_leaves_the_content_alone() {
        let before = Some("A: new\r\nX-Ours: 1\r\n".to_owned());
        assert_eq!(after(&[insert(0, "A")]), (before.clone(), None));
        assert_eq!(after(&[insert(1, "A")]), (before, None));
        let behind = Some("X-Ours: 1\r\nA: new\r\n".to_owned());
        assert_eq!(after(&[insert(2, "A")]), (behind, None));
        let (added, content) = after(&[insert(3, "A")]);
        assert!(added.is_none() && content.unwrap().starts_with("From: a\r\nA: new\r\nX-Two"));
        let (_, last) = after(&[insert(u32::MAX, "A")]);
        assert!(last.unwrap().ends_with("x-two:2\r\nA: new\r\n"));
    }

    #[test]
    fn fields_are_added_at_the_end_changed_and_removed() {
        let (_, content) = after(&[add("A", "b\nc\n\n d\r\ne")]);
        assert!(content.unwrap().ends_with("x-two:2\r\nA: b\r\n\tc\r\n d\r\n\te\r\n"));
        let (_, content) = after(&[change(2, "X-TWO", "3"), change(1, "x-two", "")]);
        assert_eq!(content.unwrap(), "From: a\r\nX-TWO: 3\r\n");
        assert_eq!(after(&[change(0, "x-ours", "")]), (Some(String::new()), None));
        let (_, content) = after(&[change(5, "New", "x")]);
        assert!(content.unwrap().ends_with("New: x\r\n"));
    }

    #[test]
    fn a_header_without_fields_or_without_an_end() {
        let mut header = Header::read(b"", b"").unwrap();
        header.apply(&insert(1, "A"), false);
        header.apply(&add("B", "x"), true);
        assert_eq!(header.added().unwrap(), b"A: new\r\n");
        assert_eq!(header.content(), b"B:x\r\n");
        let mut header = Header::read(b"", b"From: a").unwrap();
        header.apply(&add("B", " x"), true);
        assert_eq!(header.content(), b"From: a\r\nB: x\r\n");
    }

    #[test]
    fn there_are_no_more_fields_than_may_be() {
        let most = b"a:\r\n".repeat(FIELDS_MAX);
        assert!(Header::read(b"", &most).is_some());
        assert!(Header::read(b"a:\r\n", &most).is_none());
    }

    proptest! {
        #[test]
        fn a_value_ends_no_header_and_begins_no_field(value: Vec<u8>, leading_space: bool) {
            let mut header = Header::default();
            header.apply(&Change::AddField { name: b"A".into(), value }, leading_space);
            let text = header.content();
            let fields: Vec<_> = mail::header::fields(&text).collect();
            prop_assert_eq!(fields.len(), 1);
            prop_assert_eq!(fields[0].range.end, text.len());
            prop_assert!(text.ends_with(b"\r\n"));
        }
    }
}
