//! Arguments of a program, with placeholders. The value of a placeholder is a part of one argument, whatever it
//! contains, and never the start of an option.

use crate::values::{self, ValueError, ValueNames};
use config::TagDelimiters;
use lookup::Entry;
use mail::{Class, EnhancedStatus, Failure, Mailbox, MessageId};
use mta::tables;

/// Postfix's name for the null sender (`null_sender` of pipe(8)).
const NULL_SENDER: &str = "MAILER-DAEMON";

/// The program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandTemplate {
    pub(super) program: String,
    arguments: Vec<Vec<ArgumentPiece>>,
    /// Characters that begin a tag.
    tags: TagDelimiters,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ArgumentPiece {
    Literal(String),
    Recipient,
    Local,
    User,
    Tag,
    Domain,
    Sender,
    Id,
    /// A value of the recipient's entry in a table.
    Value(String),
}

/// The facts that placeholders stand for.
pub(super) struct MessageFacts<'a> {
    pub(super) recipient: &'a Mailbox,
    /// `None` for a report.
    pub(super) sender: Option<&'a Mailbox>,
    pub(super) id: MessageId,
    pub(super) entry: Option<&'a Entry>,
}

/// Reason for which a recipient has no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArgumentError {
    /// A value of the recipient's entry is missing or unusable.
    Value(ValueError),
    /// The recipient would be an option.
    Recipient,
    /// The sender would be an option.
    Sender,
}

impl ArgumentError {
    /// The failure for the message. A table can be corrected; addresses stay as they are (RFC 3463 §3.2: X.1.3, X.1.7).
    pub(super) fn failure(&self) -> Failure {
        let (class, status, text) = match self {
            ArgumentError::Value(error) => {
                (Class::Transient, EnhancedStatus::new(4, 2, 0), error.to_string())
            }
            ArgumentError::Recipient => (
                Class::Permanent,
                EnhancedStatus::new(5, 1, 3),
                "the recipient starts with `-`, like an option".to_owned(),
            ),
            ArgumentError::Sender => (
                Class::Permanent,
                EnhancedStatus::new(5, 1, 7),
                "the sender starts with `-`, like an option".to_owned(),
            ),
        };
        Failure::local(class, status, text)
    }
}

impl CommandTemplate {
    /// Parses a command.
    ///
    /// # Errors
    /// Returns the index of the wrong argument and the remedy.
    pub(super) fn parse(
        command: &[String],
        names: &ValueNames<'_>,
        tags: TagDelimiters,
    ) -> Result<CommandTemplate, (usize, String)> {
        let Some((program, arguments)) = command.split_first() else {
            return Err((0, "name a program: command = [\"/usr/local/bin/post\"]".to_owned()));
        };
        if !program.starts_with('/') || program.ends_with('/') {
            return Err((0, "write the absolute path of a program, without a shell".to_owned()));
        }
        if program.contains(['{', '}']) {
            return Err((0, "the program has no placeholders: its arguments may".to_owned()));
        }
        if let Some(at) = command.iter().position(|argument| argument.contains('\0')) {
            return Err((at, "an argument contains no NUL".to_owned()));
        }
        let parse =
            |(at, text): (usize, &String)| pieces_of(text, names).map_err(|help| (at + 1, help));
        let arguments = arguments.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(CommandTemplate { program: program.clone(), arguments, tags })
    }

    /// The parts of each argument, the program first. `None` is a placeholder.
    pub(super) fn pattern(&self) -> Vec<Vec<Option<String>>> {
        let piece = |piece: &ArgumentPiece| match piece {
            ArgumentPiece::Literal(text) => Some(text.clone()),
            _ => None,
        };
        let arguments = self.arguments.iter().map(|argument| argument.iter().map(piece).collect());
        std::iter::once(vec![Some(self.program.clone())]).chain(arguments).collect()
    }

    /// Returns true if an argument has a value of the recipient's entry.
    pub(super) fn has_values(&self) -> bool {
        let is_value = |piece: &ArgumentPiece| matches!(piece, ArgumentPiece::Value(_));
        self.arguments.iter().flatten().any(is_value)
    }

    /// Returns true if the recipient would be an option of the program.
    pub(super) fn is_option(&self, recipient: &Mailbox) -> bool {
        let facts = MessageFacts { recipient, sender: None, id: MessageId(0), entry: None };
        let first = |argument: &Vec<ArgumentPiece>| argument.first().cloned();
        self.arguments.iter().filter_map(first).any(|piece| {
            let is_sure = !matches!(piece, ArgumentPiece::Value(_) | ArgumentPiece::Literal(_));
            is_sure && facts.value(&piece, &self.tags).is_ok_and(|value| value.starts_with('-'))
        })
    }

    /// The command for a message.
    ///
    /// # Errors
    /// A value is missing, or would be an option.
    pub(super) fn fill(&self, facts: &MessageFacts<'_>) -> Result<Vec<String>, ArgumentError> {
        let mut command = vec![self.program.clone()];
        for pieces in &self.arguments {
            let mut argument = String::new();
            for piece in pieces {
                let value = facts.value(piece, &self.tags)?;
                let is_start = argument.is_empty() && value.starts_with('-');
                match piece {
                    ArgumentPiece::Literal(_) => {}
                    _ if value.contains('\0') => return Err(ArgumentError::Recipient),
                    _ if !is_start => {}
                    ArgumentPiece::Value(name) => {
                        let why = "starts with `-`, like an option";
                        return Err(ArgumentError::Value(ValueError::bad(name, why)));
                    }
                    ArgumentPiece::Sender => return Err(ArgumentError::Sender),
                    _ => return Err(ArgumentError::Recipient),
                }
                argument.push_str(&value);
            }
            command.push(argument);
        }
        Ok(command)
    }
}

impl MessageFacts<'_> {
    fn value(&self, piece: &ArgumentPiece, tags: &TagDelimiters) -> Result<String, ArgumentError> {
        let local = || self.recipient.local_unquoted().to_lowercase();
        Ok(match piece {
            ArgumentPiece::Literal(text) => text.clone(),
            ArgumentPiece::Recipient => self.recipient.to_string(),
            ArgumentPiece::Local => local(),
            ArgumentPiece::User => {
                let local = local();
                tags.split(&local).map_or(&*local, |(user, ..)| user).to_owned()
            }
            ArgumentPiece::Tag => {
                tags.split(&local()).map(|(.., tag)| tag.to_owned()).unwrap_or_default()
            }
            ArgumentPiece::Domain => {
                let domain = self.recipient.domain();
                domain.to_ascii().unwrap_or_else(|_| domain.as_str().to_owned()).to_lowercase()
            }
            ArgumentPiece::Sender => {
                self.sender.map_or_else(|| NULL_SENDER.to_owned(), Mailbox::to_string)
            }
            ArgumentPiece::Id => self.id.to_string(),
            ArgumentPiece::Value(name) => {
                let values = |name: &str| match self.entry {
                    Some(entry) => tables::values_of(entry, name),
                    None => &[][..],
                };
                values::one(&values, name).map_err(ArgumentError::Value)?.to_owned()
            }
        })
    }
}

/// The pieces of one argument. `{{` and `}}` are braces.
fn pieces_of(text: &str, names: &ValueNames<'_>) -> Result<Vec<ArgumentPiece>, String> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            literal.push_str(&rest[..1]);
            rest = after;
            continue;
        }
        let close = rest.find('}').map_or(rest.len(), |at| at + 1);
        let (placeholder, after) = rest.split_at(close);
        let name = placeholder.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        if !literal.is_empty() {
            pieces.push(ArgumentPiece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(match name {
            Some("recipient") => ArgumentPiece::Recipient,
            Some("local") => ArgumentPiece::Local,
            Some("user") => ArgumentPiece::User,
            Some("tag") => ArgumentPiece::Tag,
            Some("domain") => ArgumentPiece::Domain,
            Some("sender") => ArgumentPiece::Sender,
            Some("id") => ArgumentPiece::Id,
            Some(name) if names.has(name) => ArgumentPiece::Value(name.to_owned()),
            _ => {
                return Err(format!(
                    "unknown placeholder `{placeholder}`: use {{recipient}}, {{local}}, {{user}}, \
                     {{tag}}, {{domain}}, {{sender}} and {{id}}, or `{{{{` for a brace; {names}"
                ));
            }
        });
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(ArgumentPiece::Literal(literal));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(
        command: &[&str],
        recipient: &str,
        sender: Option<&str>,
    ) -> Result<Vec<String>, ArgumentError> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let (names, tags) = (ValueNames::some(&["box"]), TagDelimiters::parse("+-").unwrap());
        let template = CommandTemplate::parse(&command, &names, tags).unwrap();
        let recipient = Mailbox::parse(recipient, true).unwrap();
        let sender = sender.map(|sender| Mailbox::parse(sender, true).unwrap());
        let entry = Entry::text("value");
        let id = MessageId(0);
        template.fill(&MessageFacts {
            recipient: &recipient,
            sender: sender.as_ref(),
            id,
            entry: Some(&entry),
        })
    }

    #[test]
    fn each_placeholder_is_in_one_argument() {
        let command = [
            "/bin/post",
            "{recipient}",
            "{local}",
            "{user}",
            "{tag}",
            "{domain}",
            "--from={sender}",
            "{{x}}",
            "",
        ];
        let all = filled(&command, "Jo+A$b@Example.org", Some("me@x.test")).unwrap();
        assert_eq!(
            all,
            [
                "/bin/post",
                "Jo+A$b@Example.org",
                "jo+a$b",
                "jo",
                "a$b",
                "example.org",
                "--from=me@x.test",
                "{x}",
                "",
            ]
        );
        let tagged = |to| filled(&["/p", "{user}", "{tag}"], to, None).unwrap()[1..].join(" ");
        assert_eq!(tagged("jo-a+b@x.test"), "jo a+b");
        assert_eq!((tagged("jo@x.test"), tagged("+jo@x.test")), ("jo ".into(), "+jo ".into()));
        let hostile = filled(&["/bin/post", "{local}"], "\"a b; rm -rf *\"@x.test", None).unwrap();
        assert_eq!(hostile, ["/bin/post", "a b; rm -rf *"]);
        assert_eq!(filled(&["/p", "{sender}"], "a@b.test", None).unwrap()[1], "MAILER-DAEMON");
    }

    #[test]
    fn addresses_are_no_options() {
        let of = |word: &str, recipient, sender| filled(&["/p", word], recipient, sender);
        assert_eq!(of("{local}", "-f@x.test", None), Err(ArgumentError::Recipient));
        assert_eq!(of("{tag}", "jo+-f@x.test", None), Err(ArgumentError::Recipient));
        assert_eq!(of("{tag}{local}", "-f@x.test", None), Err(ArgumentError::Recipient));
        assert_eq!(of("{sender}", "a@x.test", Some("-f@x.test")), Err(ArgumentError::Sender));
        assert!(of("--to={local}", "-f@x.test", None).is_ok());
        let template = |word: &str| {
            CommandTemplate::parse(
                &["/p".to_owned(), word.to_owned()],
                &ValueNames::default(),
                TagDelimiters::default(),
            )
        };
        let option = Mailbox::parse("-f@x.test", true).unwrap();
        assert!(template("{local}").unwrap().is_option(&option));
        assert!(!template("--to={local}").unwrap().is_option(&option));
    }

    #[test]
    fn wrong_commands_are_refused_with_a_remedy() {
        for (command, at, remedy) in [
            (&["post"][..], 0, "absolute path"),
            (&[], 0, "name a program"),
            (&["/bin/"], 0, "absolute path"),
            (&["/bin/{local}"], 0, "no placeholders"),
            (&["/p", "a\0b"], 1, "no NUL"),
            (&["/p", "x", "{usr}"], 2, "unknown placeholder `{usr}`"),
            (&["/p", "{local"], 1, "unknown placeholder `{local`"),
            (&["/p", "}"], 1, "unknown placeholder `}`"),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let (place, help) =
                CommandTemplate::parse(&command, &ValueNames::default(), TagDelimiters::default())
                    .unwrap_err();
            assert!(place == at && help.contains(remedy), "{command:?}: {place}: {help}");
        }
    }
}
