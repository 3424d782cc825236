//! Completion of header addresses without a domain (RFC 6409 §6.3: a server that changes a header must make its
//! addresses complete).

/// The value of an address field with `domain` added to each address without one; `None` if all have a domain, or if
/// the value is ambiguous.
#[must_use]
pub fn complete(value: &str, domain: &str) -> Option<String> {
    let mut list = AddressCompleter {
        domain,
        out: String::with_capacity(value.len() + domain.len() + 1),
        open: AddressState::default(),
        names: Vec::new(),
    };
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => {
                list.out.push(c);
                copy_comment(&mut chars, &mut list.out)?;
                continue;
            }
            '"' => {
                list.out.push(c);
                copy_quoted(&mut chars, &mut list.out)?;
                list.note_word();
                continue;
            }
            '<' => list.begin_angle()?,
            '>' => list.end_angle()?,
            ',' if !list.open.is_in_angle => list.end_address(),
            // A group or a route: rare, and not completed.
            ':' | ';' | '\\' => return None,
            c if c.is_whitespace() => list.open.has_blank = true,
            c => {
                list.note_character(c);
                list.out.push(c);
                list.open.word_end = list.out.len();
                continue;
            }
        }
        list.out.push(c);
    }
    if list.open.is_in_angle {
        return None;
    }
    list.end_address();
    list.complete_names();
    (list.out.len() > value.len()).then_some(list.out)
}

struct AddressCompleter<'a> {
    domain: &'a str,
    out: String,
    open: AddressState,
    /// Ends of addresses without a domain, or of parts of a name cut off by a comma.
    names: Vec<usize>,
}

/// State of the open address.
#[derive(Debug, Default)]
struct AddressState {
    is_in_angle: bool,
    had_angle: bool,
    has_at: bool,
    /// Words outside or inside of comments.
    words: u32,
    /// Blanks after the last atom or quoted string.
    has_blank: bool,
    is_in_word: bool,
    /// End of its last atom or quoted string.
    word_end: usize,
}

impl AddressCompleter<'_> {
    fn note_character(&mut self, c: char) {
        self.open.has_at |= c == '@';
        if !self.open.is_in_word || self.open.has_blank {
            self.open.words += 1;
        }
        (self.open.is_in_word, self.open.has_blank) = (true, false);
    }

    /// A quoted string, or a part.
    fn note_word(&mut self) {
        self.note_character('"');
        self.open.word_end = self.out.len();
    }

    fn begin_angle(&mut self) -> Option<()> {
        if self.open.had_angle || self.open.has_at {
            return None;
        }
        self.open = AddressState { is_in_angle: true, had_angle: true, ..AddressState::default() };
        Some(())
    }

    fn end_angle(&mut self) -> Option<()> {
        if !self.open.is_in_angle {
            return None;
        }
        self.add_domain();
        self.open.is_in_angle = false;
        Some(())
    }

    fn end_address(&mut self) {
        match &self.open {
            // `Doe, Jo <jo@example.org>`: the preceding text belongs to the name ([`crate::address_list`]).
            AddressState { had_angle: true, .. } => self.names.clear(),
            AddressState { has_at: true, .. } => self.complete_names(),
            AddressState { words: 1, word_end, .. } => self.names.push(*word_end),
            _ => {}
        }
        self.open = AddressState::default();
    }

    fn complete_names(&mut self) {
        for end in std::mem::take(&mut self.names).into_iter().rev() {
            self.out.insert_str(end, &format!("@{}", self.domain));
        }
    }

    fn add_domain(&mut self) {
        if self.open.words == 1 && !self.open.has_at {
            self.out.insert_str(self.open.word_end, &format!("@{}", self.domain));
        }
    }
}

fn copy_comment(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    let mut depth = 1_u32;
    while depth > 0 {
        let c = chars.next()?;
        out.push(c);
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\\' => out.push(chars.next()?),
            _ => {}
        }
    }
    Some(())
}

fn copy_quoted(chars: &mut std::str::Chars<'_>, out: &mut String) -> Option<()> {
    loop {
        let c = chars.next()?;
        out.push(c);
        match c {
            '"' => return Some(()),
            '\\' => out.push(chars.next()?),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_domain_gets_one() {
        for (value, expected) in [
            (" jo", " jo@x.org"),
            ("jo ", "jo@x.org "),
            ("Jo Smith <jo>", "Jo Smith <jo@x.org>"),
            ("\"Smith, Jo\" < jo > (at home)", "\"Smith, Jo\" < jo@x.org > (at home)"),
            ("jo, al@y.org, Al <al>", "jo@x.org, al@y.org, Al <al@x.org>"),
            ("jo (Jo, (of) y.org)", "jo@x.org (Jo, (of) y.org)"),
            ("\"j o\"", "\"j o\"@x.org"),
            ("j.o", "j.o@x.org"),
            ("jo, al", "jo@x.org, al@x.org"),
            ("Doe, Jo, Dr. <jo>, al", "Doe, Jo, Dr. <jo@x.org>, al@x.org"),
        ] {
            assert_eq!(complete(value, "x.org").as_deref(), Some(expected), "{value}");
        }
        for whole in [
            "",
            " jo@y.org",
            "Jo <jo@y.org>",
            "<>",
            "Jo Smith",
            "us: jo;",
            "Jo <jo",
            "jo>",
            "jo (",
            "\"jo",
            "<@y.org:jo>",
            "jo@y.org <jo>",
            "<jo> <al>",
            "j\\o",
            "j o <a b>",
            "Doe, Jo <jo@y.org>",
        ] {
            assert_eq!(complete(whole, "x.org"), None, "{whole}");
        }
    }
}
