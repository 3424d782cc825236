//! Thousands of sessions that say nothing.

use super::client::Client;
use super::{Findings, LimitsOptions, config, open_files};
use crate::prove::relay::Relay;
use crate::stand::certificate::{Certificate, KeyKind};
use crate::stand::{Error, Result};
use load::ledger::Audit;
use load::proc::Memory;
use load::tls::{self, Handshakes};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::Ipv4Addr;
use std::time::Instant;

/// Sessions that may come beside the idle ones.
const BESIDE: u32 = 40;
/// Sessions from one address, for the sake of its ports.
const PER_ADDRESS: u32 = 5_000;

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    let allowed = u64::from(options.sessions + BESIDE) + 100;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|max| max < allowed) {
        return Err(Error::Missing(format!("this needs {allowed} open files (ulimit -Hn)")));
    }
    // Refused: then connecting fails, which is told.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let sessions_max = options.sessions + BESIDE;
    let timeout = options.idle_timeout;
    let listener = format!(
        "max_sessions = {sessions_max}\nmax_sessions_per_address = {sessions_max}\n\
         command_timeout = \"{timeout}s\""
    );
    relay.stand.start_sink(&[])?;
    let encryption = options.tls.then(|| encryption(relay)).transpose()?;
    let (certificate, tls) = encryption.unzip();
    let (listener, certificate) = match certificate {
        Some(section) => (listener + "\ntls = \"starttls\"", section),
        None => (listener, String::new()),
    };
    relay.configure(&(config(relay, "", &listener) + &certificate))?;
    relay.start()?;
    relay.wait_listening()?;
    // What is allocated once is no cost of a session.
    let before = relay.send(options.messages, &["--sessions", "20"])?;
    findings.note("messages/s without them", before["messages_per_second"].clone());
    let pid = relay.pid()?;
    let memory = resident_bytes(pid)?;
    let begun = Instant::now();
    let mut held = open(options.sessions, relay, tls.as_ref())?;
    findings.note("seconds to open them", begun.elapsed().as_secs_f64());
    let with_them = resident_bytes(pid)?;
    let each = with_them.saturating_sub(memory) / u64::from(options.sessions.max(1));
    findings.note("resident bytes before", memory);
    findings.note("resident bytes with them", with_them);
    findings.note("bytes per idle session", each);
    let beside = relay.send(options.messages, &["--sessions", "20"])?;
    findings.note("messages/s beside them", beside["messages_per_second"].clone());
    findings.expect(beside["acked"] == options.messages, || format!("beside them: {beside}"));

    turned_away(relay, findings)?;
    let first = held[0].reply()?;
    findings.note("seconds to the first timeout", begun.elapsed().as_secs_f64());
    findings.expect(first.starts_with("421"), || format!("idleness was ended with {first:?}"));
    findings.note("reply to idleness", first);
    for client in held.iter_mut().skip(1) {
        let last = client.reply()?;
        findings.expect(last.starts_with("421"), || format!("idleness was ended with {last:?}"));
    }
    drop(held);
    let after = relay.send(options.messages, &["--sessions", "20"])?;
    findings.expect(after["acked"] == options.messages, || format!("afterwards: {after}"));
    findings.note("open files afterwards", open_files(pid)?);
    findings.account(relay, 0)
}

/// Opens so many sessions that are idle after EHLO.
fn open(sessions: u32, relay: &Relay, tls: Option<&tls::TlsClient>) -> Result<Vec<Client>> {
    let mut held = Vec::new();
    for number in 0..sessions {
        let from = Ipv4Addr::new(127, 0, 0, 2 + (number / PER_ADDRESS) as u8);
        let mut client = Client::connect(&relay.address, from)?;
        let greeting = client.reply()?;
        if !greeting.starts_with("220") {
            let text = format!("session {number} was greeted with {greeting}");
            return Err(Error::Server(text));
        }
        if let Some(tls) = tls {
            client = client.encrypted(tls)?;
        }
        // Idle after EHLO, as a peer that keeps its connection is.
        client.say("EHLO idle.test")?;
        held.push(client);
    }
    Ok(held)
}

/// The section of a certificate that is made for it, and what connects to it.
fn encryption(relay: &Relay) -> Result<(String, tls::TlsClient)> {
    let certificate = Certificate::make(&relay.directory().join("tls"), KeyKind::EcdsaP256)?;
    let client = tls::TlsClient::new(Handshakes::Full);
    Ok((certificate.section(), client.map_err(|error| Error::Server(format!("TLS: {error}")))?))
}

/// Goes over the limit of sessions, and back.
fn turned_away(relay: &Relay, findings: &mut Findings) -> Result<()> {
    let mut more = Vec::new();
    let mut refusal = None;
    for _ in 0..BESIDE + 10 {
        let mut client = Client::connect(&relay.address, Ipv4Addr::LOCALHOST)?;
        let greeting = client.reply()?;
        if !greeting.starts_with("220") {
            refusal = Some(greeting);
            break;
        }
        more.push(client);
    }
    findings.note("accepted beside them", more.len());
    findings.expect(refusal.as_deref().is_some_and(|reply| reply.starts_with("421 4.3.2")), || {
        format!("reply beyond the limit of sessions: {refusal:?}")
    });
    findings.note("reply beyond the limit", refusal);
    Ok(())
}

/// Resident memory now.
///
/// # Errors
/// When the process has ended.
fn resident_bytes(pid: u32) -> Result<u64> {
    let memory =
        Memory::of(pid).map_err(|error| Error::Server(format!("process {pid}: {error}")))?;
    Ok(memory.rss_bytes)
}
