//! The answer of a pattern: a text in which `$1`, `${1}` and `$(1)` stand for matched groups, and `$$` for a dollar.

use super::rules::RuleError;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Template {
    /// The same for every key.
    Fixed(Box<str>),
    /// Composed with matched groups.
    Parts(Box<[TemplatePart]>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TemplatePart {
    Text(Box<str>),
    /// The group of this number, from 1.
    Group(usize),
}

impl Template {
    /// Reads the part of a line that begins at `from`. `groups`: how many the pattern has; `None`: it is
    /// negated, and matches nothing.
    pub(crate) fn read(
        line: &[u8],
        from: usize,
        groups: Option<usize>,
    ) -> Result<Template, RuleError> {
        let written = line.get(from..).unwrap_or_default();
        let text = std::str::from_utf8(written)
            .map_err(|error| (from + error.valid_up_to(), "the value is not UTF-8".to_owned()))?;
        if text.is_empty() {
            return Err((line.len(), "the pattern has no value".to_owned()));
        }
        let (mut parts, mut fixed) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            fixed.push_str(before);
            if let Some(behind) = behind.strip_prefix('$') {
                fixed.push('$');
                rest = behind;
                continue;
            }
            let at = from + (text.len() - behind.len() - 1);
            let (name, behind) = name(behind).map_err(|why| (at, why.to_owned()))?;
            let group = group(name, groups).map_err(|why| (at, why))?;
            if !fixed.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut fixed).into()));
            }
            parts.push(TemplatePart::Group(group));
            rest = behind;
        }
        fixed.push_str(rest);
        if parts.is_empty() {
            return Ok(Template::Fixed(fixed.into()));
        }
        parts.push(TemplatePart::Text(fixed.into()));
        Ok(Template::Parts(parts.into()))
    }
}

impl Template {
    /// The constant start of the answer, and true if more follows.
    pub(crate) fn fixed_part(&self) -> (&str, bool) {
        match self {
            Template::Fixed(text) => (text, false),
            Template::Parts(parts) => match parts.first() {
                Some(TemplatePart::Text(text)) => (text, true),
                _ => ("", true),
            },
        }
    }
}

/// The name after a dollar, and the text after the name.
fn name(text: &str) -> Result<(&str, &str), &'static str> {
    let closing = match text.as_bytes().first() {
        Some(b'{') => '}',
        Some(b'(') => ')',
        _ => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
            return if name.0.is_empty() { Err("a single `$`: write `$$`") } else { Ok(name) };
        }
    };
    let inside = text.get(1..).unwrap_or_default();
    inside.split_once(closing).ok_or("the bracket after `$` is not closed")
}

/// The group number of a name.
fn group(name: &str, groups: Option<usize>) -> Result<usize, String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        let help = "write `${1}` before letters or digits, and `$$` for a dollar sign";
        return Err(format!("\"{name}\" is not a group number; {help}"));
    }
    let Some(groups) = groups else {
        return Err("a negated pattern has no groups".to_owned());
    };
    match name.parse() {
        Ok(number) if (1..=groups).contains(&number) => Ok(number),
        _ => Err(format!("no group {name}: the pattern has {groups}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stand_in_three_ways() {
        let read = |text: &str, groups| Template::read(text.as_bytes(), 0, groups);
        let fixed = Template::Fixed("550 a$1 $".into());
        assert_eq!(read("550 a$$1 $$", None), Ok(fixed));
        let text = |text: &str| TemplatePart::Text(text.into());
        let parts = [
            text("a "),
            TemplatePart::Group(1),
            text(" "),
            TemplatePart::Group(2),
            TemplatePart::Group(10),
            text("$0"),
        ];
        assert_eq!(read("a $1 ${02}$(10)$$0", Some(10)), Ok(Template::Parts(parts.into())));
        for (wrong, at) in [
            ("", 0),
            ("a $", 2),
            ("a $1", 2),
            ("$a", 0),
            ("é $1x", 3),
            ("${1", 0),
            ("$(1}", 0),
            ("${}", 0),
            ("$-1", 0),
        ] {
            let groups = if wrong == "a $1" { None } else { Some(1) };
            assert_eq!(read(wrong, groups).map_err(|(at, _)| at), Err(at), "{wrong}");
        }
        assert!(read("$2", Some(1)).is_err() && read("$0", Some(1)).is_err());
        assert!(read("$99999999999999999999", Some(1)).is_err());
    }
}
