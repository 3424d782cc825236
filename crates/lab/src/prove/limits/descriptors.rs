//! More clients come than there are descriptors for.

use super::client::Client;
use super::{CONNECTIONS_MAX, Findings, LimitsOptions, config, open_files};
use crate::prove::relay::Relay;
use crate::stand::{Error, Result};
use load::ledger::Audit;
use load::proc::Usage;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Nothing is delivered for so long when nothing more will be.
const DELIVERY_MAX: Duration = Duration::from_secs(20);
/// How long the exhausted relay is watched.
const WATCH: Duration = Duration::from_secs(2);

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    relay.files_max = Some(options.files);
    relay.configure(&config(relay, "", ""))?;
    relay.start()?;
    relay.wait_listening()?;
    let report = relay.send(options.messages, &[])?;
    findings.expect(report["acked"] == options.messages, || format!("before: {report}"));
    // Some in files of their own: to send them takes a descriptor each.
    let blobs = relay.send(20, &["--body-bytes", "100000"])?;
    findings.expect(blobs["acked"] == 20, || format!("before: {blobs}"));
    let pid = relay.pid()?;
    findings.note("open files before", open_files(pid)?);

    let mut held = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..options.files * 2 {
        let mut client = Client::connect(&relay.address, Ipv4Addr::LOCALHOST)?;
        let greeting = client.reply()?;
        if greeting.starts_with("220") {
            held.push(client);
        } else {
            refused.push(greeting);
        }
    }
    findings.note("sessions", held.len());
    findings.note("refused", refused.len());
    findings.note("reply", refused.first().cloned());
    findings.note("open files", open_files(pid)?);
    findings.expect(!held.is_empty() && !refused.is_empty(), || "no limit was met".to_owned());
    let other = refused.iter().find(|reply| !reply.starts_with("421 4.3.2"));
    findings.expect(other.is_none(), || format!("a client was refused with {other:?}"));
    let before = cpu_ms(pid)?;
    std::thread::sleep(WATCH);
    let spent = cpu_ms(pid)? - before;
    findings.note("CPU milliseconds in 2 s", spent);
    findings.expect(spent < WATCH.as_millis() as u64 / 2, || format!("it spins: {spent} ms"));
    findings.expect(held[0].say("NOOP")?.starts_with("250"), || "NOOP has no answer".to_owned());

    // Egress, the spool and the operator have descriptors of their own.
    let listed = relay.ask(&["queue", "list"])?;
    findings.expect(!listed.is_empty(), || "queue list says nothing".to_owned());
    relay.stand.start_sink(&[])?;
    let acked = relay.audit()?.acked_recipients;
    let arrived = relay.stand.wait_delivered(acked, DELIVERY_MAX)?;
    findings.note("delivered beside them", arrived);
    findings.expect(arrived == acked, || format!("only {arrived} of {acked} were delivered"));
    findings.note("open files while delivering", open_files(pid)?);

    held.clear();
    let after = relay.send(options.messages, &["--reconnect", "30"])?;
    findings.expect(after["acked"] == options.messages, || format!("afterwards: {after}"));
    findings.account(relay, CONNECTIONS_MAX)
}

/// Processor time so far, in milliseconds.
///
/// # Errors
/// When the process has ended.
fn cpu_ms(pid: u32) -> Result<u64> {
    let usage =
        Usage::of_one(pid).map_err(|error| Error::Server(format!("process {pid}: {error}")))?;
    Ok((usage.cpu_seconds() * 1000.0) as u64)
}
