//! The query of a table: places for the key become parameters, never text.

use ldap::{Key, KeyComponent};
use std::iter::Peekable;
use std::str::CharIndices;
use std::sync::Arc;

/// SQL dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    Postgres,
    Mysql,
    Sqlite,
}

/// A query in the form sent, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// The statement with the server's parameter markers.
    pub(super) sql: Arc<str>,
    /// The parameters in order.
    pub(super) parameters: Box<[KeyComponent]>,
}

/// An error in a query, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryError {
    pub(super) message: String,
    pub(super) help: &'static str,
}

const NO_TEXT: &str =
    "a key is a query parameter, never part of the query text: put %s in place of a value";
const NO_QUOTES: &str = "write it without quotes, as a whole value; concatenate with ||";
const PLACES: &str = "use %s, %u, %d, %1 to %9, or %% for a percent sign";
const ONE_STATEMENT: &str = "a table allows one statement";

const NO_PATTERN: &str =
    "compare it with =, for example lower(address) = lower(%s); %s LIKE pattern is allowed";

/// Keywords before a pattern, in which `%` and `_` of a key would match other keys.
const BEFORE_PATTERNS: [&str; 7] = ["like", "ilike", "rlike", "regexp", "glob", "match", "similar"];

/// Words with which a pattern is over.
const BEHIND_PATTERNS: [&str; 9] =
    ["and", "or", "escape", "where", "on", "then", "union", "order", "limit"];

/// Keywords before names, where parameters are not allowed.
const BEFORE_NAMES: [&str; 8] = ["from", "join", "into", "update", "table", "as", "by", "only"];

impl Query {
    /// Parses a query with `%s`, `%u`, `%d`, `%1` to `%9`, and `%%` for a percent sign.
    ///
    /// # Errors
    /// Returns an error if no placeholder is used, if one is in an invalid position, or for more than one statement.
    pub(super) fn parse(text: &str, flavour: Flavour) -> Result<Query, QueryError> {
        let mut reading = QueryParser {
            text,
            flavour,
            chars: text.char_indices().peekable(),
            sql: String::with_capacity(text.len() + 8),
            parameters: Vec::new(),
        };
        while let Some((at, c)) = reading.chars.next() {
            if !reading.char(at, c)? {
                break;
            }
        }
        if reading.parameters.is_empty() {
            let message = "the query does not use the key";
            return mistake(message, "write %s in place of the key: WHERE address = %s");
        }
        let sql = reading.sql.trim().into();
        Ok(Query { sql, parameters: reading.parameters.into() })
    }

    /// The values of the parameters; `None`: the key lacks a part that is one.
    pub(super) fn values<'k>(&self, key: &'k str) -> Option<Vec<&'k str>> {
        let key = Key::new(key);
        self.parameters.iter().map(|part| key.part(*part)).collect()
    }
}

fn mistake<T>(message: impl Into<String>, help: &'static str) -> Result<T, QueryError> {
    Err(QueryError { message: message.into(), help })
}

/// Returns true if the text after `before` is part of a pattern, for example `LIKE '%%' || lower(`.
fn is_in_pattern(before: &str) -> bool {
    let mut is_open = false;
    let mut depth = 0_i32;
    let mut rest = before;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match c {
            '\'' | '"' => {
                rest.get(1..).and_then(|rest| rest.find(c)).map_or(rest.len(), |at| at + 2)
            }
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(token));
        match token {
            "~" => (is_open, depth) = (true, 0),
            "(" => depth += 1,
            ")" | "," if depth == 0 => is_open = false,
            ")" => depth -= 1,
            "=" | "<" | ">" if depth == 0 => is_open = false,
            _ if is_one_of(&BEFORE_PATTERNS) => (is_open, depth) = (true, 0),
            _ if is_one_of(&BEHIND_PATTERNS) => is_open = false,
            _ => {}
        }
        rest = behind;
    }
    is_open
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '`' | '\'' | ']' | '$' | '%')
}

struct QueryParser<'t> {
    text: &'t str,
    flavour: Flavour,
    chars: Peekable<CharIndices<'t>>,
    sql: String,
    parameters: Vec<KeyComponent>,
}

impl QueryParser<'_> {
    /// Reads the token that begins with this character; false at the end of the statement.
    fn char(&mut self, at: usize, c: char) -> Result<bool, QueryError> {
        let next = self.chars.peek().map(|(_, next)| *next);
        match (c, next) {
            ('%', _) => self.place(at)?,
            ('\'' | '"', _) => self.quoted(at, c)?,
            ('`', _) if self.flavour != Flavour::Postgres => self.quoted(at, '`')?,
            ('[', _) if self.flavour == Flavour::Sqlite => self.quoted(at, ']')?,
            ('-', Some('-')) => self.comment(at, "\n"),
            ('#', _) if self.flavour == Flavour::Mysql => self.comment(at, "\n"),
            ('/', Some('*')) => self.comment(at, "*/"),
            (';', _) => {
                let rest = self.text.get(at + 1..).unwrap_or_default();
                if !rest.trim().is_empty() {
                    return mistake("text after a semicolon in the query", ONE_STATEMENT);
                }
                return Ok(false);
            }
            _ if self.is_parameter(c, next) => {
                let message = format!("\"{c}\" is a parameter placeholder");
                return mistake(message, "write %s in place of the key");
            }
            _ => self.sql.push(c),
        }
        Ok(true)
    }

    /// Returns true if the server would read an unknown parameter here.
    fn is_parameter(&self, c: char, next: Option<char>) -> bool {
        let is_name = next.is_some_and(|next| next.is_alphanumeric() || next == '_');
        match self.flavour {
            // Also a string in dollars, in which nothing would be found.
            Flavour::Postgres => c == '$',
            Flavour::Mysql => c == '?',
            Flavour::Sqlite => c == '?' || (matches!(c, '$' | ':' | '@') && is_name),
        }
    }

    /// Reads the letter after a percent sign outside quotes.
    fn place(&mut self, at: usize) -> Result<(), QueryError> {
        let letter = self.chars.next().map(|(_, letter)| letter);
        let shown = format!("%{}", letter.map(String::from).unwrap_or_default());
        let Some(part) = letter.and_then(KeyComponent::of_letter) else {
            if letter == Some('%') {
                self.sql.push('%');
                return Ok(());
            }
            return mistake(format!("\"{shown}\" is not a key placeholder"), PLACES);
        };
        let before = self.text.get(..at).unwrap_or_default();
        let next = self.chars.peek().map(|(_, next)| *next);
        let word = before.trim_end().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
        let is_after_name_word = word.is_some_and(|word| {
            before.ends_with(char::is_whitespace)
                && BEFORE_NAMES.iter().any(|name| name.eq_ignore_ascii_case(word))
        });
        if is_in_pattern(before) {
            return mistake(format!("\"{shown}\" is in place of a pattern"), NO_PATTERN);
        }
        if before.ends_with(is_of_name) || next.is_some_and(is_of_name) || is_after_name_word {
            return mistake(format!("\"{shown}\" is not in place of a value"), NO_TEXT);
        }
        self.parameters.push(part);
        match self.flavour {
            Flavour::Postgres => self.sql.push_str(&format!("${}", self.parameters.len())),
            Flavour::Mysql | Flavour::Sqlite => self.sql.push('?'),
        }
        Ok(())
    }

    /// Reads up to the end of a string or a quoted name. A doubled quote ends one and begins the next, with the same
    /// result.
    fn quoted(&mut self, at: usize, end: char) -> Result<(), QueryError> {
        let before = self.text.get(..at).unwrap_or_default();
        let is_escape_string = before.ends_with(['e', 'E'])
            && !before.get(..at.saturating_sub(1)).is_some_and(|word| word.ends_with(is_of_name));
        let has_backslashes = match self.flavour {
            Flavour::Mysql => end != '`',
            Flavour::Postgres => end == '\'' && is_escape_string,
            Flavour::Sqlite => false,
        };
        self.sql.push_str(self.text.get(at..=at).unwrap_or_default());
        while let Some((_, c)) = self.chars.next() {
            let next = self.chars.peek().map(|(_, next)| *next);
            self.sql.push(c);
            match (c, next) {
                ('\\', Some(escaped)) if has_backslashes => {
                    self.chars.next();
                    self.sql.push(escaped);
                }
                ('%', Some('%')) => {
                    self.chars.next();
                }
                ('%', Some(letter)) if KeyComponent::of_letter(letter).is_some() => {
                    return mistake(format!("\"%{letter}\" is in quotes"), NO_QUOTES);
                }
                ('%', _) => return mistake("a single percent sign is in quotes", PLACES),
                (c, _) if c == end => return Ok(()),
                _ => {}
            }
        }
        mistake("quote not closed", "")
    }

    /// Leaves out a comment.
    fn comment(&mut self, at: usize, end: &str) {
        let rest = self.text.get(at..).unwrap_or_default();
        let end = rest.find(end).map_or(self.text.len(), |found| at + found + end.len());
        while self.chars.next_if(|(place, _)| *place < end).is_some() {}
        self.sql.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flavour::{Mysql, Postgres, Sqlite};

    fn sql(text: &str, flavour: Flavour) -> String {
        Query::parse(text, flavour).unwrap_or_else(|e| panic!("{text}: {e:?}")).sql.to_string()
    }

    #[test]
    fn places_become_parameters() {
        let text = "SELECT a FROM t WHERE l = %u AND d=%d OR (a,%s) LIKE 'x%%' -- %s\n;  ";
        let query = Query::parse(text, Postgres).unwrap();
        assert_eq!(&*query.sql, "SELECT a FROM t WHERE l = $1 AND d=$2 OR (a,$3) LIKE 'x%'");
        assert_eq!(
            *query.parameters,
            [KeyComponent::Local, KeyComponent::Domain, KeyComponent::Whole]
        );
        assert_eq!(query.values("u@d"), Some(vec!["u", "d", "u@d"]));
        assert_eq!(query.values("d"), None);
        let query = Query::parse("SELECT a FROM t WHERE tld = %1 AND name = %2", Sqlite).unwrap();
        assert_eq!(query.values("u@far.test"), Some(vec!["test", "far"]));
        assert_eq!(query.values("u@test"), None);
        assert_eq!(sql(text, Mysql), "SELECT a FROM t WHERE l = ? AND d=? OR (a,?) LIKE 'x%'");
        assert_eq!(
            sql("SELECT /* %s */ 5 %% 2, %s::citext", Postgres),
            "SELECT   5 % 2, $1::citext"
        );
        assert_eq!(sql("SELECT f(%s) # it's\n", Mysql), "SELECT f(?)");
        assert_eq!(sql("SELECT a WHERE %s LIKE k", Sqlite), "SELECT a WHERE ? LIKE k");
        for text in [
            "SELECT a WHERE b LIKE 'x%%' AND k = %s",
            "SELECT a WHERE b LIKE 'a''b' ESCAPE '!' AND k = %s",
            "SELECT a WHERE (b LIKE 'x') = f(%s)",
            "SELECT f(b LIKE 'x', %s)",
        ] {
            assert!(sql(text, Sqlite).contains('?'), "{text}");
        }
        assert_eq!(sql("SELECT x FROM [a?b] WHERE k=%s", Sqlite), "SELECT x FROM [a?b] WHERE k=?");
        assert_eq!(sql("SELECT 'it''s' || %s", Sqlite), "SELECT 'it''s' || ?");
        assert_eq!(sql(r"SELECT 'a\'?', %s", Mysql), r"SELECT 'a\'?', ?");
        assert_eq!(sql(r"SELECT E'a\'$', '\', %s", Postgres), r"SELECT E'a\'$', '\', $1");
    }

    #[test]
    fn what_would_need_text_is_a_mistake() {
        for (text, flavour, message) in [
            ("SELECT 1", Postgres, "does not use the key"),
            ("SELECT '%%s'", Postgres, "does not use the key"),
            ("SELECT a FROM t WHERE k = '%s'", Postgres, "\"%s\" is in quotes"),
            ("SELECT a FROM t WHERE k LIKE '%s%%'", Mysql, "\"%s\" is in quotes"),
            ("SELECT a FROM t WHERE k = \"%u\"", Mysql, "\"%u\" is in quotes"),
            ("SELECT a FROM `%d` WHERE k = %s", Mysql, "\"%d\" is in quotes"),
            ("SELECT a FROM [%d] WHERE k = %s", Sqlite, "\"%d\" is in quotes"),
            ("SELECT '100%' WHERE k = %s", Sqlite, "a single percent sign"),
            ("SELECT a WHERE k LIKE %s", Mysql, "\"%s\" is in place of a pattern"),
            ("SELECT a WHERE k NOT ilike\n%u", Postgres, "\"%u\" is in place of a pattern"),
            ("SELECT a WHERE k REGEXP %s", Mysql, "\"%s\" is in place of a pattern"),
            ("SELECT a WHERE k GLOB %s", Sqlite, "\"%s\" is in place of a pattern"),
            ("SELECT a WHERE k SIMILAR TO %s", Postgres, "\"%s\" is in place of a pattern"),
            ("SELECT a WHERE k LIKE '%%' || %s", Sqlite, "\"%s\" is in place of a pattern"),
            (
                "SELECT a WHERE k LIKE concat(lower(%u), '%%')",
                Mysql,
                "\"%u\" is in place of a pattern",
            ),
            ("SELECT a WHERE k ~* %s", Postgres, "\"%s\" is in place of a pattern"),
            ("SELECT a WHERE k !~%s", Postgres, "\"%s\" is in place of a pattern"),
            ("SELECT a FROM %d WHERE k = %s", Postgres, "\"%d\" is not in place of a value"),
            ("SELECT a FROM t_%d WHERE k = %s", Postgres, "\"%d\" is not in place of a value"),
            ("SELECT a FROM %d_t WHERE k = %s", Postgres, "\"%d\" is not in place of a value"),
            ("SELECT a FROM s.%d WHERE k = %s", Postgres, "\"%d\" is not in place of a value"),
            ("SELECT a FROM t\nJOIN  %d ON 1", Postgres, "\"%d\" is not in place of a value"),
            ("SELECT a AS %u WHERE k = %s", Postgres, "\"%u\" is not in place of a value"),
            ("SELECT a FROM t ORDER BY %s", Postgres, "\"%s\" is not in place of a value"),
            ("SELECT %s%s", Postgres, "\"%s\" is not in place of a value"),
            ("SELECT a % 2 WHERE k = %s", Postgres, "\"% \" is not a key placeholder"),
            ("SELECT %S", Postgres, "\"%S\" is not a key placeholder"),
            ("SELECT a WHERE k = %", Postgres, "\"%\" is not a key placeholder"),
            ("SELECT a WHERE k = $1", Postgres, "\"$\" is a parameter"),
            ("SELECT $$it's$$, %s", Postgres, "\"$\" is a parameter"),
            ("SELECT a WHERE k = ?", Mysql, "\"?\" is a parameter"),
            ("SELECT a WHERE k = :k", Sqlite, "\":\" is a parameter"),
            ("SELECT a WHERE k = @k", Sqlite, "\"@\" is a parameter"),
            ("SELECT %s; DROP TABLE t", Sqlite, "after a semicolon"),
            ("SELECT %s, 'open", Postgres, "quote not closed"),
        ] {
            let mistake = Query::parse(text, flavour).unwrap_err();
            assert!(mistake.message.contains(message), "{text}: {mistake:?}");
        }
    }
}
