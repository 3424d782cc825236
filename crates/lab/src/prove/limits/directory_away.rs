//! The directory of recipients ends under load, or falls silent, and returns.

use super::client::Client;
use super::{Findings, LimitsOptions, config_of_route};
use crate::prove::relay::Relay;
use crate::stand::directory::slapd::{PATH_ATTRIBUTE, PEOPLE, Slapd, find};
use crate::stand::directory::{Population, User};
use crate::stand::{Error, Result};
use load::file;
use load::ledger::Audit;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Users that mail keeps coming for: those whose entries are in the cache.
const KNOWN: u64 = 500;
/// Messages per second that keep coming for them.
const RATE: u64 = 500;
/// A question waits for the directory for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Once it is back others than those in the cache are found within this time: the pauses of the
/// circuit breaker, and a question.
const BACK_MAX: Duration = Duration::from_secs(40);

/// In which way it is away.
#[derive(Clone, Copy, Debug)]
enum Absence {
    /// Its process has ended: connections are refused.
    Ended,
    /// Its process is stopped: connections stay, and nothing is answered.
    Silent,
}

impl Absence {
    fn name(self) -> &'static str {
        match self {
            Absence::Ended => "ended",
            Absence::Silent => "silent",
        }
    }
}

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    find()?;
    let users = Population::make(&relay.directory().join("users"), options.users, KNOWN, 1)?;
    let log = relay.directory().join("slapd.log");
    let mut slapd = Slapd::start(&users, &log)?;
    relay.configure(&lookups(relay, slapd.address()))?;
    relay.start()?;
    relay.wait_listening()?;
    relay.stand.start_sink(&[])?;
    relay.whom = ["--recipients".to_owned(), users.recipients().display().to_string()].to_vec();
    let report = relay.send(KNOWN, &["--sessions", "20"])?;
    findings.expect(report["acked"] == KNOWN, || format!("before: {report}"));
    let rate = RATE.to_string();
    relay
        .start_source("steady", &["--sessions", "50", "--per-session", "1..3", "--rate", &rate])?;

    let known: HashSet<String> =
        file::read(&users.recipients())?.lines().map(str::to_owned).collect();
    let mut strangers = users.users().map(User::address).filter(|user| !known.contains(user));
    for absence in [Absence::Ended, Absence::Silent] {
        let (address, before) = (slapd.address().to_owned(), relay.stand.accepted_now()?);
        let left = match absence {
            Absence::Ended => {
                slapd.stop()?;
                None
            }
            Absence::Silent => {
                slapd.pause(true)?;
                Some(slapd)
            }
        };
        watch(options, relay, findings, (absence, before), &mut strangers)?;
        slapd = match left {
            Some(mut stopped) => {
                stopped.pause(false)?;
                stopped
            }
            None => Slapd::start_at(address, &users, &log)?,
        };
        let user = strangers.next().ok_or_else(too_few)?;
        let back = wait_back(relay, &user)?;
        let name = format!("{}: seconds from its return to an answer", absence.name());
        findings.note(&name, back.as_secs_f64());
    }
    relay.stop_sources()?;
    let refused = relay.stand.refused_for_now()?;
    findings.note("refused for now, of those in the cache", refused);
    findings.expect(refused == 0, || format!("{refused} messages for known users were deferred"));
    let audit = findings.account(relay, 0)?;
    slapd.stop()?;
    Ok(audit)
}

/// Asks for users that nobody asked for before, while mail for others keeps coming.
fn watch(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
    (absence, before): (Absence, u64),
    strangers: &mut impl Iterator<Item = String>,
) -> Result<()> {
    let begun = Instant::now();
    let lasts = Duration::from_secs(options.seconds);
    let mut slowest = Duration::ZERO;
    let mut asked = 0_u64;
    while begun.elapsed() < lasts {
        let user = strangers.next().ok_or_else(too_few)?;
        let asking = Instant::now();
        let reply = recipient(&relay.address, &user)?;
        slowest = slowest.max(asking.elapsed());
        asked += 1;
        findings.expect(reply.starts_with("451 4.4.3"), || format!("{absence:?}: {user}: {reply}"));
        relay.stand.check_running()?;
        std::thread::sleep(Duration::from_millis(200));
    }
    let accepted = relay.stand.accepted_now()? - before;
    let name = absence.name();
    findings.note(&format!("{name}: seconds"), begun.elapsed().as_secs_f64());
    findings.note(&format!("{name}: accepted during the failure"), accepted);
    findings.note(&format!("{name}: users looked up"), asked);
    findings.note(&format!("{name}: slowest answer in seconds"), slowest.as_secs_f64());
    findings
        .expect(slowest < PATIENCE * 2, || format!("{absence:?}: a session waited {slowest:?}"));
    // Half of what was offered (the machine may be slow) once it is known that nobody answers: until then a
    // question waits, and what is stale serves after that.
    let least = options.seconds.saturating_sub(PATIENCE.as_secs()) * RATE / 2;
    findings.expect(accepted >= least, || {
        format!("{absence:?}: {accepted} messages for known users were taken, {least} expected")
    });
    Ok(())
}

/// Waits until a user is found whom nobody has asked for; the time that it took.
fn wait_back(relay: &Relay, user: &str) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        let reply = recipient(&relay.address, user)?;
        if reply.starts_with("250") {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > BACK_MAX {
            let text = format!("the directory is back, and {user} still gets {reply}");
            return Err(Error::Server(text));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a client is told of a recipient.
fn recipient(to: &str, user: &str) -> Result<String> {
    let mut client = Client::connect(to, Ipv4Addr::LOCALHOST)?;
    client.reply()?;
    client.say("EHLO probe.test")?;
    client.say("MAIL FROM:<probe@source.test>")?;
    client.say(&format!("RCPT TO:<{user}>"))
}

fn too_few() -> Error {
    Error::Missing("more --users are needed: each user is looked up once".to_owned())
}

/// A relay that looks recipients up in the directory. What it knows it asks for again after a second, so
/// that what serves while nobody answers is what has gone stale.
fn lookups(relay: &Relay, directory: &str) -> String {
    let table = format!(
        r#"
[[table]]
name = "users"
ldap = {{ servers = ["ldap://{directory}"], base = "{PEOPLE}", filter = "(mail=%s)", attributes = ["{PATH_ATTRIBUTE}"] }}
cache = {{ positive = "1s", negative = "1s", stale = "1h", timeout = "{}s" }}
"#,
        PATIENCE.as_secs()
    );
    config_of_route(relay, "", "", "recipients = { table = \"users\" }") + &table
}
