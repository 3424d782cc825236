//! Arguments of `postrider queue`, and the control requests made from them.

mod changing;
mod selecting;
mod suspending;

use super::ServerArgs;
use changing::{
    FailArgs, HoldArgs, ListArgs, MoveArgs, ReleaseArgs, RemoveArgs, RetryArgs, ShowArgs,
    SummaryArgs, WhyArgs,
};
use clap::{Args, Subcommand};
use mta::commands::ControlRequest;
use mta::control::Select;
pub(super) use selecting::parse_id;
use std::path::Path;
use suspending::{ResumeArgs, SuspendArgs, TrustClockArgs};

/// `postrider queue`.
#[derive(Debug, Args)]
#[command(after_help = "\
A message is named by the ID that the server gave in its 250 reply; it also stands in the
message's Received field and in every event.

Exit codes:
  0  done
  1  message not found, no match, or the server failed
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
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// The arguments of a queue command.
trait ControlCommandArgs {
    /// The request for the control socket.
    fn request(&self) -> ControlRequest;
}

/// The arguments of a queue command, with the server's control socket.
#[derive(Debug, Args)]
pub(crate) struct QueueCommandArgs<A: Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    server: ServerArgs,
}

/// Generates the subcommands from their names, help and arguments.
macro_rules! commands {
    ($($(#[$help:meta])* $name:ident($args:ty),)*) => {
        /// Commands of `postrider queue`.
        #[derive(Debug, Subcommand)]
        pub(crate) enum QueueCommand {
            $($(#[$help])* $name(QueueCommandArgs<$args>),)*
        }

        impl QueueCommand {
            /// The request for the control socket, and the server's address.
            #[must_use]
            pub(crate) fn ask(&self) -> (ControlRequest, &ServerArgs) {
                match self {
                    $(QueueCommand::$name(asked) => (asked.args.request(), &asked.server),)*
                }
            }
        }
    };
}

impl QueueCommand {
    /// Returns true if dialogues are printed.
    #[must_use]
    pub(crate) fn shows_dialogues(&self) -> bool {
        matches!(self, QueueCommand::Why(why) if why.args.dialogue)
    }

    /// The selection of a release, and the event log that names the recipients to remove first.
    #[must_use]
    pub(crate) fn released_but(&self) -> Option<(Select, &Path, &ServerArgs)> {
        let QueueCommand::Release(release) = self else { return None };
        let events = release.args.not_in.as_deref()?;
        Some((release.args.select.select(), events, &release.server))
    }

    /// Returns true if long texts are printed in full.
    #[must_use]
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, QueueCommand::List(list) if list.args.wide)
    }
}

commands! {
    /// List queued messages, oldest first
    List(ListArgs),
    /// Count queued recipients by domain, next hop, tenant, provider, source, reason, age and more
    Summary(SummaryArgs),
    /// Show all details of one message
    Show(ShowArgs),
    /// Show the conditions that one message waits for, and until when
    Why(WhyArgs),
    /// Make recipients due for delivery now; recipients on hold stay on hold
    Retry(RetryArgs),
    /// Hold messages until they are released; they do not expire on hold
    ///
    /// Holds whole messages, even if only some of the recipients match. Holding a message again replaces the reason.
    Hold(HoldArgs),
    /// Release messages from hold; a message past its maximum age gets one more delivery attempt
    Release(ReleaseArgs),
    /// Remove recipients from the queue without a bounce
    ///
    /// Removes only the recipients of a message that match. This cannot be undone.
    Remove(RemoveArgs),
    /// Fail recipients now, and send bounces to their senders
    ///
    /// Fails only the recipients of a message that match. Recipients in flight are skipped.
    Fail(FailArgs),
    /// Change the route, pool, campaign or priority of messages
    ///
    /// Moves whole messages, even if only some of the recipients match. A move stays in force over restarts and reloads
    /// until it is undone or replaced by another move. Recipients in flight are skipped.
    Move(MoveArgs),
    /// Suspend delivery of some or all mail until it is resumed
    ///
    /// Also applies to mail accepted later, survives restarts, and suspended mail does not expire. Delivery attempts in
    /// progress are finished. If several options are given, all must match, for example a tenant's mail to one
    /// provider.
    Suspend(SuspendArgs),
    /// End a suspension
    Resume(ResumeArgs),
    /// Confirm a clock that the server distrusts, so that mail expires again
    TrustClock(TrustClockArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use ::classes::ReplyClass;
    use clap::Parser;
    use mail::{MessageId, Wall};
    use mta::commands::{
        QueueFail, QueueList, QueueMove, QueueRelease, QueueRemove, QueueResume, QueueRetry,
        QueueShow, QueueSuspend, QueueWhy,
    };
    use mta::control::{Filter, RecipientState, Scope};

    fn request(line: &str) -> ControlRequest {
        let words = ["postrider", "queue"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).unwrap().command {
            Command::Queue(queue) => queue.command.ask().0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_become_requests() {
        let id = MessageId(0xab);
        assert_eq!(request("show 00000000000000ab"), ControlRequest::QueueShow(QueueShow { id }));
        assert_eq!(request("why 00000000000000AB"), ControlRequest::QueueWhy(QueueWhy { id }));
        assert_eq!(
            request("retry 00000000000000ab"),
            ControlRequest::QueueRetry(QueueRetry { select: Select::Id(id) })
        );
        assert_eq!(
            request("release --all"),
            ControlRequest::QueueRelease(QueueRelease { select: Select::All })
        );
        let filter = Filter {
            domain: Some("example.org".to_owned()),
            sender: Some(String::new()),
            ..Filter::default()
        };
        assert_eq!(
            request("remove --domain example.org --sender <>"),
            ControlRequest::QueueRemove(QueueRemove { select: Select::Filter(Box::new(filter)) })
        );
        let ControlRequest::QueueList(QueueList { filter, limit }) =
            request("list --state in-flight")
        else {
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
            ControlRequest::QueueRetry(QueueRetry { select: Select::Filter(Box::new(filter)) })
        );
        assert_eq!(
            request("fail --class unknown_recipient"),
            ControlRequest::QueueFail(QueueFail {
                select: Select::Filter(Box::new(Filter {
                    class: Some(ReplyClass::UnknownRecipient),
                    ..Filter::default()
                })),
                status: Some("5.0.0".to_owned()),
                reason: "failed by an operator".to_owned(),
                silent: false,
            })
        );
    }

    #[test]
    fn scopes_become_requests() {
        assert_eq!(
            request("resume --route out"),
            ControlRequest::QueueResume(QueueResume {
                scope: Scope { route: Some("out".to_owned()), ..Scope::default() }
            })
        );
        let ControlRequest::QueueSuspend(QueueSuspend { scope, until, .. }) =
            request("suspend --all --until 2026-11-22T18:00:00.000Z")
        else {
            panic!()
        };
        assert_eq!((scope, until), (Scope::default(), Some(Wall(1_795_370_400_000))));
        let ControlRequest::QueueSuspend(QueueSuspend { scope, .. }) =
            request("suspend --tenant acme --provider google")
        else {
            panic!()
        };
        assert_eq!(scope.to_string(), "the tenant acme for the provider google");
        assert!(matches!(
            request("fail --provider google --silent"),
            ControlRequest::QueueFail(QueueFail { silent: true, .. })
        ));
    }

    #[test]
    fn a_move_says_what_and_where_to() {
        let ControlRequest::QueueMove(QueueMove { select, to, undo }) =
            request("move --pool bulk --to-pool warm --to-priority -3")
        else {
            panic!()
        };
        let filter = Filter { pool: Some("bulk".to_owned()), ..Filter::default() };
        assert_eq!((select, undo), (Select::Filter(Box::new(filter)), false));
        assert_eq!(to.to_string(), "the pool warm, priority -3");
        let ControlRequest::QueueMove(QueueMove { select, to, undo }) =
            request("move --all --undo")
        else {
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
