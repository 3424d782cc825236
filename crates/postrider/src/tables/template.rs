//! Texts with places for a key, as Postfix's tables have them.

/// What part of a key stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `%s`: all of it.
    Whole,
    /// `%u`: before the last `@`; all of it where there is none.
    Local,
    /// `%d`: after the last `@`.
    Domain,
}

impl Part {
    /// The part of this letter.
    pub(super) fn of_letter(letter: char) -> Option<Part> {
        match letter {
            's' => Some(Part::Whole),
            'u' => Some(Part::Local),
            'd' => Some(Part::Domain),
            _ => None,
        }
    }

    /// The part of a key; `None`: it has no such part, and no table has it then.
    pub(super) fn of(self, key: &str) -> Option<&str> {
        let parts = key.rsplit_once('@');
        let part = match self {
            Part::Whole => key,
            Part::Local => parts.map_or(key, |(local, _)| local),
            Part::Domain => parts?.1,
        };
        (!part.is_empty()).then_some(part)
    }
}

/// A text with places for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Key(Part),
}

impl Template {
    /// Reads a text with `%s`, `%u`, `%d`, and `%%` for a percent sign.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                plain.push(c);
                continue;
            }
            let letter = chars.next();
            match (letter, letter.and_then(Part::of_letter)) {
                (Some('%'), _) => plain.push('%'),
                (_, Some(part)) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Key(part));
                }
                (letter, None) => {
                    let letter = letter.map(String::from).unwrap_or_default();
                    return Err(format!("\"%{letter}\" is no place for a key"));
                }
            }
        }
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Template(pieces))
    }

    /// Whether it has a place for a key.
    pub(super) fn has_key(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Key(_)))
    }

    /// The text for a key; `None`: the key lacks a part that stands in it.
    pub(super) fn fill(&self, key: &str) -> Option<String> {
        let mut text = String::new();
        for piece in &self.0 {
            text.push_str(match piece {
                Piece::Text(plain) => plain,
                Piece::Key(part) => part.of(key)?,
            });
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys() {
        for (key, local, domain) in [
            ("you@far.test", Some("you"), Some("far.test")),
            ("\"a@b\"@far.test", Some("\"a@b\""), Some("far.test")),
            ("far.test", Some("far.test"), None),
            ("@far.test", None, Some("far.test")),
            ("you@", Some("you"), None),
        ] {
            assert_eq!(Part::Whole.of(key), Some(key));
            assert_eq!((Part::Local.of(key), Part::Domain.of(key)), (local, domain), "{key}");
        }
        assert_eq!(Part::Whole.of(""), None);
    }

    #[test]
    fn places_are_filled_once() {
        let fill = |text: &str, key: &str| Template::parse(text).unwrap().fill(key);
        assert_eq!(fill("user:%d:%u", "%s@far.test").as_deref(), Some("user:far.test:%s"));
        assert_eq!(fill("100%%s", "x").as_deref(), Some("100%s"));
        assert_eq!(fill("%d", "far.test"), None);
        assert!(!Template::parse("a%%s").unwrap().has_key());
        assert!(Template::parse("%s").unwrap().has_key());
        for bad in ["%", "%x", "%S", "a%1"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }
}
