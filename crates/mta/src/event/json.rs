//! Events as JSON lines. The field names are documented in `docs/events.md` and are stable.

use super::{
    Client, Done, Event, EventMessage, FailedAttempt, Hop, Kind, LimitEvent, ListedProblem,
    Position, Refusal, ShapingEvent, SuspendedTarget, Suspension,
};
use crate::encryption::Encryption;
use crate::overrides::Overrides;
use auth::checks::AuthSummary;
use mail::{EnhancedStatus, Failure, MessageId, Reply, RequireTls, Wall};
use std::net::IpAddr;

/// Maximum size of a `reason` in octets, before escaping. Peers, tables and milters may send longer texts; the rest is
/// cut off.
const REASON_BYTES_MAX: usize = 1_024;

/// Appends the event to `out`: one JSON object and a newline for each of its recipients.
pub fn write_lines(event: &Event, out: &mut Vec<u8>) {
    let per_recipient = !matches!(event.kind, Kind::Received { .. });
    if per_recipient && !event.recipients.is_empty() {
        for &recipient in &event.recipients {
            write_line(event, Some(recipient), out);
        }
    } else {
        write_line(event, None, out);
    }
}

fn write_line(event: &Event, recipient: Option<u32>, out: &mut Vec<u8>) {
    let mut line = JsonLine { out };
    line.out.extend_from_slice(b"{\"time\":\"");
    event.at.write_rfc3339(line.out);
    line.out.push(b'"');
    line.plain("event", event.kind.name());
    if let Some(message) = &event.message {
        message_fields(&mut line, event, message, recipient);
    }
    match &event.kind {
        Kind::Received { client, checked, require_tls, signed, headers, given: _ } => {
            client_fields(&mut line, client);
            checked_fields(&mut line, checked);
            require_tls_field(&mut line, *require_tls);
            if let Some(signed) = signed {
                line.key("signed");
                line.texts(signed.iter().map(|signer| &**signer));
            }
            if let Some(headers) = headers {
                line.key("headers");
                line.object(headers.iter().map(|(name, value)| (&**name, &**value)));
            }
        }
        Kind::Discarded(discarded) => {
            client_fields(&mut line, &discarded.client);
            line.reason(&discarded.reason);
        }
        Kind::Delivered(done) | Kind::Relayed(done) => done_fields(&mut line, done),
        Kind::Deferred(trouble)
        | Kind::Failed(trouble)
        | Kind::Expired(trouble)
        | Kind::Delayed(trouble) => trouble_fields(&mut line, trouble),
        Kind::Held { reason } => line.reason(reason),
        Kind::Released | Kind::Removed => {}
        Kind::Moved(overrides) => overrides_fields(&mut line, overrides),
        Kind::DsnQueued { dsn, action } => {
            line.id("dsn", *dsn);
            line.plain("action", action);
        }
        Kind::DsnSuppressed { action, why } => {
            line.plain("action", action);
            line.plain("why", why);
        }
        Kind::Refused(refusal) => refusal_fields(&mut line, refusal),
        Kind::Suspended(suspension) => suspension_fields(&mut line, suspension),
        Kind::Resumed { target, step } => {
            target_fields(&mut line, target);
            line.number("step", u64::from(*step));
        }
        Kind::Limited(limited) => limited_fields(&mut line, limited),
        Kind::Shaped(shaped) => shaped_fields(&mut line, shaped),
        Kind::Unshaped(shaped, why) => {
            shaped_fields(&mut line, shaped);
            line.plain("why", why);
        }
        Kind::Problem(problem) | Kind::ProblemCleared(problem) => {
            problem_fields(&mut line, problem)
        }
        Kind::Lost { count, first } => lost_fields(&mut line, *count, *first),
    }
    line.out.extend_from_slice(b"}\n");
}

fn require_tls_field(line: &mut JsonLine<'_>, require_tls: RequireTls) {
    match require_tls {
        RequireTls::Unsaid => {}
        RequireTls::Yes => line.text("require_tls", "yes"),
        RequireTls::No => line.text("require_tls", "no"),
    }
}

fn lost_fields(line: &mut JsonLine<'_>, count: u64, first: Option<Position>) {
    line.number("count", count);
    if let Some(position) = first {
        line.position(position);
    }
}

fn message_fields(
    line: &mut JsonLine<'_>,
    event: &Event,
    message: &EventMessage,
    recipient: Option<u32>,
) {
    line.id("id", message.id);
    if let Some(position) = message.position {
        line.position(position);
    }
    if let Some(envelope) = &message.envelope {
        line.text("sender", envelope.reverse_path.as_ref().map_or("", |sender| sender.as_str()));
        if let Some(index) = recipient {
            if let Some(recipient) = envelope.recipients.get(index as usize) {
                line.text("recipient", recipient.mailbox.as_str());
            }
        } else if matches!(event.kind, Kind::Received { .. }) {
            line.key("recipients");
            line.texts(envelope.recipients.iter().map(|recipient| recipient.mailbox.as_str()));
        }
    }
    if let Some(index) = recipient {
        line.number("recipient_index", u64::from(index));
    }
    if let Some(labels) = &message.labels {
        let said =
            [("tenant", &labels.tenant), ("campaign", &labels.campaign), ("pool", &labels.pool)];
        for (key, name) in said {
            if let Some(name) = name {
                line.text(key, name);
            }
        }
    }
    if message.envelope.is_some() {
        line.number("size", message.body_bytes);
    }
    if !matches!(event.kind, Kind::Received { .. }) {
        let delay = event.at.since(message.received_at).as_millis();
        line.number("delay_ms", u64::try_from(delay).unwrap_or(u64::MAX));
    }
}

fn overrides_fields(line: &mut JsonLine<'_>, overrides: &Overrides) {
    let names = [
        ("to_route", &overrides.route),
        ("to_pool", &overrides.pool),
        ("to_campaign", &overrides.campaign),
    ];
    for (key, name) in names {
        if let Some(name) = name {
            line.text(key, name);
        }
    }
    if let Some(priority) = overrides.priority {
        line.key("to_priority");
        line.out.extend_from_slice(priority.to_string().as_bytes());
    }
}

fn client_fields(line: &mut JsonLine<'_>, client: &Client) {
    line.address("client", client.address.ip());
    line.number("client_port", u64::from(client.address.port()));
    if let Some(proxy) = client.proxy {
        line.address("proxy", proxy);
    }
    if let Some(name) = client.confirmed_name() {
        line.plain("client_name", name);
    }
    line.text("helo", &client.helo);
    line.text("listener", &client.listener);
    line.plain("protocol", client.protocol);
    tls_fields(line, client.tls);
    if let Some(certified) = &client.certified {
        line.text("tls_client", certified);
    }
    if let Some(login) = &client.login {
        line.text("login", login);
    }
}

/// Writes a field for each check.
fn checked_fields(line: &mut JsonLine<'_>, checked: &AuthSummary) {
    let words = [
        ("iprev", checked.iprev.map(auth::iprev::IprevResult::as_str)),
        ("spf", checked.spf.map(auth::spf::SpfResult::as_str)),
        ("dkim", checked.dkim.map(auth::dkim::DkimResult::as_str)),
        ("dmarc", checked.dmarc.map(auth::dmarc::DmarcResult::as_str)),
        ("arc", checked.arc.map(auth::arc::ArcResult::as_str)),
        ("sealed", checked.sealed.map(auth::arc::ArcResult::as_str)),
        ("dnsbl", checked.dnsbl.map(auth::dnsbl::DnsblResult::as_str)),
    ];
    for (check, verdict) in words {
        if let Some(verdict) = verdict {
            line.plain(check, verdict);
        }
    }
}

fn hop_fields(line: &mut JsonLine<'_>, hop: &Hop) {
    line.text("route", &hop.route);
    line.plain("channel", hop.channel);
    if let Some(provider) = &hop.provider {
        line.plain("provider", provider);
    }
    if let Some(source) = &hop.source {
        line.plain("source", source);
    }
    line.text("next_hop", &hop.peer);
    tls_fields(line, hop.tls);
    if let Some(policy) = hop.tls_policy {
        line.plain("tls_policy", policy);
    }
}

fn tls_fields(line: &mut JsonLine<'_>, tls: Option<Encryption>) {
    if let Some(tls) = tls {
        line.plain("tls_version", tls.version);
        line.plain("tls_cipher", tls.cipher);
    }
}

fn done_fields(line: &mut JsonLine<'_>, done: &Done) {
    hop_fields(line, &done.hop);
    line.number("attempts", u64::from(done.attempts));
    if let Some(reply) = &done.reply {
        if let Some(status) = reply.enhanced {
            line.status(status);
        }
        line.reply(reply);
    }
}

fn trouble_fields(line: &mut JsonLine<'_>, trouble: &FailedAttempt) {
    if let Some(hop) = &trouble.hop {
        hop_fields(line, hop);
    }
    line.number("attempts", u64::from(trouble.attempts));
    if let Some(failure) = &trouble.failure {
        failure_fields(line, failure);
    }
    if let Some(verdict) = trouble.class {
        line.plain("class", verdict.class.as_str());
        line.plain("kind", verdict.kind.as_str());
    }
    if let Some(next_try) = trouble.next_try {
        line.wall("next_try", next_try);
    }
}

fn problem_fields(line: &mut JsonLine<'_>, problem: &ListedProblem) {
    line.text("kind", &problem.kind);
    line.plain("severity", problem.severity);
    line.text("about", &problem.about);
    line.text("text", &problem.text);
    line.text("next_step", &problem.next_step);
    line.wall("since", problem.since);
}

fn target_fields(line: &mut JsonLine<'_>, target: &SuspendedTarget) {
    line.text("next_hop", &target.next_hop);
    if !target.source.is_empty() {
        line.text("source", &target.source);
    }
}

fn suspension_fields(line: &mut JsonLine<'_>, suspension: &Suspension) {
    target_fields(line, &suspension.target);
    line.number("step", u64::from(suspension.step));
    line.number("recipients", suspension.recipients);
    if let Some(failure) = &suspension.failure {
        failure_fields(line, failure);
    }
    line.wall("next_try", suspension.next_try);
}

fn limited_fields(line: &mut JsonLine<'_>, limited: &LimitEvent) {
    let LimitEvent { by, value, maximum, over, client } = limited;
    line.plain("by", by.as_str());
    line.text("value", value);
    line.plain("limit", &maximum.rate.to_string());
    line.plain("unit", maximum.unit.as_str());
    line.plain("over", over.as_str());
    client_fields(line, client);
}

fn shaped_fields(line: &mut JsonLine<'_>, shaped: &ShapingEvent) {
    line.text("rule", &shaped.rule);
    line.text("place", &shaped.place);
    line.plain("action", shaped.action);
    let whom = [
        ("provider", &shaped.provider),
        ("next_hop", &shaped.next_hop),
        ("source", &shaped.source),
        ("tenant", &shaped.tenant),
        ("campaign", &shaped.campaign),
    ];
    for (key, name) in whom {
        if let Some(name) = name {
            line.text(key, name);
        }
    }
    line.number("step", u64::from(shaped.step));
    line.wall("until", shaped.until);
    line.text("culprit_name", &shaped.peer);
    line.text("reply", &shaped.reply);
}

fn failure_fields(line: &mut JsonLine<'_>, failure: &Failure) {
    line.status(failure.status);
    match &failure.culprit {
        mail::Culprit::Peer(who) => {
            line.plain("culprit", "peer");
            line.text("culprit_name", who);
        }
        mail::Culprit::Network(who) => {
            line.plain("culprit", "network");
            line.text("culprit_name", who);
        }
        mail::Culprit::Dns(name) => {
            line.plain("culprit", "dns");
            line.text("culprit_name", name);
        }
        mail::Culprit::Local | mail::Culprit::Conversion(_) => line.plain("culprit", "local"),
    }
    if let Some(reply) = &failure.reply {
        line.reply(reply);
    }
    line.reason(&failure.text);
}

fn refusal_fields(line: &mut JsonLine<'_>, refusal: &Refusal) {
    client_fields(line, &refusal.client);
    line.plain("step", refusal.step);
    if let Some(sender) = &refusal.sender {
        line.text("sender", sender);
    }
    if let Some(recipient) = &refusal.recipient {
        line.text("recipient", recipient);
    }
    if let Some(login) = &refusal.login {
        line.text("login", login);
    }
    if let Some(status) = refusal.reply.enhanced {
        line.status(status);
    }
    line.reply(&refusal.reply);
    if refusal.unlogged > 0 {
        line.number("unlogged", refusal.unlogged);
    }
}

/// A JSON object being written; every field writes its comma first, as the object always begins with `time`.
struct JsonLine<'a> {
    out: &'a mut Vec<u8>,
}

// Inlined, so that a field's name is a constant at the call. Calls took 5 % of the instructions of a message's events.
impl JsonLine<'_> {
    #[inline(always)]
    fn key(&mut self, name: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A list.
    fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        self.out.push(b'[');
        for (n, text) in texts.enumerate() {
            if n > 0 {
                self.out.push(b',');
            }
            write_string(self.out, text);
        }
        self.out.push(b']');
    }

    /// An object of texts.
    fn object<'t>(&mut self, fields: impl Iterator<Item = (&'t str, &'t str)>) {
        self.out.push(b'{');
        for (n, (name, value)) in fields.enumerate() {
            if n > 0 {
                self.out.push(b',');
            }
            write_string(self.out, name);
            self.out.push(b':');
            write_string(self.out, value);
        }
        self.out.push(b'}');
    }

    /// A constant of this program, which needs no escaping.
    #[inline(always)]
    fn plain(&mut self, name: &str, value: &str) {
        self.key(name);
        self.out.push(b'"');
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(b'"');
    }

    #[inline(always)]
    fn text(&mut self, name: &str, value: &str) {
        self.key(name);
        write_string(self.out, value);
    }

    /// A longer text is cut at a character, and the cut is marked.
    fn reason(&mut self, value: &str) {
        const MORE: &str = " …";
        if value.len() <= REASON_BYTES_MAX {
            return self.text("reason", value);
        }
        let end = value.floor_char_boundary(REASON_BYTES_MAX - MORE.len());
        self.text("reason", &[&value[..end], MORE].concat());
    }

    fn wall(&mut self, name: &str, value: Wall) {
        self.key(name);
        self.out.push(b'"');
        value.write_rfc3339(self.out);
        self.out.push(b'"');
    }

    /// An IP address, which needs no escaping.
    fn address(&mut self, name: &str, value: IpAddr) {
        self.key(name);
        self.out.push(b'"');
        mail::received::write_address(self.out, value.to_canonical());
        self.out.push(b'"');
    }

    #[inline(always)]
    fn number(&mut self, name: &str, value: u64) {
        self.key(name);
        write_number(self.out, value);
    }

    /// A message id: 16 hex digits, as `MessageId` prints.
    fn id(&mut self, name: &str, id: MessageId) {
        self.key(name);
        self.out.push(b'"');
        self.out.extend_from_slice(&id.hex());
        self.out.push(b'"');
    }

    fn position(&mut self, position: Position) {
        self.number("log", u64::from(position.log()));
        self.number("sequence", position.sequence());
    }

    fn status(&mut self, status: EnhancedStatus) {
        self.key("status");
        self.out.push(b'"');
        write_status(self.out, status);
        self.out.push(b'"');
    }

    /// The reply on one line, as `mail::Reply` prints.
    fn reply(&mut self, reply: &Reply) {
        self.key("reply");
        self.out.push(b'"');
        write_number(self.out, u64::from(reply.code));
        if let Some(status) = reply.enhanced {
            self.out.push(b' ');
            write_status(self.out, status);
        }
        for line in reply.text.split('\n') {
            self.out.push(b' ');
            write_escaped(self.out, line);
        }
        self.out.push(b'"');
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn write_status(out: &mut Vec<u8>, status: EnhancedStatus) {
    write_number(out, u64::from(status.class));
    out.push(b'.');
    write_number(out, u64::from(status.subject));
    out.push(b'.');
    write_number(out, u64::from(status.detail));
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// RFC 8259 §7: quotation mark, backslash and control characters are escaped. U+007F and the C1 controls are, too, so
/// that a log shown on a terminal has no effect on it.
fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    // No early exit, so that the compiler vectorises the loop.
    if !bytes.iter().fold(false, |found, &b| found | needs_care(b)) {
        out.extend_from_slice(bytes);
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            c if c.is_control() => {
                let n = c as usize;
                out.extend_from_slice(b"\\u00");
                out.push(HEX[n >> 4 & 0xf]);
                out.push(HEX[n & 0xf]);
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// 0xC2 begins the UTF-8 form of the C1 controls.
fn needs_care(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f | 0xc2)
}

fn write_number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests;
