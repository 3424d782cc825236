//! Who may say what: limits of a listener, relay decisions, refusals in the log.

use crate::clients::SessionCounts;
use crate::config::{self, Config, Listener};
use crate::event::{Client, Event, Kind, Refusal};
use crate::seams::{Time, World};
use crate::shard::Shard;
use mail::{Recipient, Reply};
use smtp::server::{BareNewline, MailCommand, Nul, ServerConfig};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// A listener's configuration in the form that its sessions need.
#[derive(Debug)]
pub(crate) struct ListenerRules {
    pub(crate) name: Arc<str>,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) hops_max: usize,
    pub(crate) listener: Arc<Listener>,
}

impl ListenerRules {
    /// What `listener` of `config` asks of its sessions.
    pub(crate) fn new(config: &Config, listener: &Arc<Listener>) -> ListenerRules {
        ListenerRules {
            name: Arc::clone(&listener.name),
            server: Arc::new(server_config(config, listener)),
            hops_max: listener.max_hops as usize,
            listener: Arc::clone(listener),
        }
    }
}

fn server_config(config: &Config, listener: &Listener) -> ServerConfig {
    ServerConfig {
        hostname: config.hostname.to_string(),
        banner: listener.banner.to_string(),
        message_bytes_max: listener.max_message_bytes,
        recipients_max: listener.max_recipients as usize,
        command_line_bytes_max: listener.max_command_bytes as usize,
        content_line_bytes_max: listener.max_line_bytes,
        commands_max: listener.max_commands,
        errors_max: listener.max_errors,
        messages_max: listener.max_messages,
        command_timeout: listener.command_timeout,
        content_timeout: listener.content_timeout,
        transfer_timeout: listener.transfer_timeout,
        session_timeout: listener.session_timeout,
        starttls: false,
        chunking: listener.chunking,
        pipelining: listener.pipelining,
        smtputf8: listener.smtputf8,
        dsn: listener.dsn,
        bare_newline: match listener.bare_newline {
            config::BareNewline::Reject => BareNewline::Reject,
            config::BareNewline::Normalize => BareNewline::Normalize,
        },
        nul: match listener.nul {
            config::Nul::Reject => Nul::Reject,
            config::Nul::Strip => Nul::Strip,
            config::Nul::Keep => Nul::Keep,
        },
        lmtp: false,
    }
}

/// Counts a session of one client address at one listener while it lives.
pub(super) struct ClientCount<W: World> {
    shard: Rc<Shard<W>>,
    /// The index of the socket.
    listener: usize,
    ip: IpAddr,
    /// When it began.
    at_start: SessionCounts,
}

impl<W: World> ClientCount<W> {
    pub(super) fn enter(shard: &Rc<Shard<W>>, listener: usize, ip: IpAddr) -> ClientCount<W> {
        let at_start = shard.shared.clients.enter(listener, ip);
        ClientCount { shard: Rc::clone(shard), listener, ip, at_start }
    }
}

impl<W: World> Drop for ClientCount<W> {
    fn drop(&mut self) {
        self.shard.shared.clients.leave(self.listener, self.ip);
    }
}

/// Whether a new session may proceed.
///
/// # Errors
/// The 421 that it is turned away with.
pub(super) fn admit<W: World>(
    shard: &Rc<Shard<W>>,
    rules: &ListenerRules,
    count: &ClientCount<W>,
) -> Result<(), Reply> {
    // RFC 5321 §4.2.2: the text of 421 begins with the host's name.
    let turned_away =
        |status, why| Err(Reply::new(421, status, format!("{} {why}", rules.server.hostname)));
    if shard.stopping.until().is_some() {
        return turned_away((4, 3, 2), "The server is shutting down");
    }
    let sessions = shard.shared.session_count();
    if over(count.at_start.listener, rules.listener.max_sessions)
        || sessions > shard.shared.sessions_max
    {
        return turned_away((4, 3, 2), "Too many sessions; try again later");
    }
    if over(count.at_start.address, rules.listener.max_sessions_per_address) {
        return turned_away((4, 7, 0), "Too many sessions from your address");
    }
    Ok(())
}

/// 0 is no limit.
fn over(count: u32, max: u32) -> bool {
    max > 0 && count > max
}

/// Whether the reverse-path may send at all. The spool's state is looked at here already, so that
/// a client learns early that it is in vain.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn decide_mail<W: World>(
    shard: &Rc<Shard<W>>,
    _rules: &ListenerRules,
    _peer: SocketAddr,
    _command: &MailCommand,
) -> Result<(), Reply> {
    if shard.settles.is_poisoned() {
        shard.metrics.refused_mail.inc();
        return Err(Reply::new(451, (4, 3, 0), "The spool cannot write; try again later"));
    }
    Ok(())
}

/// Whether this client may send to this recipient.
///
/// # Errors
/// The reply that refuses it.
pub(super) fn decide_rcpt<W: World>(
    shard: &Rc<Shard<W>>,
    rules: &ListenerRules,
    peer: SocketAddr,
    recipient: &Recipient,
) -> Result<(), Reply> {
    let active = shard.active();
    let decision = active.config.decide(&rules.listener, Some(peer.ip()), &recipient.mailbox);
    let Some(reply) = decision.refusal() else { return Ok(()) };
    shard.metrics.refused_rcpt.inc();
    let client = Arc::new(super::session::client_of(peer, rules, "", ""));
    let refused = Box::from(recipient.mailbox.as_str());
    log_refusal(shard, client, "RCPT", None, Some(refused), &reply);
    Err(reply)
}

/// Puts a refusal into the event log, unless there were too many lately.
pub(super) fn log_refusal<W: World>(
    shard: &Shard<W>,
    client: Arc<Client>,
    step: &'static str,
    sender: Option<Box<str>>,
    recipient: Option<Box<str>>,
    reply: &Reply,
) {
    if !shard.events.is_on() {
        return;
    }
    let Some(unlogged) = shard.refusals.borrow_mut().admit(shard.now()) else { return };
    let reply = reply.clone();
    shard.events.emit(Event {
        at: shard.world.time().wall(),
        message: None,
        recipients: crate::event::Recipients::new(),
        kind: Kind::Refused(Box::new(Refusal { client, step, sender, recipient, reply, unlogged })),
    });
}
