//! `postrider queue`: what an operator may ask about queued mail.

mod moving;
mod scope;
mod selecting;

use super::ServerArgs;
use clap::{Args, Subcommand};
use mail::{MessageId, Wall};
use moving::MoveArgs;
use mta::control::ControlRequest;
use scope::ScopeArgs;
use selecting::{FilterArgs, SelectArgs};
use std::time::Duration;

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
  postrider queue retry --next-hop mx.example.org --older-than 2h
  postrider queue fail --recipient gone@example.org --reason 'account closed'
  postrider queue suspend --domain example.org --for 2h --reason 'they are moving'
  postrider queue suspend --tenant acme --provider google --reason 'asked to slow down'
  postrider queue move --campaign spring-2026 --to-pool warm --to-priority -3
  postrider queue summary")]
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
    /// Count what is queued by domain, next hop, tenant, provider, source, reason, age and more
    Summary(SummaryArgs),
    /// Show everything known about one message
    Show(OneArgs),
    /// Say what one message waits for, and until when
    Why(OneArgs),
    /// Try recipients now, whenever they were due; those on hold stay there
    Retry(ChangeArgs),
    /// Keep messages from being tried until they are released; they don't expire meanwhile
    ///
    /// What matches is the message as a whole. Holding it again changes the reason.
    Hold(HoldArgs),
    /// End a hold; what became too old meanwhile is tried once more
    Release(ChangeArgs),
    /// Remove recipients for good; nobody is told
    ///
    /// Of a message only the recipients that match are removed.
    Remove(ChangeArgs),
    /// Give recipients up now, and tell their senders
    ///
    /// Of a message only the recipients that match are given up; those that are being tried are
    /// left alone.
    Fail(FailArgs),
    /// Send messages by another route, from another pool, with another campaign or priority
    ///
    /// What matches is the message as a whole. It holds until it is undone or another move says
    /// otherwise, over restarts and reloads. Recipients that are being tried are left alone.
    Move(MoveArgs),
    /// Stop delivery of some mail, or of all, until it is resumed
    ///
    /// It stands for mail to come as well, survives restarts, and nothing expires meanwhile. What
    /// is being tried is finished. Of several options all must apply, such as a tenant's mail to
    /// one provider.
    Suspend(SuspendArgs),
    /// End a suspension
    Resume(ResumeArgs),
    /// Say that the clock is right, when the server doubts it, so that mail expires again
    TrustClock(ServerArgs),
}

/// `queue list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
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

/// `queue fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// What the sender is told.
    #[arg(long, value_name = "TEXT", default_value = "given up by an operator")]
    pub(crate) reason: String,
    /// The enhanced status code of the report (RFC 3463), which begins with 5.
    #[arg(long, value_name = "5.X.Y", default_value = "5.0.0")]
    pub(crate) status: String,
    /// Tell nobody. There are events all the same.
    #[arg(long)]
    pub(crate) silent: bool,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `queue summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Lines per table.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `queue suspend`.
#[derive(Debug, Args)]
pub(crate) struct SuspendArgs {
    /// What.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Why, for whoever looks at the queue later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// It ends by itself after this time, such as 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "until")]
    pub(crate) lasting: Option<Duration>,
    /// It ends by itself then, such as 2026-11-22T18:00:00.000Z.
    #[arg(long, value_name = "WHEN", value_parser = parse_wall)]
    pub(crate) until: Option<Wall>,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl SuspendArgs {
    fn request(&self) -> ControlRequest {
        let ends = self.lasting.map(|lasting| crate::world::clock::wall_now().after(lasting));
        ControlRequest::QueueSuspend {
            scope: self.scope.scope(),
            reason: self.reason.clone(),
            until: ends.or(self.until),
        }
    }
}

/// `queue resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// What.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl QueueCommand {
    /// The request to put on the control socket.
    #[must_use]
    pub(crate) fn request(&self) -> ControlRequest {
        match self {
            QueueCommand::List(list) => {
                ControlRequest::QueueList { filter: list.filter.filter(), limit: list.limit }
            }
            QueueCommand::Summary(summary) => {
                ControlRequest::QueueSummary { filter: summary.filter.filter(), top: summary.top }
            }
            QueueCommand::Fail(fail) => ControlRequest::QueueFail {
                select: fail.select.select(),
                status: Some(fail.status.clone()),
                reason: fail.reason.clone(),
                silent: fail.silent,
            },
            QueueCommand::Move(moving) => moving.request(),
            QueueCommand::Suspend(suspend) => suspend.request(),
            QueueCommand::Resume(resume) => {
                ControlRequest::QueueResume { scope: resume.scope.scope() }
            }
            QueueCommand::TrustClock(_) => ControlRequest::TrustClock,
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
            QueueCommand::Summary(summary) => &summary.server,
            QueueCommand::Fail(fail) => &fail.server,
            QueueCommand::Move(moving) => &moving.server,
            QueueCommand::Suspend(suspend) => &suspend.server,
            QueueCommand::Resume(resume) => &resume.server,
            QueueCommand::TrustClock(server) => server,
            QueueCommand::Retry(change)
            | QueueCommand::Release(change)
            | QueueCommand::Remove(change) => &change.server,
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    config::quantity::parse_duration(text).map_err(str::to_owned)
}

fn parse_wall(text: &str) -> Result<Wall, String> {
    mta::control::text::parse_wall(text)
        .ok_or_else(|| "a time looks like 2026-11-22T18:00:00.000Z".to_owned())
}

fn parse_id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|_| "an ID has 16 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use ::classes::ReplyClass;
    use clap::Parser;
    use mta::control::{Filter, RecipientState, Scope, Select};

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
            ..Filter::default()
        };
        assert_eq!(
            request("remove --domain example.org --sender <>"),
            ControlRequest::QueueRemove { select: Select::Filter(Box::new(filter)) }
        );
        let ControlRequest::QueueList { filter, limit } = request("list --state in-flight") else {
            panic!()
        };
        assert_eq!((filter.state, limit), (Some(RecipientState::InFlight), 1_000));
        let filter = Filter {
            next_hop: Some("mx.test".to_owned()),
            reason: Some("refused".to_owned()),
            older_than_ms: Some(7_200_000),
            ..Filter::default()
        };
        assert_eq!(
            request("retry --next-hop mx.test --failure refused --older-than 2h"),
            ControlRequest::QueueRetry { select: Select::Filter(Box::new(filter)) }
        );
        assert_eq!(
            request("fail --class unknown_recipient"),
            ControlRequest::QueueFail {
                select: Select::Filter(Box::new(Filter {
                    class: Some(ReplyClass::UnknownRecipient),
                    ..Filter::default()
                })),
                status: Some("5.0.0".to_owned()),
                reason: "given up by an operator".to_owned(),
                silent: false,
            }
        );
        assert_eq!(
            request("resume --route out"),
            ControlRequest::QueueResume {
                scope: Scope { route: Some("out".to_owned()), ..Scope::default() }
            }
        );
        let ControlRequest::QueueSuspend { scope, until, .. } =
            request("suspend --all --until 2026-11-22T18:00:00.000Z")
        else {
            panic!()
        };
        assert_eq!((scope, until), (Scope::default(), Some(Wall(1_795_370_400_000))));
        let ControlRequest::QueueSuspend { scope, .. } =
            request("suspend --tenant acme --provider google")
        else {
            panic!()
        };
        assert_eq!(scope.to_string(), "the tenant acme for the provider google");
        assert!(matches!(
            request("fail --provider google --silent"),
            ControlRequest::QueueFail { silent: true, .. }
        ));
    }

    #[test]
    fn a_move_says_what_and_where_to() {
        let ControlRequest::QueueMove { select, to, undo } =
            request("move --pool bulk --to-pool warm --to-priority -3")
        else {
            panic!()
        };
        let filter = Filter { pool: Some("bulk".to_owned()), ..Filter::default() };
        assert_eq!((select, undo), (Select::Filter(Box::new(filter)), false));
        assert_eq!(to.to_string(), "the pool warm, priority -3");
        let ControlRequest::QueueMove { select, to, undo } = request("move --all --undo") else {
            panic!()
        };
        assert!(select == Select::All && to.is_empty() && undo);
    }

    #[test]
    fn nothing_is_changed_that_was_not_named() {
        let parses = |line: &str| {
            let words = ["postrider", "queue"].into_iter().chain(line.split(' '));
            Cli::try_parse_from(words).is_ok()
        };
        for command in ["hold", "release", "retry", "remove", "fail"] {
            assert!(!parses(command), "{command}");
            assert!(!parses(&format!("{command} 00000000000000ab --all")), "{command}");
            assert!(!parses(&format!("{command} --domain a.test --all")), "{command}");
            assert!(!parses(&format!("{command} 00000000000000ab --older-than 2h")), "{command}");
            assert!(
                parses(&format!("{command} --younger-than 2h --client 192.0.2.1")),
                "{command}"
            );
        }
        for command in ["suspend", "resume"] {
            assert!(!parses(command) && !parses(&format!("{command} --all --domain a.test")));
            assert!(!parses(&format!("{command} --source ip-1 --tenant acme")));
            assert!(parses(&format!("{command} --source ip-1 --provider google")));
        }
        for wrong in ["--to-pool a", "--all", "--all --undo --to-pool a", "--all --to-priority 10"]
        {
            assert!(!parses(&format!("move {wrong}")), "{wrong}");
        }
    }
}
