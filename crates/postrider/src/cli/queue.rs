//! `postrider queue`: what an operator may ask about queued mail.

use super::ServerArgs;
use clap::{Args, Subcommand, ValueEnum};
use mail::MessageId;
use mta::control::{ControlRequest, Filter, RecipientState, Select};

/// `postrider queue`.
#[derive(Debug, Args)]
#[command(after_help = "\
A message is named by the ID that the server gave in its 250 reply; it also stands in the
message's Received field and in every event.

Exit codes:
  0  done
  1  no such message, nothing matched, or the server could not do it
  2  the command line or the configuration is wrong
  3  no server answers at the control socket

Examples:
  postrider queue list --domain example.org
  postrider queue why 000100000000a3f7
  postrider queue hold --sender news@example.org --reason 'asked by marketing'
  postrider queue retry --domain example.org")]
pub(crate) struct QueueArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// What to do with the queue.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queued messages, oldest first
    List(ListArgs),
    /// Show everything known about one message
    Show(OneArgs),
    /// Say what one message waits for, and until when
    Why(OneArgs),
    /// Try messages now, whenever they were due; those on hold stay there
    Retry(ChangeArgs),
    /// Keep messages from being tried until they are released
    Hold(HoldArgs),
    /// End a hold
    Release(ChangeArgs),
    /// Remove messages for good; nobody is told
    Remove(ChangeArgs),
}

/// `queue list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only messages with a waiting recipient in this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Only messages from this sender; `<>` for reports.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sender: Option<String>,
    /// Only messages with a recipient in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateArg>,
    /// At most this many messages.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(mta::control::ITEMS_MAX)))]
    pub(crate) limit: u32,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// One message.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: MessageId,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// A change to some messages.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `queue hold`.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Why, for whoever looks at the queue later.
    #[arg(long, value_name = "TEXT", default_value = "held by an operator")]
    pub(crate) reason: String,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Which messages a change is about. There is no default: "all" must be said.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct SelectArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id, conflicts_with_all = ["domain", "sender", "all"])]
    pub(crate) id: Option<MessageId>,
    /// Messages with a waiting recipient in this domain; with --sender both must match.
    #[arg(long, value_name = "DOMAIN", conflicts_with = "all")]
    pub(crate) domain: Option<String>,
    /// Messages from this sender; `<>` for reports.
    #[arg(long, value_name = "ADDR", conflicts_with = "all")]
    pub(crate) sender: Option<String>,
    /// All messages.
    #[arg(long)]
    pub(crate) all: bool,
}

/// States of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    /// Waits for its time, or for its route to be found
    Scheduled,
    /// May go, and waits for its turn
    Ready,
    /// Is being tried
    InFlight,
    /// Waits for an operator
    Held,
    /// Was given up, and the report about it waits for room in the spool
    Unreported,
}

impl From<StateArg> for RecipientState {
    fn from(state: StateArg) -> RecipientState {
        match state {
            StateArg::Scheduled => RecipientState::Scheduled,
            StateArg::Ready => RecipientState::Ready,
            StateArg::InFlight => RecipientState::InFlight,
            StateArg::Held => RecipientState::Held,
            StateArg::Unreported => RecipientState::Unreported,
        }
    }
}

impl QueueCommand {
    /// The request to put on the control socket.
    #[must_use]
    pub(crate) fn request(&self) -> ControlRequest {
        match self {
            QueueCommand::List(list) => ControlRequest::QueueList {
                filter: Filter {
                    domain: list.domain.clone(),
                    sender: list.sender.as_deref().map(reverse_path),
                    state: list.state.map(RecipientState::from),
                },
                limit: list.limit,
            },
            QueueCommand::Show(one) => ControlRequest::QueueShow { id: one.id },
            QueueCommand::Why(one) => ControlRequest::QueueWhy { id: one.id },
            QueueCommand::Retry(change) => {
                ControlRequest::QueueRetry { select: change.select.select() }
            }
            QueueCommand::Hold(hold) => ControlRequest::QueueHold {
                select: hold.select.select(),
                reason: hold.reason.clone(),
            },
            QueueCommand::Release(change) => {
                ControlRequest::QueueRelease { select: change.select.select() }
            }
            QueueCommand::Remove(change) => {
                ControlRequest::QueueRemove { select: change.select.select() }
            }
        }
    }

    /// How the server is reached.
    #[must_use]
    pub(crate) fn server(&self) -> &ServerArgs {
        match self {
            QueueCommand::List(list) => &list.server,
            QueueCommand::Show(one) | QueueCommand::Why(one) => &one.server,
            QueueCommand::Hold(hold) => &hold.server,
            QueueCommand::Retry(change)
            | QueueCommand::Release(change)
            | QueueCommand::Remove(change) => &change.server,
        }
    }
}

impl SelectArgs {
    fn select(&self) -> Select {
        match self.id {
            Some(id) => Select::Id(id),
            None if self.all => Select::All,
            None => Select::Filter(Filter {
                domain: self.domain.clone(),
                sender: self.sender.as_deref().map(reverse_path),
                state: None,
            }),
        }
    }
}

/// A sender as it is written, with or without angle brackets.
fn reverse_path(text: &str) -> String {
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    bare.to_owned()
}

fn parse_id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|_| "an ID has 16 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn request(line: &str) -> ControlRequest {
        let words = ["postrider", "queue"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).unwrap().command {
            Command::Queue(queue) => queue.command.request(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_become_requests() {
        let id = MessageId(0xab);
        assert_eq!(request("show 00000000000000ab"), ControlRequest::QueueShow { id });
        assert_eq!(request("why 00000000000000AB"), ControlRequest::QueueWhy { id });
        assert_eq!(
            request("retry 00000000000000ab"),
            ControlRequest::QueueRetry { select: Select::Id(id) }
        );
        assert_eq!(request("release --all"), ControlRequest::QueueRelease { select: Select::All });
        let filter = Filter {
            domain: Some("example.org".to_owned()),
            sender: Some(String::new()),
            state: None,
        };
        assert_eq!(
            request("remove --domain example.org --sender <>"),
            ControlRequest::QueueRemove { select: Select::Filter(filter) }
        );
        let ControlRequest::QueueList { filter, limit } = request("list --state in-flight") else {
            panic!()
        };
        assert_eq!((filter.state, limit), (Some(RecipientState::InFlight), 1_000));
    }
}
