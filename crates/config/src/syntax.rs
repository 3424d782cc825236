//! Syntax errors of a file, with their remedies.

use super::document::Document;
use super::problem::Problem;

/// The errors that the TOML library found. `is_list` returns true for a section that the schema has as a list.
pub(super) fn problems(
    document: &Document,
    errors: &[toml::de::Error],
    is_list: &dyn Fn(&str) -> bool,
) -> Vec<Problem> {
    let text = document.text();
    let mut problems: Vec<Problem> = Vec::new();
    // All that follows an open bracket is read as its content: errors there are no errors.
    let open = unclosed(text);
    if let Some((at, bracket)) = open {
        let end = if bracket == '{' { '}' } else { ']' };
        let help = format!("close it with `{end}`");
        problems.push(document.problem_at(
            at..at + 1,
            true,
            format!("`{bracket}` without `{end}`"),
            &help,
        ));
    }
    for error in errors {
        let at = error.span().map_or(text.len(), |span| span.start);
        if open.is_some_and(|(open, _)| at >= open) {
            continue;
        }
        let problem = mended(document, error, is_list);
        // Several errors may be about one value.
        if !problems
            .iter()
            .any(|other| other.message == problem.message && other.line == problem.line)
        {
            problems.push(problem);
        }
    }
    problems
}

fn mended(document: &Document, error: &toml::de::Error, is_list: &dyn Fn(&str) -> bool) -> Problem {
    let text = document.text();
    let at = error.span().map_or(text.len(), |span| span.start);
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    if let Some(name) = header(line).filter(|_| error.message() == "duplicate key")
        && let Some(message) = mixed_headers(text, name)
    {
        let help = match is_list(name) {
            true => format!("write `[[{name}]]` each time: it is a list"),
            false => format!("write `[{name}]` once, with all its keys"),
        };
        let span = error.span().unwrap_or(at..at);
        return document.problem_at(span, true, message, &help);
    }
    if let Some((key, value)) = unquoted(line) {
        let from = start + line.find(value).unwrap_or(0);
        let help = format!("write {key} = \"{value}\"");
        return document.problem_at(
            from..from + value.len(),
            true,
            "text without quotes".to_owned(),
            &help,
        );
    }
    document.toml_problem(error)
}

/// `[name]` in a file that also has `[[name]]`, or the reverse.
fn mixed_headers(text: &str, name: &str) -> Option<String> {
    let named = || text.lines().filter(move |line| header(line) == Some(name));
    let is_list = |line: &str| line.trim_start().starts_with("[[");
    let is_mixed = named().any(is_list) && named().any(|line| !is_list(line));
    is_mixed.then(|| format!("`[{name}]` beside `[[{name}]]`"))
}

/// The name in `[name]` or `[[name]]`.
fn header(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix('[')?;
    let (name, _) = line.strip_prefix('[').unwrap_or(line).split_once(']')?;
    let name = name.trim();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_part))
        .then_some(name)
}

/// Key and value of a line with an unquoted text as value.
fn unquoted(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let is_bare = !value.is_empty() && !value.contains(['"', '\'', '[', '{', '}', ']', '\\', ',']);
    let is_key = key.trim().bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let is_value = |value: &str| format!("x = {value}").parse::<toml::Table>().is_ok();
    (is_bare && is_key && !is_value(value)).then(|| (key.trim(), value))
}

/// The offset of a `{` or `[` that is still open where a section begins, or at the end.
fn unclosed(text: &str) -> Option<(usize, char)> {
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut multiline: Option<&str> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if multiline.is_none() && !open.is_empty() && header(line).is_some() {
            break;
        }
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            if let Some(quotes) = multiline {
                let Some(end) = rest.find(quotes) else { break };
                rest = rest.get(end + 3..).unwrap_or_default();
                multiline = None;
                continue;
            }
            let at = offset + line.len() - rest.len();
            let mut length = c.len_utf8();
            match c {
                '#' => break,
                '"' | '\'' => {
                    let triple = if c == '"' { "\"\"\"" } else { "'''" };
                    if rest.starts_with(triple) {
                        multiline = Some(triple);
                        length = 3;
                    } else {
                        // A string that is not closed ends with its line, and is a separate error.
                        length = quoted(rest).unwrap_or(rest.len());
                    }
                }
                '{' | '[' => open.push((at, c)),
                '}' | ']' => {
                    let wanted = if c == '}' { '{' } else { '[' };
                    match open.pop() {
                        Some((_, bracket)) if bracket == wanted => {}
                        other => return other,
                    }
                }
                _ => {}
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        offset += line.len();
    }
    open.last().copied()
}

/// The length of a quoted text, quotes included.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_brackets_are_found_where_they_open() {
        for (text, open) in [
            ("a = { b = [1], c = \"}\" }\n[[route]]\nx = 1\n", None),
            ("a = { b = [\"h\"]\n[[route]]\nx = {}\n", Some((4, '{'))),
            ("a = [\n  [1, 2],\n  [3]\n]\n", None),
            ("a = [ # ]\n\"]\"\n[route]\n", Some((4, '['))),
            ("a = { b = [\"h\" }\n", Some((10, '['))),
            ("a = '''\n[x]\n{'''\nb = \"\"\"{\"\"\"\n", None),
            ("a = \"{\\\"{\"\n", None),
            ("a = {", Some((4, '{'))),
            ("a = }", None),
        ] {
            assert_eq!(unclosed(text), open, "{text}");
        }
    }

    #[test]
    fn bare_text_is_told_from_other_values() {
        assert_eq!(
            unquoted("address = 127.0.0.1:2525 # here"),
            Some(("address", "127.0.0.1:2525"))
        );
        assert_eq!(
            unquoted("hostname = relay.example.org"),
            Some(("hostname", "relay.example.org"))
        );
        for line in
            ["a = 1", "a = true", "a = 2026-11-21", "a = \"x", "a = [x", "a =", "a", "a b = c"]
        {
            assert_eq!(unquoted(line), None, "{line}");
        }
    }
}
