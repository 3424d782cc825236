//! Personal names as people write them: `Marshall.T.Rose` (RFC 2156 §4.1.2).

use super::{PersonalName, Value};

impl PersonalName {
    /// Reads `encoded-pn`: a given name of two characters or more, initials, and the surname behind the last of
    /// them. `None`: there is no surname.
    #[must_use]
    pub fn from_encoded(text: &str) -> Option<PersonalName> {
        let mut rest = text;
        let mut name = PersonalName::default();
        if let Some((given, behind)) = rest.split_once('.')
            && given.chars().count() >= 2
        {
            name.given = Value::printable(given);
            rest = behind;
        }
        let mut initials = String::new();
        while let Some((initial, behind)) = rest.split_once('.')
            && initial.len() == 1
            && initial.bytes().all(|octet| octet.is_ascii_alphabetic())
        {
            initials.push_str(initial);
            rest = behind;
        }
        if !initials.is_empty() {
            name.initials = Value::printable(initials);
        }
        name.surname = Value::printable(rest);
        // Only what comes back as the same name is one.
        (!rest.is_empty() && name.to_encoded().as_deref() == Some(text)).then_some(name)
    }

    /// Writes it so; `None` when it can't be, or couldn't be read again as the same name.
    #[must_use]
    pub fn to_encoded(&self) -> Option<String> {
        let part = |value: &Value| match value {
            Value { printable, teletex: None } => {
                Some(printable.as_deref().unwrap_or_default().to_owned())
            }
            _ => None,
        };
        let [surname, given, initials, generation] = self.parts().map(part);
        let (surname, given, initials) = (surname?, given?, initials?);
        let is_alone = given.is_empty() && initials.is_empty();
        let is_right = generation?.is_empty()
            && initials.bytes().all(|octet| octet.is_ascii_alphabetic())
            && !given.contains('.')
            && given.chars().count() != 1
            && !surname.is_empty()
            && !surname.chars().take(2).any(|c| c == '.')
            && !(is_alone && surname.contains('.'));
        if !is_right {
            return None;
        }
        let mut text = String::new();
        if !given.is_empty() {
            text.push_str(&given);
            text.push('.');
        }
        for initial in initials.chars() {
            text.push(initial);
            text.push('.');
        }
        text.push_str(&surname);
        Some(text)
    }
}
