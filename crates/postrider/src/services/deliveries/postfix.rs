//! Events as Postfix's programs log them, so that programs that read its log go on working (`docs/logs.md`).

use super::{KIND, fields};
use crate::console::{LogEntry, one_line};
use mail::{Culprit, EnhancedStatus, Failure, MessageId, Reply, Step};
use mta::event::{
    AttemptTimes, Client, Event, EventMessage, Given, Hop, Kind, NotedSession, Refusal, SessionEnd,
    SessionEndReason,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;

/// Maximum number of messages for which a `removed` line is due. Beyond it all are forgotten: their lines are left out,
/// and `from=` lines may come twice.
const KNOWN_MAX: usize = 100_000;

/// Stands before a reply.
const SAID: &str = "said:";

/// If events of this kind have a line.
pub(super) fn has_line(kind: &Kind) -> bool {
    super::is_result(kind)
        || matches!(
            kind,
            Kind::Received { .. }
                | Kind::Refused(_)
                | Kind::Discarded(_)
                | Kind::Held { .. }
                | Kind::Released
                | Kind::Removed
                | Kind::DsnQueued { .. }
                | Kind::Lost { .. }
        )
}

/// The status of a result (RFC 3463).
pub(super) fn status(kind: &Kind) -> Option<EnhancedStatus> {
    match kind {
        Kind::Delivered(done) | Kind::Relayed(done) => {
            let status = done.reply.as_ref().and_then(|reply| reply.enhanced);
            Some(status.unwrap_or(EnhancedStatus::new(2, 0, 0)))
        }
        Kind::Deferred(attempt) => {
            let failure = attempt.failure.as_ref();
            Some(failure.map_or(EnhancedStatus::new(4, 0, 0), |failure| failure.status))
        }
        Kind::Failed(attempt) | Kind::Expired(attempt) => {
            let failure = attempt.failure.as_ref();
            Some(failure.map_or(EnhancedStatus::new(5, 0, 0), |failure| failure.status))
        }
        Kind::Refused(refusal) => refusal.reply.enhanced,
        _ => None,
    }
}

/// Formats events, and remembers which messages have had their `from=` line.
#[derive(Debug, Default)]
pub(super) struct PostfixLines {
    known: HashMap<MessageId, Known>,
}

/// A message with a `from=` line.
#[derive(Debug)]
struct Known {
    /// Recipients without a final result; `None` if the message was accepted before this process began.
    left: Option<usize>,
    /// Addresses in RCPT that recipients were expanded from.
    given: Given,
}

/// Writes lines of one event.
struct EventLines<'a> {
    event: &'a Event,
    write: &'a mut dyn FnMut(&LogEntry<'_>),
}

impl EventLines<'_> {
    fn line(&mut self, program: &'static str, recipient: Option<u32>, text: fmt::Arguments<'_>) {
        let text = one_line(text);
        let fields = || fields(self.event, recipient);
        let own = LogEntry::own(KIND);
        let at = self.event.at;
        (self.write)(&LogEntry { at, program, text: &text, fields: &fields, ..own });
    }
}

impl PostfixLines {
    /// Passes each line of the event to `write`.
    pub(super) fn write(&mut self, event: &Event, write: &mut dyn FnMut(&LogEntry<'_>)) {
        let mut lines = EventLines { event, write };
        match (&event.kind, &event.message) {
            (Kind::Received { client, headers, given, .. }, Some(message)) => {
                let header = headers.iter().flat_map(|headers| headers.iter());
                let id =
                    header.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("Message-ID"));
                received(&mut lines, message, client, id.map(|(_, value)| &**value));
                self.activate(&mut lines, message);
                if let (Some(known), Some(_)) = (self.known.get_mut(&message.id), given) {
                    known.given.clone_from(given);
                }
            }
            (Kind::Refused(refusal), _) => refused(&mut lines, refusal),
            (Kind::Lost { count, .. }, _) => {
                lines.line("qmgr", None, format_args!("warning: {count} events lost"));
            }
            (_, Some(message)) => self.write_about(&mut lines, message),
            (_, None) => {}
        }
    }

    fn write_about(&mut self, lines: &mut EventLines<'_>, message: &EventMessage) {
        let (event, id) = (lines.event, QueueId(message.id));
        match &event.kind {
            Kind::Delivered(_) | Kind::Relayed(_) | Kind::Deferred(_) | Kind::Failed(_) => {
                self.activate(lines, message);
                let given = self.given(message);
                event.recipients.iter().for_each(|&at| result(lines, message, (at, given)));
            }
            Kind::Expired(_) => {
                self.activate(lines, message);
                for &at in &event.recipients {
                    result(lines, message, (at, self.given(message)));
                    let from = sender(message);
                    let text =
                        format_args!("{id}: from=<{from}>, status=expired, returned to sender");
                    lines.line("qmgr", Some(at), text);
                }
            }
            Kind::DsnQueued { dsn, action } => {
                let about = match *action {
                    "failed" => "non-delivery",
                    "delayed" => "delay",
                    _ => "delivery status",
                };
                let text = format_args!("{id}: sender {about} notification: {}", QueueId(*dsn));
                lines.line("bounce", None, text);
            }
            Kind::Held { reason } => {
                lines.line("cleanup", None, format_args!("{id}: hold: {reason}"));
            }
            Kind::Released => {
                lines.line("postsuper", None, format_args!("{id}: released from hold"))
            }
            Kind::Discarded(discarded) => {
                let (client, reason) = (Peer(&discarded.client), &discarded.reason);
                let text = format_args!(
                    "{id}: discard: END-OF-MESSAGE from {client}: {reason}; from=<{}>",
                    sender(message)
                );
                lines.line("cleanup", None, text);
            }
            _ => {}
        }
        self.finish(lines, message);
    }

    fn given(&self, message: &EventMessage) -> &[(u32, Box<str>)] {
        let known = self.known.get(&message.id).and_then(|known| known.given.as_deref());
        known.map_or(&[], Vec::as_slice)
    }

    /// Writes the `from=` line, unless the message had it. A message of this server has no `received` event.
    fn activate(&mut self, lines: &mut EventLines<'_>, message: &EventMessage) {
        let Some(envelope) = &message.envelope else { return };
        if self.known.contains_key(&message.id) {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let count = envelope.recipients.len();
        // Deliveries before the start of this process are unknown.
        let is_new = matches!(lines.event.kind, Kind::Received { .. });
        let left = (is_new || count == 1).then_some(count);
        self.known.insert(message.id, Known { left, given: None });
        let (id, size, from) = (QueueId(message.id), message.body_bytes, sender(message));
        let text = format_args!("{id}: from=<{from}>, size={size}, nrcpt={count} (queue active)");
        lines.line("qmgr", None, text);
    }

    /// Writes the `removed` line behind the last result of a message.
    fn finish(&mut self, lines: &mut EventLines<'_>, message: &EventMessage) {
        let is_final = matches!(
            lines.event.kind,
            Kind::Delivered(_)
                | Kind::Relayed(_)
                | Kind::Failed(_)
                | Kind::Expired(_)
                | Kind::Removed
                | Kind::Discarded(_)
        );
        if !is_final {
            return;
        }
        if let Some(Known { left: Some(left), .. }) = self.known.get_mut(&message.id) {
            *left = left.saturating_sub(lines.event.recipients.len());
            if *left > 0 {
                return;
            }
            self.known.remove(&message.id);
            let by = if matches!(lines.event.kind, Kind::Removed) { "postsuper" } else { "qmgr" };
            lines.line(by, None, format_args!("{}: removed", QueueId(message.id)));
        }
    }
}

/// The lines of `smtpd` or `pickup`, and of `cleanup`, about a new message.
fn received(
    lines: &mut EventLines<'_>,
    message: &EventMessage,
    client: &Client,
    message_id: Option<&str>,
) {
    let id = QueueId(message.id);
    let mut login = String::new();
    if let Some(name) = &client.login {
        let mechanism = client.mechanism.unwrap_or("PLAIN");
        let _ = write!(login, ", sasl_method={mechanism}, sasl_username={name}");
    }
    match client.uid {
        Some(uid) => {
            let from = sender(message);
            lines.line("pickup", None, format_args!("{id}: uid={uid} from=<{from}>"));
        }
        None => lines.line("smtpd", None, format_args!("{id}: client={}{login}", Peer(client))),
    }
    let message_id = message_id.unwrap_or("<>");
    lines.line("cleanup", None, format_args!("{id}: message-id={message_id}"));
}

/// The line of `smtpd` about a rejection.
fn refused(lines: &mut EventLines<'_>, refusal: &Refusal) {
    let (client, reply) = (Peer(&refusal.client), OneLineReply(&refusal.reply));
    let command = match refusal.step {
        "AUTH" => {
            let name = refusal.login.as_deref().unwrap_or_default();
            let mechanism = refusal.mechanism.unwrap_or("PLAIN");
            let text = format_args!(
                "warning: {client}: SASL {mechanism} authentication failed: {reply}, sasl_username={name}"
            );
            return lines.line("smtpd", None, text);
        }
        "connect" => "CONNECT",
        "MAIL" => "MAIL",
        "RCPT" => "RCPT",
        "DATA" => "DATA",
        "content" => "END-OF-MESSAGE",
        // Syntax errors have no line in Postfix's log either.
        _ => return,
    };
    let mut text = format!("NOQUEUE: reject: {command} from {client}: {}", refusal.reply.code);
    if let Some(status) = refusal.reply.enhanced {
        let _ = write!(text, " {status}");
    }
    if let Some(recipient) = &refusal.recipient {
        let _ = write!(text, " <{recipient}>:");
    }
    let _ = write!(text, " {}{};", begin_of(refusal), refusal.reply.text.replace('\n', " "));
    if let Some(sender) = &refusal.sender {
        let _ = write!(text, " from=<{sender}>");
    }
    if let Some(recipient) = &refusal.recipient {
        let _ = write!(text, " to=<{recipient}>");
    }
    let _ = write!(text, " proto={}", protocol(refusal.client.protocol));
    if !refusal.client.helo.is_empty() {
        let _ = write!(text, " helo=<{}>", refusal.client.helo);
    }
    lines.line("smtpd", None, format_args!("{text}"));
    if refusal.unlogged > 0 {
        let count = refusal.unlogged;
        lines.line("smtpd", None, format_args!("warning: {count} refusals were not logged"));
    }
}

/// Postfix's text for a rejection, which programs look for, before the text of the reply.
fn begin_of(refusal: &Refusal) -> &'static str {
    let Some(status) = refusal.reply.enhanced else { return "" };
    match (refusal.step, status.subject, status.detail) {
        ("RCPT", 1, 1) => "Recipient address rejected: User unknown: ",
        ("RCPT", 1, 2) => "Recipient address rejected: Domain not found: ",
        ("MAIL" | "RCPT", 1, 8) => "Sender address rejected: Domain not found: ",
        _ => "",
    }
}

/// Postfix names the protocol without its extensions: `ESMTP` or `SMTP`.
fn protocol(name: &str) -> &str {
    if name.starts_with("SMTP") { "SMTP" } else { "ESMTP" }
}

/// The line of a delivery agent about one recipient.
fn result(
    lines: &mut EventLines<'_>,
    message: &EventMessage,
    (at, given): (u32, &[(u32, Box<str>)]),
) {
    let event = lines.event;
    let (hop, word, why, times) = match &event.kind {
        Kind::Delivered(done) | Kind::Relayed(done) => {
            let reply = done.reply.as_ref().map(|reply| OneLineReply(reply).to_string());
            (Some(&done.hop), "sent", reply.unwrap_or_default(), done.times)
        }
        Kind::Deferred(attempt) | Kind::Failed(attempt) | Kind::Expired(attempt) => {
            let word = if matches!(event.kind, Kind::Failed(_)) { "bounced" } else { "deferred" };
            (attempt.hop.as_ref(), word, reason(attempt.failure.as_deref()), attempt.times)
        }
        _ => return,
    };
    let to = message.envelope.as_ref().and_then(|envelope| envelope.recipients.get(at as usize));
    let Some(to) = to else { return };
    let agent = program(hop.map(|hop| &**hop));
    let relay = hop.map_or("none".into(), |hop| match agent {
        "smtp" | "lmtp" | "x400" => relay(&hop.peer),
        local => local.into(),
    });
    let delay = event.at.0.saturating_sub(message.received_at.0);
    let (delay, delays) = (Delay(delay), Delays { delay, times });
    let original = given.iter().find(|(index, _)| *index == at).map(|(_, given)| &**given);
    let original = original.filter(|given| *given != to.mailbox.as_str());
    let original = original.map_or(String::new(), |given| format!(", orig_to=<{given}>"));
    let status = status(&event.kind).unwrap_or(EnhancedStatus::new(2, 0, 0));
    let (id, to) = (QueueId(message.id), &to.mailbox);
    let text = format_args!(
        "{id}: to=<{to}>{original}, relay={relay}, delay={delay}, delays={delays}, dsn={status}, \
         status={word} ({why})"
    );
    lines.line(agent, Some(at), text);
}

/// The delivery agent of Postfix for a channel.
fn program(hop: Option<&Hop>) -> &'static str {
    match hop.map(|hop| hop.channel) {
        Some("lmtp") => "lmtp",
        Some("maildir") => "virtual",
        Some("pipe") => "pipe",
        Some("discard") => "discard",
        Some("x400") => "x400",
        Some(_) => "smtp",
        None => "error",
    }
}

/// A peer as `host[address]:port`. A host that is configured by its address has it for a name.
fn relay(peer: &str) -> Cow<'_, str> {
    match peer.parse::<SocketAddr>() {
        Ok(address) => format!("{0}[{0}]:{1}", address.ip(), address.port()).into(),
        Err(_) => peer.into(),
    }
}

/// The reason of a failure, in Postfix's terms.
fn reason(failure: Option<&Failure>) -> String {
    let Some(failure) = failure else { return "unknown".to_owned() };
    let text = failure.text.replace('\n', " ");
    match (&failure.culprit, &failure.reply) {
        (Culprit::Peer(peer), Some(reply)) => {
            // The port is in `relay=`.
            let peer = relay(peer);
            let host = peer.rfind(']').map_or(&*peer, |end| &peer[..=end]);
            let reply = OneLineReply(reply);
            match failure.step.map(command) {
                Some(command) => format!("host {host} {SAID} {reply} (in reply to {command})"),
                None => format!("host {host} {SAID} {reply}"),
            }
        }
        (Culprit::Network(peer), _) => format!("connect to {peer}: {text}"),
        (Culprit::Dns(name), _) => {
            format!("Host or domain name not found. Name service error for name={name}: {text}")
        }
        _ => text,
    }
}

fn command(step: Step) -> &'static str {
    match step {
        Step::Connect => "initial connection",
        Step::Ehlo => "EHLO command",
        Step::Helo => "HELO command",
        Step::Lhlo => "LHLO command",
        Step::StartTls => "STARTTLS command",
        Step::Auth => "AUTH command",
        Step::MailFrom => "MAIL FROM command",
        Step::RcptTo => "RCPT TO command",
        Step::Data => "DATA command",
        Step::Bdat => "BDAT command",
        Step::FinalDot | Step::LoneDot => "end of DATA command",
        Step::Rset => "RSET command",
        Step::Quit => "QUIT command",
    }
}

fn sender(message: &EventMessage) -> &str {
    let sender = message.envelope.as_ref().and_then(|envelope| envelope.reverse_path.as_ref());
    sender.map_or("", |sender| sender.as_str())
}

/// A queue id as Postfix writes them: in capitals. `postrider trace` takes both.
struct QueueId(MessageId);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().to_ascii_uppercase())
    }
}

/// A client as `name[address]`. Programs find the address in the line: a name may contain nothing that looks like one.
struct Peer<'a>(&'a Client);

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |name: &&str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        };
        let name = self.0.confirmed_name().filter(is_plain).unwrap_or("unknown");
        write!(f, "{name}[{}]", self.0.address.ip())
    }
}

/// A reply with its lines joined.
struct OneLineReply<'a>(&'a Reply);

impl fmt::Display for OneLineReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.code)?;
        if let Some(status) = self.0.enhanced {
            write!(f, " {status}")?;
        }
        self.0.text.split('\n').try_for_each(|line| write!(f, " {line}"))
    }
}

/// Milliseconds as seconds with two digits that count, as Postfix has it: `0.04`, `1.3`, `12`.
struct Delay(u64);

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 as f64 / 1e3;
        match self.0 {
            0..5 => f.write_str("0"),
            5..1_000 => write!(f, "{:.2}", seconds.max(0.01)),
            1_000..10_000 => write!(f, "{seconds:.1}"),
            _ => write!(f, "{seconds:.0}"),
        }
    }
}

/// A delay in Postfix's four parts: before the queue manager, in it, opening, transmission.
struct Delays {
    delay: u64,
    times: AttemptTimes,
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttemptTimes { waiting_ms, opening_ms, sending_ms } = self.times;
        let attempt = [waiting_ms, opening_ms, sending_ms].map(u64::from);
        let before = self.delay.saturating_sub(attempt.iter().sum());
        let [waiting, opening, sending] = attempt.map(Delay);
        write!(f, "{}/{waiting}/{opening}/{sending}", Delay(before))
    }
}

/// Writes the lines of `smtpd` about begin or end of a session.
pub(super) fn write_session(noted: &NotedSession, write: &mut dyn FnMut(&LogEntry<'_>)) {
    let client = Peer(&noted.client);
    let mut line = |text: fmt::Arguments<'_>| {
        let text = one_line(text);
        write(&LogEntry { at: noted.at, program: "smtpd", text: &text, ..LogEntry::own(KIND) });
    };
    let Some(SessionEnd { why, after, commands }) = &noted.ended else {
        return line(format_args!("connect from {client}"));
    };
    match why {
        SessionEndReason::Closed => {}
        SessionEndReason::Lost => line(format_args!("lost connection after {after} from {client}")),
        SessionEndReason::Timeout => line(format_args!("timeout after {after} from {client}")),
        SessionEndReason::TooManyErrors => {
            line(format_args!("too many errors after {after} from {client}"));
        }
    }
    line(format_args!("disconnect from {client}{commands}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_four_parts_whose_sum_is_the_delay() {
        let times = AttemptTimes { waiting_ms: 10, opening_ms: 250, sending_ms: 40 };
        assert_eq!(Delays { delay: 1_300, times }.to_string(), "1.0/0.01/0.25/0.04");
        let none = AttemptTimes::default();
        assert_eq!(Delays { delay: 12_600, times: none }.to_string(), "13/0/0/0");
        // The clock was set back.
        assert_eq!(Delays { delay: 0, times }.to_string(), "0/0.01/0.25/0.04");
    }

    #[test]
    fn delays_have_two_digits_that_count() {
        let shown = |ms| Delay(ms).to_string();
        let delays = [0, 6, 44, 999, 1_340, 12_600].map(shown);
        assert_eq!(delays, ["0", "0.01", "0.04", "1.00", "1.3", "13"]);
    }

    #[test]
    fn peers_have_a_name_and_an_address() {
        for (peer, shown) in [
            ("mx.test[192.0.2.1]:25", "mx.test[192.0.2.1]:25"),
            ("192.0.2.1:25", "192.0.2.1[192.0.2.1]:25"),
            ("[2001:db8::1]:25", "2001:db8::1[2001:db8::1]:25"),
        ] {
            assert_eq!(relay(peer), shown);
        }
    }

    #[test]
    fn reasons_name_host_reply_and_command() {
        let reply = Reply::new(450, (4, 2, 0), "Greylisted\nCome back");
        let mut failure = Failure::peer("mx.test[192.0.2.1]:25", reply, Step::RcptTo);
        let said = "host mx.test[192.0.2.1] said: 450 4.2.0 Greylisted Come back";
        assert_eq!(reason(Some(&failure)), format!("{said} (in reply to RCPT TO command)"));
        failure.step = None;
        assert_eq!(reason(Some(&failure)), said);
        failure.reply = None;
        failure.culprit = Culprit::Network("mx.test[192.0.2.1]:25".into());
        failure.text = "Connection refused".into();
        assert_eq!(reason(Some(&failure)), "connect to mx.test[192.0.2.1]:25: Connection refused");
    }
}
