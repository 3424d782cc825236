//! Effects of the commands (RFC 5321 §4.1.1, §4.1.4).

use super::command::{self, LineError, Verb};
use super::parameters::{Chunk, MailParameters, RcptParameters};
use super::recipients::merge;
use super::replies::{About, Offers};
use super::session::{Greeting, PendingNeed, Phase, ServerSession};
use super::{MailCommand, Need, Transaction, content, parameters, replies};
use mail::{ContentFacts, Envelope, Mailbox, Mono, Notify, Recipient, Reply};
use std::borrow::Cow;
use std::sync::Arc;

/// `Err` is the reply that refuses the command.
type CommandResult = Result<Option<Need>, Reply>;

impl ServerSession {
    /// Performs the command on a line.
    pub(super) fn handle_line(&mut self, now: Mono, line: &[u8]) -> Option<Need> {
        let readable = self.readable_hello(line);
        let (verb, argument) = match command::parse(readable.as_deref().unwrap_or(line)) {
            Ok(command) => command,
            Err(error) => {
                self.lost_line(now, describe(error), line.get(..4).is_some_and(is_bdat));
                return None;
            }
        };
        self.keep_waiting(now, verb.advances());
        self.count(|counts| counts.count(verb));
        if verb != Verb::Quit && !self.count_command() {
            return None;
        }
        match self.perform(now, verb, argument) {
            Ok(need) => return need,
            Err(reply) => {
                let about = About::command(verb, argument);
                if verb == Verb::Rcpt && self.transaction.is_some() {
                    self.refuse_recipient(about, &reply);
                } else {
                    self.refuse(about, &reply);
                }
                if verb == Verb::Data && matches!(self.phase, Phase::Command) {
                    return Some(Need::DataRefused);
                }
            }
        }
        None
    }

    /// Performs the command on a line while recipients are open, if it is a RCPT that opens one more. Other commands
    /// wait until all are answered: their replies come after those, and their effects may depend on the answers (RFC
    /// 2920 §3.1).
    pub(super) fn open_further(&mut self, now: Mono, line: &[u8]) -> Option<Need> {
        let open = self.open.len();
        let has_room = open < self.config.recipients_open_max
            && self.accepted.saturating_add(open) < self.config.recipients_max
            && self.commands < self.config.commands_max;
        if !has_room {
            return None;
        }
        let Ok((verb @ Verb::Rcpt, argument)) = command::parse(line) else { return None };
        let recipient = self.recipient_of(argument).ok()?;
        if self.place_of(&recipient).is_some()
            || !self.config.lmtp && self.open.contains(&recipient.mailbox)
        {
            return None;
        }
        self.keep_waiting(now, verb.advances());
        self.count(|counts| counts.count(verb));
        self.count_command().then(|| self.ask(recipient))
    }

    fn perform(&mut self, now: Mono, verb: Verb, argument: &str) -> CommandResult {
        if self.greeting == Greeting::Refused && !matches!(verb, Verb::Quit | Verb::Bdat) {
            return Err(replies::sequence("No SMTP service here"));
        }
        match verb {
            Verb::Mail => self.mail(argument),
            Verb::Rcpt => self.rcpt(argument),
            Verb::Data => self.data(argument),
            Verb::Bdat => self.bdat(now, argument),
            Verb::Ehlo | Verb::Helo | Verb::Lhlo => self.hello(verb, argument),
            Verb::Rset => {
                no_argument(argument)?;
                self.output.extend_from_slice(replies::RESET);
                Ok(self.end_transaction())
            }
            Verb::Noop => self.say(replies::NOOP),
            Verb::Vrfy if argument.is_empty() => Err(replies::argument("Syntax: VRFY address")),
            Verb::Vrfy => self.say(replies::VRFY),
            Verb::Help => {
                let help = replies::help(&self.config, self.offers_tls());
                self.write(&help);
                Ok(None)
            }
            Verb::Quit => {
                no_argument(argument)?;
                let text = [&self.config.hostname, " closing"].concat();
                self.write(&Reply::new(221, (2, 0, 0), text));
                self.phase = Phase::Closing;
                Ok(None)
            }
            Verb::StartTls => self.starttls(argument),
            Verb::Auth => self.auth(argument),
            Verb::Xclient => self.xclient(argument),
            Verb::Unimplemented => Err(replies::unimplemented()),
            Verb::Http => {
                self.end(
                    About::step("command"),
                    (4, 7, 0),
                    "Protocol error: HTTP request on an SMTP port",
                );
                Ok(None)
            }
            Verb::Field => {
                self.end(
                    About::step("command"),
                    (4, 7, 0),
                    "Protocol error: header field instead of a command",
                );
                Ok(None)
            }
            Verb::Unknown if self.may_be_unknown() => Err(replies::line("Command unrecognized")),
            Verb::Unknown => Ok(None),
        }
    }

    fn say(&mut self, line: &[u8]) -> CommandResult {
        self.output.extend_from_slice(line);
        Ok(None)
    }

    fn offers_tls(&self) -> bool {
        self.config.starttls && !self.tls
    }

    /// RFC 8689 §2: only where the session is encrypted.
    fn offers_require_tls(&self) -> bool {
        self.config.require_tls && self.tls
    }

    /// RFC 5321 §4.1.1.1, §4.1.4; LHLO: RFC 2033 §4.1. A good one resets the session.
    fn hello(&mut self, verb: Verb, argument: &str) -> CommandResult {
        if self.config.lmtp != (verb == Verb::Lhlo) {
            let text = if self.config.lmtp {
                "LMTP service; send LHLO"
            } else {
                "SMTP service; send EHLO"
            };
            return Err(Reply::new(500, (5, 5, 1), text));
        }
        let called;
        let argument = if self.config.is_lenient && !argument.is_empty() {
            called = fit_name(argument);
            &*called
        } else {
            argument
        };
        // Other syntax errors are accepted (§4.1.4), but the name must be valid in a header.
        if argument.is_empty()
            || argument.len() > 255
            || !argument.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(replies::argument("Host name missing"));
        }
        self.greeting = match verb {
            Verb::Lhlo => Greeting::Lhlo,
            Verb::Helo => Greeting::Helo,
            _ => Greeting::Ehlo,
        };
        self.helo = Some(Arc::from(argument));
        if self.greeting == Greeting::Helo {
            let name = Reply::bare(250, self.config.hostname.clone());
            self.write(&name);
        } else {
            let mechanisms = self.offered_mechanisms().to_vec();
            let offers = Offers {
                starttls: self.offers_tls(),
                require_tls: self.offers_require_tls(),
                mechanisms: &mechanisms,
                xclient: &self.xclient_offer(),
            };
            replies::write_extensions(&mut self.output, &self.config, &offers);
        }
        Ok(self.end_transaction())
    }

    /// The greeting of a device with a name in its own character set.
    fn readable_hello(&self, line: &[u8]) -> Option<Vec<u8>> {
        let verb = line.get(..4)?;
        let is_hello = verb.eq_ignore_ascii_case(b"EHLO") || verb.eq_ignore_ascii_case(b"HELO");
        let is_odd = self.config.is_lenient && is_hello && std::str::from_utf8(line).is_err();
        is_odd.then(|| String::from_utf8_lossy(line).into_owned().into_bytes())
    }

    /// RFC 5321 §4.1.1.2.
    fn mail(&mut self, argument: &str) -> CommandResult {
        let Some(helo) = self.helo.clone() else {
            let text = if self.config.lmtp { "Send LHLO first" } else { "Send EHLO first" };
            return Err(replies::sequence(text));
        };
        self.check_logged_in()?;
        if self.transaction.is_some() {
            return Err(replies::sequence("Nested MAIL command"));
        }
        if self.config.messages_max != 0 && self.messages >= self.config.messages_max {
            self.end(About::step("MAIL"), (4, 7, 0), "Too many messages in this session");
            return Ok(None);
        }
        let text = behind(argument, "FROM:")
            .ok_or_else(|| replies::argument("Syntax: MAIL FROM:<address>"))?;
        let (path, parameters) = parameters::split(text).map_err(bad_sender)?;
        may_have(self.greeting, parameters)?;
        let given = MailParameters::parse(parameters, &self.config, self.offers_require_tls())?;
        if given.size.is_some_and(|size| size > self.config.message_bytes_max) {
            return Err(content::too_big());
        }
        let reverse_path = if path.is_empty() {
            None
        } else {
            ascii_or(path, given.smtputf8)?;
            let mailbox = Mailbox::parse(&self.whole(path), given.smtputf8).map_err(bad_sender)?;
            if !mailbox.has_domain() {
                return Err(bad_sender("domain missing"));
            }
            Some(mailbox)
        };
        let body = given.body.unwrap_or_default();
        let envelope = Envelope {
            reverse_path: reverse_path.clone(),
            recipients: Vec::new(),
            body,
            smtputf8: given.smtputf8,
            ret: given.ret,
            envid: given.envid,
        };
        self.transaction = Some(Box::new(Transaction {
            envelope,
            facts: ContentFacts::default(),
            require_tls: given.require_tls,
            wishes: given.wishes,
            protocol: self.protocol_with(given.smtputf8),
            helo,
        }));
        self.chunks_failed = false;
        self.phase = Phase::Answer(PendingNeed::Mail);
        let MailParameters { size, smtputf8, require_tls, .. } = given;
        Ok(Some(Need::Mail(MailCommand { reverse_path, size, body, smtputf8, require_tls })))
    }

    /// RFC 5321 §4.1.1.3.
    fn rcpt(&mut self, argument: &str) -> CommandResult {
        if self.transaction.is_none() {
            return Err(replies::sequence("Send MAIL first"));
        }
        if self.reader.is_some() {
            // RFC 3030 §2.
            return Err(replies::sequence("Recipients must come before BDAT"));
        }
        self.rcpt_given = true;
        let recipient = self.recipient_of(argument)?;
        if let Some(at) = self.place_of(&recipient) {
            if let Some(transaction) = &mut self.transaction {
                merge(&mut transaction.envelope.recipients, at, recipient);
                self.repeated = self.repeated.saturating_add(1);
            }
            return self.say(replies::RCPT_OK);
        }
        if self.accepted >= self.config.recipients_max {
            let reply = Reply::new(452, (4, 5, 3), "Too many recipients");
            let recipient = Some(recipient.mailbox.as_str());
            self.refuse_recipient(About { recipient, ..About::step("RCPT") }, &reply);
            return Ok(None);
        }
        Ok(Some(self.ask(recipient)))
    }

    /// An address with the origin if it has no domain (RFC 6409 §6.3).
    fn whole<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match &self.config.origin {
            Some(origin) if !path.contains('@') => Cow::Owned(format!("{path}@{origin}")),
            _ => Cow::Borrowed(path),
        }
    }

    /// The recipient in the argument of RCPT.
    fn recipient_of(&self, argument: &str) -> Result<Recipient, Reply> {
        let smtputf8 = self.transaction.as_ref().is_some_and(|t| t.envelope.smtputf8);
        let text = behind(argument, "TO:")
            .ok_or_else(|| replies::argument("Syntax: RCPT TO:<address>"))?;
        let (path, parameters) = parameters::split(text).map_err(bad_recipient)?;
        may_have(self.greeting, parameters)?;
        let given = RcptParameters::parse(parameters, &self.config, smtputf8)?;
        if path.is_empty() {
            return Err(bad_recipient("address missing"));
        }
        ascii_or(path, smtputf8)?;
        // The bare postmaster is a recipient everywhere (RFC 5321 §4.5.1).
        let is_postmaster = path.eq_ignore_ascii_case("postmaster");
        let path = if is_postmaster { path.into() } else { self.whole(path) };
        let mailbox = Mailbox::parse(&path, smtputf8).map_err(bad_recipient)?;
        let notify = given.notify.unwrap_or(Notify::UNSPECIFIED);
        Ok(Recipient { mailbox, notify, orcpt: given.orcpt.map(Box::from) })
    }

    /// Position in the envelope if an earlier RCPT named it. In LMTP each RCPT gets its own final reply (RFC 2033
    /// §4.2).
    fn place_of(&mut self, recipient: &Recipient) -> Option<usize> {
        let transaction = self.transaction.as_ref().filter(|_| !self.config.lmtp)?;
        self.known.find(&transaction.envelope.recipients, &recipient.mailbox)
    }

    /// Returns the need for a decision about this recipient. The phase stays: further RCPTs may follow before the
    /// answer.
    fn ask(&mut self, recipient: Recipient) -> Need {
        let number = self.open.push(recipient.clone());
        Need::Rcpt { number, recipient }
    }

    /// RFC 5321 §4.1.1.4.
    fn data(&mut self, argument: &str) -> CommandResult {
        no_argument(argument)?;
        if self.reader.is_some() {
            // RFC 3030 §2: the two are not mixed.
            return Err(replies::sequence("Command not allowed between BDAT chunks"));
        }
        let recipients = self.ready_for_content()?;
        self.phase = Phase::Answer(PendingNeed::Data);
        Ok(Some(Need::Data { recipients, waits_for_354: true }))
    }

    /// RFC 3030 §2: the announced octets are read first, whatever error the command has.
    fn bdat(&mut self, now: Mono, argument: &str) -> CommandResult {
        let Some(chunk) = Chunk::parse(argument) else {
            self.lost_chunk();
            return Ok(None);
        };
        match self.admit_chunk(chunk) {
            Ok(recipients) if self.reader.is_none() => {
                self.phase = Phase::Answer(PendingNeed::Chunk(chunk));
                return Ok(Some(Need::Data { recipients, waits_for_354: false }));
            }
            Ok(_) => {
                self.phase = Phase::Chunk { chunk, left: chunk.octets };
                self.start_transfer(now);
            }
            Err(reply) => self.start_drop(now, chunk, reply),
        }
        Ok(None)
    }

    fn admit_chunk(&self, chunk: Chunk) -> Result<usize, Reply> {
        if self.greeting == Greeting::Refused {
            return Err(replies::sequence("No SMTP service here"));
        }
        if !self.config.chunking {
            return Err(replies::unimplemented());
        }
        if self.chunks_failed {
            return Err(replies::sequence("Earlier BDAT chunk was rejected"));
        }
        if chunk.malformed {
            return Err(bdat_syntax());
        }
        let recipients = self.ready_for_content()?;
        let exceeds = match &self.reader {
            Some(reader) => reader.exceeds_with(chunk.octets),
            None => chunk.octets > self.config.message_bytes_max,
        };
        if exceeds { Err(content::too_big()) } else { Ok(recipients) }
    }

    /// The start of the next command is unknown: content must not be read as a command.
    fn lost_chunk(&mut self) {
        self.end(About::step("DATA"), (4, 5, 4), BDAT_SYNTAX);
    }

    /// Number of recipients of the content.
    fn ready_for_content(&self) -> Result<usize, Reply> {
        let Some(transaction) = &self.transaction else {
            return Err(replies::sequence("Send MAIL first"));
        };
        match self.accepted {
            // RFC 5321 §3.3; RFC 2033 §4.2 wants 503.
            0 if self.rcpt_given && !self.config.lmtp => {
                Err(Reply::new(554, (5, 5, 1), "No valid recipients"))
            }
            0 => Err(replies::sequence("No valid recipients")),
            _ => Ok(transaction.envelope.recipients.len()),
        }
    }

    /// RFC 3207 §4.
    fn starttls(&mut self, argument: &str) -> CommandResult {
        if !self.config.starttls {
            return Err(replies::unimplemented());
        }
        no_argument(argument)?;
        if self.tls {
            return Err(replies::sequence("TLS already active"));
        }
        self.phase = Phase::StartTls;
        Ok(self.end_transaction())
    }

    /// RFC 3848, RFC 6531 §4.3.
    pub(super) fn protocol_with(&self, smtputf8: bool) -> &'static str {
        if self.is_logged_in {
            return self.protocol_of_login(smtputf8);
        }
        match (self.greeting, smtputf8, self.tls) {
            (Greeting::Lhlo, false, false) => "LMTP",
            (Greeting::Lhlo, false, true) => "LMTPS",
            (Greeting::Lhlo, true, false) => "UTF8LMTP",
            (Greeting::Lhlo, true, true) => "UTF8LMTPS",
            (Greeting::Ehlo, false, false) => "ESMTP",
            (Greeting::Ehlo, false, true) => "ESMTPS",
            (Greeting::Ehlo, true, false) => "UTF8SMTP",
            (Greeting::Ehlo, true, true) => "UTF8SMTPS",
            _ => "SMTP",
        }
    }

    /// The same after a login. A login in clear occurs only with XCLIENT.
    fn protocol_of_login(&self, smtputf8: bool) -> &'static str {
        match (self.greeting, smtputf8, self.tls) {
            (Greeting::Lhlo, false, true) => "LMTPSA",
            (Greeting::Lhlo, true, true) => "UTF8LMTPSA",
            (Greeting::Ehlo, false, true) => "ESMTPSA",
            (Greeting::Ehlo, true, true) => "UTF8SMTPSA",
            (Greeting::Ehlo, false, false) => "ESMTPA",
            (Greeting::Ehlo, true, false) => "UTF8SMTPA",
            // HELO after a login: RFC 3848 has no name for it, so the one without extensions.
            _ => "SMTP",
        }
    }
}

/// Converts any client name to a form that fits into a header field.
pub(super) fn fit_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed(NAMELESS);
    }
    if name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(name);
    }
    let fit = |c: char| match c {
        ' ' | '\t' => '-',
        c if c.is_ascii_graphic() => c,
        _ => '?',
    };
    Cow::Owned(name.chars().map(fit).collect())
}

/// Name of a client without a name.
const NAMELESS: &str = "unknown";

const BDAT_SYNTAX: &str = "Syntax: BDAT octets [LAST]";

fn is_bdat(start: &[u8]) -> bool {
    start.eq_ignore_ascii_case(b"BDAT")
}

fn describe(error: LineError) -> &'static str {
    match error {
        LineError::BareNewline => "Bare CR or LF in command; lines must end with CRLF",
        LineError::Control => "Control character in command",
        LineError::NotUtf8 => "Command is neither ASCII nor UTF-8",
    }
}

/// The text after `word`, compared without case.
fn behind<'a>(argument: &'a str, word: &str) -> Option<&'a str> {
    let start = argument.get(..word.len())?;
    if start.eq_ignore_ascii_case(word) { argument.get(word.len()..) } else { None }
}

fn no_argument(argument: &str) -> Result<(), Reply> {
    if argument.is_empty() { Ok(()) } else { Err(replies::argument("No argument allowed")) }
}

/// RFC 6531 §3.5.
fn ascii_or(path: &str, smtputf8: bool) -> Result<(), Reply> {
    if smtputf8 || path.is_ascii() {
        return Ok(());
    }
    Err(Reply::new(553, (5, 6, 7), "Non-ASCII address requires SMTPUTF8"))
}

fn bad_sender(why: impl std::fmt::Display) -> Reply {
    Reply::new(501, (5, 1, 7), format!("Bad sender address: {why}"))
}

fn bad_recipient(why: impl std::fmt::Display) -> Reply {
    Reply::new(501, (5, 1, 3), format!("Bad recipient address: {why}"))
}

fn bdat_syntax() -> Reply {
    replies::argument(BDAT_SYNTAX)
}

/// Parameters belong to extensions, which HELO does not enable (RFC 5321 §4.1.1.11).
fn may_have(greeting: Greeting, parameters: &str) -> Result<(), Reply> {
    if greeting == Greeting::Helo && !parameters.trim_ascii().is_empty() {
        return Err(Reply::new(555, (5, 5, 4), "MAIL and RCPT parameters require EHLO"));
    }
    Ok(())
}
