//! `sendmail`, `mailq` and `newaliases`: the commands by which programs of a machine send mail (docs/sendmail.md).
//!
//! The message goes to the running server over the socket of its `local` listener, by SMTP. So its reply is the
//! server's own: on exit code 0 the message is on disk.

mod addresses;
pub(crate) mod drop_file;
mod mailq;
mod message;
mod options;
mod place;
pub(crate) mod session;

use crate::cli::{Cli, Command};
use clap::Parser as _;
use mail::dsn::xtext;
use message::Message;
use nix::unistd::{Uid, User};
use options::{Options, SendmailMode};
use place::{Place, Unopened};
use session::{
    SubmitOutcome, SubmitReply, SubmittedContent, SubmittedEnvelope, exit_code, is_printable,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// Names of the program that make it one of these commands.
const NAMES: [&str; 3] = ["sendmail", "mailq", "newaliases"];

/// The command that the program was started as, by its name; `None`: `postrider` itself.
pub(crate) fn by_name(program: Option<&OsStr>) -> Option<&'static str> {
    let name = Path::new(program?).file_name()?;
    NAMES.into_iter().find(|known| *known == name)
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(name: &str, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Result<Vec<String>, _> = words.into_iter().map(OsString::into_string).collect();
    let Ok(words) = words else {
        return ExitCode::from(failed("the command line is not UTF-8", exit_code::USAGE));
    };
    let options = match options::parse(name, &words) {
        Ok(options) => options,
        Err(why) => return ExitCode::from(failed(&why, exit_code::USAGE)),
    };
    for warning in &options.warnings {
        eprintln!("sendmail: {warning}");
    }
    ExitCode::from(match &options.mode {
        SendmailMode::Nothing => exit_code::OK,
        SendmailMode::List => mailq::list(options.config.as_deref()),
        SendmailMode::Retry(words) => return retry(&options, words),
        SendmailMode::Smtp => serve_smtp(&options),
        SendmailMode::Verify => with_envelope(&options, verify),
        SendmailMode::Send => with_envelope(&options, send),
    })
}

fn failed(why: &str, code: u8) -> u8 {
    eprintln!("sendmail: {why}");
    code
}

/// Runs `postrider queue retry` with these arguments.
fn retry(options: &Options, words: &[String]) -> ExitCode {
    let config = options.config.as_ref().map(|path| path.display().to_string());
    let named = config.map(|path| vec!["--config".to_owned(), path]).unwrap_or_default();
    let line = ["postrider", "queue", "retry"].map(str::to_owned).into_iter();
    match Cli::try_parse_from(line.chain(named).chain(words.iter().cloned())) {
        Ok(Cli { command: Command::Queue(args) }) => {
            let done = crate::commands::queue::run(&args);
            if done == ExitCode::SUCCESS { done } else { ExitCode::from(exit_code::UNAVAILABLE) }
        }
        _ => ExitCode::from(failed("not a message id or a domain", exit_code::USAGE)),
    }
}

/// The user that runs the command.
struct Caller {
    login: String,
    /// The first field of its entry's comment.
    full_name: Option<String>,
}

impl Caller {
    fn find() -> Caller {
        let uid = Uid::current();
        let found = User::from_uid(uid).ok().flatten();
        let Some(found) = found else {
            return Caller { login: uid.to_string(), full_name: None };
        };
        let comment = found.gecos.to_string_lossy();
        let name = comment.split(',').next().unwrap_or_default().trim();
        let full_name = (!name.is_empty()).then(|| name.replace('&', &found.name));
        Caller { login: found.name, full_name }
    }
}

/// Reads the message, and runs `work` with it and its envelope.
fn with_envelope(
    options: &Options,
    work: fn(&Options, &SubmittedEnvelope, &Message, &Caller) -> u8,
) -> u8 {
    let is_sent = options.mode == SendmailMode::Send;
    if is_sent && options.recipients.is_empty() && !options.takes_header {
        let why = "no recipients: name them on the command line, or in the header with -t";
        return failed(why, exit_code::USAGE);
    }
    let input: &mut dyn io::Read = if is_sent { &mut io::stdin().lock() } else { &mut io::empty() };
    let message = match message::read(input, !options.ignores_dots) {
        Ok(message) => message,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return failed(&error.to_string(), exit_code::DATA_ERROR);
        }
        Err(error) => return failed(&format!("standard input: {error}"), exit_code::IO_ERROR),
    };
    let mut lists = options.recipients.clone();
    if options.takes_header {
        lists.extend(message.recipients());
    }
    let mut recipients: Vec<String> = Vec::new();
    for recipient in lists.iter().flat_map(|list| addresses::addresses_of(list)) {
        if !recipients.contains(&recipient) {
            recipients.push(recipient);
        }
    }
    if recipients.is_empty() {
        return failed("no recipient addresses", exit_code::USAGE);
    }
    let caller = Caller::find();
    let sender = options.sender.clone().unwrap_or_else(|| caller.login.clone());
    if !is_printable(&sender) {
        return failed("the sender is no address", exit_code::DATA_ERROR);
    }
    let envelope = SubmittedEnvelope {
        sender,
        recipients,
        is_8bit: options.is_8bit,
        notify: options.notify.clone(),
        ret: options.ret.map(str::to_owned),
        envid: options.envid.as_deref().map(xtext::encode),
    };
    work(options, &envelope, &message, &caller)
}

fn send(options: &Options, envelope: &SubmittedEnvelope, message: &Message, by: &Caller) -> u8 {
    let content =
        message.content(&from_field(options, envelope, message, by), options.takes_header);
    let is_8bit = envelope.is_8bit || !content.is_ascii();
    let envelope = &SubmittedEnvelope { is_8bit, ..envelope.clone() };
    let place = match Place::find(options.config.as_deref()) {
        Ok(place) => place,
        Err(code) => return code,
    };
    let mut outcome = match place.open() {
        Ok(mut session) => {
            let source = io::Cursor::new(&content);
            let mut whole = SubmittedContent::new(source, 0, content.len() as u64);
            let outcome = session.submit(envelope, &mut whole);
            session.quit();
            outcome
        }
        Err(Unopened::Refused(reply)) => return refused(&reply),
        Err(Unopened::Down(why)) => {
            let deferred = envelope.recipients.clone();
            SubmitOutcome { deferred, reason: Some(why), ..SubmitOutcome::default() }
        }
    };
    for (recipient, reply) in &outcome.refused {
        let about = if recipient.is_empty() { String::new() } else { format!("{recipient}: ") };
        eprintln!("sendmail: {about}{} {}", reply.code, reply.text);
    }
    if !outcome.deferred.is_empty() {
        let recipients = std::mem::take(&mut outcome.deferred);
        let left = SubmittedEnvelope { recipients, ..envelope.clone() };
        if let Err(why) = place.leave(&left, &content) {
            let reason = outcome.reason.unwrap_or_default();
            let recipients = left.recipients.join(", ");
            return failed(&format!("{recipients}: {reason}; {why}"), exit_code::TEMPORARY);
        }
    }
    outcome.refused.first().map_or(exit_code::OK, |(_, reply)| reply.exit_code())
}

fn verify(options: &Options, envelope: &SubmittedEnvelope, _: &Message, _: &Caller) -> u8 {
    let opened = Place::find(options.config.as_deref()).map(|place| place.open());
    let mut session = match opened {
        Ok(Ok(session)) => session,
        Ok(Err(Unopened::Refused(reply))) => return refused(&reply),
        Ok(Err(Unopened::Down(why))) => return failed(&why, exit_code::TEMPORARY),
        Err(code) => return code,
    };
    let replies = match session.verify(envelope) {
        Ok(replies) => replies,
        Err(error) => return failed(&error.to_string(), exit_code::TEMPORARY),
    };
    session.quit();
    let mut code = exit_code::OK;
    for (recipient, reply) in &replies {
        let is_refused = reply.code / 100 != 2;
        if is_refused && code == exit_code::OK {
            code = reply.exit_code();
        }
        let result = if is_refused { "undeliverable" } else { "deliverable" };
        println!("{recipient}... {result}: {} {}", reply.code, reply.text);
    }
    code
}

/// The From field of a message that has none, with the sender's full name.
fn from_field(
    options: &Options,
    envelope: &SubmittedEnvelope,
    message: &Message,
    by: &Caller,
) -> String {
    let is_resent = ["Resent-To", "Resent-Cc", "Resent-Bcc"].iter().any(|name| message.has(name));
    let field = if is_resent { "Resent-From" } else { "From" };
    if message.has(field) {
        return String::new();
    }
    let address = if envelope.sender.is_empty() { &by.login } else { &envelope.sender };
    let variable = std::env::var("NAME").ok().filter(|name| !name.is_empty());
    let name = options.full_name.clone().or(variable).or_else(|| by.full_name.clone());
    let name: String = name.unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    match name.trim() {
        "" => format!("{field}: {address}\r\n"),
        name => {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            let is_phrase =
                name.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~ ".contains(c));
            let name = if is_phrase { name.to_owned() } else { format!("\"{quoted}\"") };
            format!("{field}: {name} <{address}>\r\n")
        }
    }
}

/// Passes SMTP between standard input and output and the server. Each command waits for the reply to the one before:
/// scripts send all at once, and the server refuses content before its 354 (RFC 5321 §4.1.1.4).
fn relay_smtp(stream: UnixStream) -> io::Result<()> {
    let mut server = BufReader::new(stream);
    let mut input = io::stdin().lock();
    let mut code = pass_reply(&mut server)?;
    while !matches!(code.as_slice(), b"" | b"221" | b"421") {
        let Some(line) = next_line(&mut input)? else { return Ok(()) };
        server.get_mut().write_all(&line)?;
        let word = line.get(..4).unwrap_or_default();
        if word.eq_ignore_ascii_case(b"BDAT") {
            let text = String::from_utf8_lossy(&line);
            let bytes = text.split_whitespace().nth(1).and_then(|bytes| bytes.parse().ok());
            let bytes: u64 = bytes.unwrap_or(0);
            if io::copy(&mut input.by_ref().take(bytes), server.get_mut())? < bytes {
                return Err(cut_off());
            }
        }
        code = pass_reply(&mut server)?;
        if code == b"354" {
            loop {
                let line = next_line(&mut input)?.ok_or_else(cut_off)?;
                server.get_mut().write_all(&line)?;
                if line == b".\r\n" {
                    break;
                }
            }
            code = pass_reply(&mut server)?;
        }
    }
    Ok(())
}

/// The server waits for the rest: the connection is closed without it, and the message is not accepted.
fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "standard input ends within the content")
}

/// A line of standard input, with CRLF. `None` at its end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = line.strip_suffix(b"\n").unwrap_or(&line);
    let text_bytes = text.strip_suffix(b"\r").unwrap_or(text).len();
    line.truncate(text_bytes);
    line.extend_from_slice(b"\r\n");
    Ok(Some(line))
}

/// Passes a whole reply to standard output, and returns its code; nothing at the end of the connection.
fn pass_reply(server: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut output = io::stdout().lock();
    loop {
        let mut line = Vec::new();
        server.read_until(b'\n', &mut line)?;
        output.write_all(&line)?;
        if line.get(3) != Some(&b'-') {
            output.flush()?;
            line.truncate(3);
            return Ok(line);
        }
    }
}

fn serve_smtp(options: &Options) -> u8 {
    match Place::find(options.config.as_deref()).map(|place| place.connect()) {
        Ok(Ok(stream)) => match relay_smtp(stream) {
            Ok(()) => exit_code::OK,
            Err(error) => failed(&error.to_string(), exit_code::IO_ERROR),
        },
        Ok(Err(why)) => failed(&why, exit_code::TEMPORARY),
        Err(code) => code,
    }
}

fn refused(reply: &SubmitReply) -> u8 {
    failed(&format!("{} {}", reply.code, reply.text), reply.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_program_are_known() {
        let name = |path: &str| by_name(Some(OsStr::new(path)));
        assert_eq!(name("/usr/sbin/sendmail"), Some("sendmail"));
        assert_eq!(name("mailq"), Some("mailq"));
        assert_eq!(name("/usr/bin/postrider"), None);
        assert_eq!(by_name(None), None);
    }

    #[test]
    fn envelope_ids_are_xtext() {
        assert_eq!(xtext::encode("a+b=c d"), "a+2Bb+3Dc+20d");
    }
}
