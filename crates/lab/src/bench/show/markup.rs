//! Writing HTML and SVG so that every element that is opened is closed, and all text is escaped.
//! What comes out is well-formed XML too.

use std::fmt::Write;

/// Attributes of an element: names and values.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A document in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// An element with what `inside` puts into it.
    pub(super) fn element(
        &mut self,
        name: &str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Markup),
    ) {
        self.begin(name, attributes);
        self.0.push('>');
        inside(self);
        let _ = write!(self.0, "</{name}>");
    }

    /// An element with nothing but text in it.
    pub(super) fn leaf(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |inside| inside.text(text));
    }

    /// An element with nothing in it; in HTML only those that never have anything (`meta`, `br`).
    pub(super) fn empty(&mut self, name: &str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.0.push_str("/>");
    }

    /// Text, escaped. Characters that XML forbids are replaced.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' | '\n' => self.0.push(c),
                '\u{FFFE}' | '\u{FFFF}' => self.0.push(char::REPLACEMENT_CHARACTER),
                c if c.is_control() => self.0.push(char::REPLACEMENT_CHARACTER),
                c => self.0.push(c),
            }
        }
    }

    /// A document that was made before, as it is.
    pub(super) fn document(&mut self, document: &Markup) {
        self.0.push_str(&document.0);
    }

    /// A style sheet of our own, as it is: no `<` and no `&` in it.
    pub(super) fn style(&mut self, sheets: &[&str]) {
        self.element("style", &[], |inside| {
            for sheet in sheets {
                debug_assert!(!sheet.contains(['<', '&']), "would have to be escaped");
                inside.0.push_str(sheet);
            }
        });
    }

    /// A new line, to make the source readable.
    pub(super) fn line(&mut self) {
        self.0.push('\n');
    }

    /// What was written.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn begin(&mut self, name: &str, attributes: Attributes<'_>) {
        let _ = write!(self.0, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.0, " {key}=\"");
            self.text(value);
            self.0.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Markup;

    #[test]
    fn text_can_not_become_markup() {
        let mut markup = Markup::default();
        markup.leaf("p", &[("title", "\"><b>'")], "<script>&\u{0}\u{1b}");
        let text = markup.into_string();
        assert_eq!(
            text,
            "<p title=\"&quot;&gt;&lt;b&gt;&#39;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}</p>"
        );
    }
}
