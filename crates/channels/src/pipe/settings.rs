//! Settings of a `pipe` route.

use super::arguments::{ArgumentError, CommandTemplate, MessageFacts};
use crate::values::{EntryTable, ValueNames};
use config::quantity::{DurationText, write_duration};
use config::{ChannelSection, Destination, Explainer, Reader, RouteLimits, Settings, SharedLimits};
use mail::{Mailbox, Refusal};
use mta::seams::ProgramAccount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Run a program on this server for each recipient, as Postfix's pipe(8) does. The message is its standard input, with
/// LF at line ends, and starts with `Return-Path` and `Delivered-To`. Its exit status decides: 0 is delivered, 75 and 71
/// are deferred, the other ones of sysexits.h are bounced with their enhanced status, and so is any other status
/// (5.3.0). Output that starts with an enhanced status (`4.2.2 …`) overrides the exit status. The first line of output,
/// up to 300 bytes, is in the report. See `docs/hosting.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PipeText {
    /// The program's absolute path, and its arguments. No shell is used. Required.
    ///
    /// Placeholders in arguments: `{recipient}`, `{sender}` (`MAILER-DAEMON` for a null sender), `{id}` of the message,
    /// and in lower case `{local}`, `{user}` and `{tag}` (the parts of `{local}`, see `recipient_delimiter`) and `{domain}`.
    /// Any other name is a value of the recipient's entry in the table of `recipients`, as in `maildir`. `{{` is a
    /// brace. A value never becomes several arguments. If it would start an argument with `-`, the recipient is
    /// rejected (5.1.3), or the message bounced (5.1.7 for a sender).
    command: Vec<String>,
    /// User to run the program as, by name or number. Only root can choose one, and must: root itself runs no program.
    /// Default: the user that the server runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Group to run the program as. Default: the group of `user`, or the server's. The program has no other groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// Maximum duration of a run, for example `"5m"`. Then the program and its process group are killed, and the
    /// message is deferred (4.3.0).
    timeout: DurationText,
    /// Maximum number of programs of this route at the same time, over all shards.
    #[schemars(range(min = 1, max = 1_000))]
    max_processes: u32,
}

impl Default for PipeText {
    fn default() -> PipeText {
        PipeText {
            command: Vec::new(),
            user: None,
            group: None,
            timeout: "1000s".into(),
            max_processes: 20,
        }
    }
}

impl ChannelSection for PipeText {
    const KEY: &'static str = "pipe";
    const SUMMARY: &'static str = "Run a program on this server for each recipient.";
    const EXAMPLE: &'static str =
        "pipe = { command = [\"/usr/local/bin/post\", \"{recipient}\"], user = \"list\" }";
    type Text = PipeText;

    fn read(text: PipeText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let table = reader.recipients().cloned();
        let timeout = reader.timeout("timeout", &text.timeout);
        let account = |reader: &mut Reader<'_, '_>, key: &str, name: &Option<String>| {
            if name.as_ref().is_some_and(String::is_empty) {
                reader.error(key, "empty name", "name a user or group of this system");
            }
            name.as_deref().map(Arc::from)
        };
        let user = account(reader, "user", &text.user);
        let group = account(reader, "group", &text.group);
        let (names, tags) = (ValueNames::of(table.as_deref()), reader.tag_delimiters());
        let command = match CommandTemplate::parse(&text.command, &names, tags) {
            Ok(command) => command,
            Err((at, help)) => {
                let key = match text.command.is_empty() {
                    true if reader.is_written("command") => "command".to_owned(),
                    true => String::new(),
                    false => format!("command[{at}]"),
                };
                reader.error(&key, "not a command", &help);
                return None;
            }
        };
        let entries = table.filter(|_| command.has_values()).map(EntryTable);
        Some(Arc::new(Pipe {
            command,
            account: ProgramAccount { user, group },
            timeout,
            max_processes: text.max_processes,
            entries,
        }))
    }
}

/// A program for each message.
#[derive(Debug, PartialEq)]
pub(crate) struct Pipe {
    command: CommandTemplate,
    account: ProgramAccount,
    timeout: Duration,
    max_processes: u32,
    /// The table of recipients' entries, if arguments refer to values.
    entries: Option<EntryTable>,
}

impl Pipe {
    /// The file name of the program, for reports.
    pub(super) fn name(&self) -> &str {
        self.program().rsplit('/').next().unwrap_or_default()
    }

    /// The program's path.
    pub(crate) fn program(&self) -> &str {
        &self.command.program
    }

    /// The parts of each argument, the program first. `None` is a placeholder.
    pub(crate) fn pattern(&self) -> Vec<Vec<Option<String>>> {
        self.command.pattern()
    }

    pub(crate) fn account(&self) -> &ProgramAccount {
        &self.account
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn entries(&self) -> Option<&EntryTable> {
        self.entries.as_ref()
    }

    /// The command for a message.
    ///
    /// # Errors
    /// A value is missing, or would be an option.
    pub(super) fn command_for(
        &self,
        facts: &MessageFacts<'_>,
    ) -> Result<Vec<String>, ArgumentError> {
        self.command.fill(facts)
    }
}

static NO_OPTION: Refusal = Refusal::permanent((1, 3), "Address starts with a hyphen");

impl Settings for Pipe {
    fn key(&self) -> &'static str {
        PipeText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here(self.program())
    }

    fn limits(&self) -> RouteLimits {
        let shared = SharedLimits { connections_max: self.max_processes, messages_per_second: 0.0 };
        RouteLimits { shared: Some(shared), ..RouteLimits::default() }
    }

    fn refusal(&self, recipient: &Mailbox, _: bool) -> Option<&'static Refusal> {
        self.command.is_option(recipient).then_some(&NO_OPTION)
    }

    fn explain_destination(&self, _: &Mailbox, explainer: &mut Explainer<'_>) {
        explainer.own_key("command", self.program().to_owned());
    }

    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        explainer.own_key("timeout", write_duration(self.timeout));
        explainer.own_limit("max_processes", self.max_processes);
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Pipe>() == Some(self)
    }
}

/// A route with this command, for tests of other modules.
#[cfg(test)]
pub(super) fn pipe_for_tests(command: &[&str]) -> Pipe {
    let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    let (names, tags) = (ValueNames::default(), config::TagDelimiters::default());
    Pipe {
        command: CommandTemplate::parse(&command, &names, tags).unwrap(),
        account: ProgramAccount::default(),
        timeout: Duration::from_secs(1_000),
        max_processes: 20,
        entries: None,
    }
}
