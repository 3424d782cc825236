//! Control commands executed by the node, not by its shards. A command is an `impl` for its type, and a line in the
//! list.

use crate::console::ConsoleLog;
use crate::node::Node;
use crate::orders::{Order, told};
use crate::problems::sentence;
use crate::reload::Reloads;
use crate::world::clock::wall_now;
use mta::commands::{
    NodeAnswer, NodeJob, NodeRequest, QueueResume, QueueSuspend, Reload, ServerStatus,
    SpoolSnapshot, TrustClock,
};
use mta::control::{ControlResponse, Status};
use std::sync::Arc;

/// The server, for node commands.
pub(crate) struct CommandContext<'a> {
    pub(crate) node: &'a Node,
    pub(crate) reloads: &'a mut Reloads,
    pub(crate) console: &'a Arc<ConsoleLog>,
}

/// The execution of a control command.
pub(super) trait Action {
    /// Executes the command and answers. Long work belongs on another thread: the next command waits for this one.
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer);
}

/// Dispatches commands.
macro_rules! actions {
    ($($command:ident),* $(,)?) => {
        impl CommandContext<'_> {
            pub(super) fn carry_out(&mut self, NodeJob { request, answer }: NodeJob) {
                match request {
                    $(NodeRequest::$command(command) => command.run(self, answer),)*
                }
            }
        }
    };
}

actions! {
    QueueSuspend,
    QueueResume,
    TrustClock,
    SpoolSnapshot,
    TableList,
    TableGet,
    TableFlush,
    Sources,
    ShapingList,
    ShapingLift,
    LoginList,
    LoginRevoke,
    LoginAllow,
    LoginBlocked,
    LoginUnblock,
    Reload,
    ServerStatus,
}

impl CommandContext<'_> {
    /// Executes an order, and answers when it is done.
    pub(super) fn give(&self, order: Order, answer: NodeAnswer) {
        let told = self.node.orders.give(order);
        tokio::spawn(async move { answer.told(told.await) });
    }
}

impl Action for QueueSuspend {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        server.give(Order::Suspend(self.since(wall_now())), answer);
    }
}

impl Action for QueueResume {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        server.give(Order::Resume(self.scope), answer);
    }
}

impl Action for TrustClock {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        answer.told(told(server.node.trust_clock(), server.console));
    }
}

impl Action for SpoolSnapshot {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        let linked = server.node.snapshot();
        tokio::spawn(async move { answer.told(linked.await) });
    }
}

impl Action for Reload {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        server.reloads.begin(Some(answer));
    }
}

impl Action for ServerStatus {
    fn run(self, server: &mut CommandContext<'_>, answer: NodeAnswer) {
        answer.items([ControlResponse::Status(status(server.node))]);
    }
}

/// The server's status, without that of the shards.
fn status(node: &Node) -> Status {
    let problem_list = node.problem_finder()();
    Status {
        version: super::VERSION.to_owned(),
        uptime_ms: node.started.elapsed().0 / 1_000,
        protocol: mta::control::PROTOCOL,
        messages: node.message_count(),
        suspensions: node.orders.suspended(),
        shards: Vec::new(),
        problems: problem_list.iter().map(sentence).collect(),
        problem_list,
    }
}
