//! What is tried with each server.

use super::chain::{Chain, unfolded};
use super::contents;
use crate::support::client::{Client, queued_id};
use crate::support::wait_until;
use serde_json::json;

/// What every server in the middle refuses. Where a reply is fixed, it ends with these words:
/// `mail refused by the test`.
pub(crate) struct Refusal {
    /// Also the words' beginning.
    pub(crate) step: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) code: u16,
    pub(crate) status: &'static str,
}

const fn refusal(
    step: &'static str,
    from: &'static str,
    to: &'static str,
    code: u16,
    status: &'static str,
) -> Refusal {
    Refusal { step, from, to, code, status }
}

/// MAIL, RCPT, DATA and the content.
pub(crate) const REFUSALS: [Refusal; 4] = [
    refusal("mail", "at-mail@source.test", "mail@data.test", 550, "5.1.8"),
    refusal("rcpt", "me@source.test", "refused@data.test", 550, "5.1.1"),
    refusal("data", "at-data@source.test", "data@data.test", 554, "5.7.7"),
    refusal("dot", "at-dot@source.test", "dot@data.test", 554, "5.6.1"),
];
/// EHLO at the rude port.
pub(crate) const RUDE: &str = "550 5.7.9 helo refused by the test";
/// RCPT for [`DEFERRED`], until the gate is opened.
pub(crate) const DEFERRAL: &str = "451 4.7.1 deferred by the test";
pub(crate) const DEFERRED: &str = "deferred@data.test";
/// What it takes at most: more than the last server does, and than any of [`contents`] has.
pub(crate) const SIZE_MAX: usize = 2_000_000;

impl Refusal {
    /// The whole reply.
    pub(crate) fn reply(&self) -> String {
        format!("{} {} {} refused by the test", self.code, self.status, self.step)
    }
}

/// What a relay of ours in another language is told, as JSON.
pub(crate) fn orders(next_port: u16) -> String {
    let refusals: Vec<_> = REFUSALS
        .iter()
        .map(|refusal| json!([refusal.step, refusal.from, refusal.to, refusal.reply()]))
        .collect();
    let orders = json!({
        "next_port": next_port,
        "size_max": SIZE_MAX,
        "refusals": refusals,
        "rude": RUDE,
        "deferred": DEFERRED,
        "deferral": DEFERRAL,
    });
    orders.to_string()
}

/// All cases.
pub(crate) fn play(chain: &Chain) {
    contents_arrive_as_they_were(chain);
    refusals_are_told(chain);
    who_refuses_us_is_left_alone(chain);
    what_is_too_large_is_returned(chain);
    what_is_refused_further_on_is_returned(chain);
    what_is_put_off_is_tried_again(chain);
    what_was_asked_for_is_passed_on_or_answered(chain);
    several_recipients_arrive_once(chain);
}

fn send(client: &mut Client, to: &str, content: &[u8], chunked: bool) {
    client.say("MAIL FROM:<me@source.test> BODY=8BITMIME", "250");
    client.say(&format!("RCPT TO:<{to}>"), "250");
    if chunked {
        client.send(format!("BDAT {} LAST\r\n", content.len()));
        client.send(content);
        queued_id(&client.expect("250"));
    } else {
        client.say("DATA", "354");
        client.send(stuffed(content));
        queued_id(&client.say(".", "250"));
    }
}

/// RFC 5321 §4.5.2.
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|octet| *octet == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    out
}

fn contents_arrive_as_they_were(chain: &Chain) {
    let contents = contents::all();
    let mut client = chain.client();
    let mut sent = Vec::new();
    for content in &contents {
        let to = format!("{}@bdat.test", content.name);
        send(&mut client, &to, &content.octets, true);
        sent.push((to, content));
        // DATA can't be without it.
        if content.octets.ends_with(b"\r\n") {
            let to = format!("{}@data.test", content.name);
            send(&mut client, &to, &content.octets, false);
            sent.push((to, content));
        }
    }
    for (to, content) in &sent {
        let mut expected = content.octets.clone();
        if !expected.ends_with(b"\r\n") {
            expected.extend_from_slice(b"\r\n");
        }
        if content.name == "bare-header" && chain.hop.habits().ends_header {
            expected.extend_from_slice(b"\r\n");
        }
        let taken = chain.wait_taken(to).content;
        let Some(trace) = taken.strip_suffix(&expected[..]) else {
            let text = String::from_utf8_lossy(&taken[..taken.len().min(4000)]);
            panic!("{to} arrived as {} octets: {text:?}", taken.len());
        };
        let trace = unfolded(trace);
        let strange = trace.lines().find(|line| !line.starts_with("Received: "));
        assert_eq!(strange, None, "{to}: {trace}");
        assert_eq!(trace.matches("Received: ").count(), trace.lines().count(), "{to}: {trace}");
    }
    let messages = sent.len() as u64;
    let connections = chain.connections();
    // One for each of the two routes, and a few more where the server was faster than the client.
    assert!(connections <= messages / 3, "{connections} connections for {messages} messages");
}

fn refusals_are_told(chain: &Chain) {
    let mut client = chain.client();
    for refusal in &REFUSALS {
        let mut ways = vec![refusal.to.to_owned()];
        if refusal.step == "dot" {
            // The reply to BDAT LAST.
            ways.push(refusal.to.replace("data.test", "bdat.test"));
        }
        for to in &ways {
            client.mail(refusal.from, &[to], "Subject: refused\r\n\r\nx\r\n");
            let event = chain.wait_event("failed", to);
            let reply = event["reply"].as_str().unwrap_or_default();
            let words = format!("{} refused by the test", refusal.step);
            let begin = format!("{} {}", refusal.code, refusal.status);
            assert!(reply.starts_with(&begin) && reply.contains(&words), "{event}");
            assert_eq!(event["status"], refusal.status, "{event}");
            let report =
                chain.wait_taken_with(refusal.from, &format!("Final-Recipient: rfc822;{to}"));
            let report = unfolded(&report.content);
            for text in [
                &format!("Diagnostic-Code: smtp; {reply}"),
                &format!("Status: {}", refusal.status),
                "Action: failed",
                "Remote-MTA: dns; ",
            ] {
                assert!(report.contains(text), "no {text:?} in {report}");
            }
        }
    }
}

fn who_refuses_us_is_left_alone(chain: &Chain) {
    let mut client = chain.client();
    client.mail("me@source.test", &["u@rude.test"], "Subject: x\r\n\r\nx\r\n");
    chain.near_files.wait_events("suspended", 1);
    let event = &chain.near_files.events_of("suspended")[0];
    let reply = event["reply"].as_str().unwrap_or_default();
    assert!(reply.contains("helo refused by the test"), "{event}");
    assert_eq!(event["status"], "5.7.9", "{event}");
    let queued = chain.near.queue();
    assert!(queued.iter().any(|item| item.to_string().contains("u@rude.test")), "{queued:?}");
}

fn large(bytes: usize) -> String {
    let line = "0123456789 a line of a large message 0123456789 0123456789\r\n";
    format!("Subject: large\r\n\r\n{}", line.repeat(bytes / line.len()))
}

fn what_is_too_large_is_returned(chain: &Chain) {
    let mut client = chain.client();
    for way in ["data", "bdat"] {
        let to = format!("too-large@{way}.test");
        client.mail("me@source.test", &[&to], &large(SIZE_MAX + 100_000));
        let event = chain.wait_event("failed", &to);
        assert_eq!(event["status"], "5.3.4", "{event}");
        let final_recipient = format!("Final-Recipient: rfc822;{to}");
        let report = unfolded(&chain.wait_taken_with("me@source.test", &final_recipient).content);
        assert!(report.contains("Status: 5.3.4"), "{report}");
    }
}

/// The last server refuses; the one in the middle reports what that said, or gives it to us and we
/// do.
fn what_is_refused_further_on_is_returned(chain: &Chain) {
    let mut client = chain.client();
    let small = "Subject: x\r\n\r\nx\r\n".to_owned();
    for (to, content, reply) in
        [("ghost@nowhere.test", small, "550 5.1.2"), ("heavy@data.test", large(1_700_000), "5.3.4")]
    {
        if to.starts_with("heavy") && chain.hop.habits().returns_all {
            continue;
        }
        client.mail("me@source.test", &[to], &content);
        let kind = if chain.hop.habits().holds { "failed" } else { "relayed" };
        let event = chain.wait_event(kind, to);
        if chain.hop.habits().holds {
            assert!(event["reply"].to_string().contains(reply), "{event}");
        }
        let report = chain.wait_taken_with("me@source.test", to);
        let report = unfolded(&report.content);
        assert!(report.contains(reply), "no {reply:?} in {report}");
    }
    let refused = chain.far_files.events_of("refused");
    let is = |event: &&serde_json::Value| event["recipient"] == "ghost@nowhere.test";
    let event = refused.iter().find(is).expect("an event");
    assert_eq!(event["status"], "5.1.2", "{event}");
}

fn what_is_put_off_is_tried_again(chain: &Chain) {
    if !chain.hop.habits().retries {
        return;
    }
    let mut client = chain.client();
    client.mail("me@source.test", &[DEFERRED], "Subject: later\r\n\r\nx\r\n");
    let deferred = chain.wait_event("deferred", DEFERRED);
    let reply = deferred["reply"].as_str().unwrap_or_default();
    assert!(reply.starts_with("45"), "{deferred}");
    assert!(deferred["status"].to_string().starts_with("\"4."), "{deferred}");
    chain.hop.open_gate();
    let relayed = chain.wait_event("relayed", DEFERRED);
    let (time, due) = (relayed["time"].as_str(), deferred["next_try"].as_str());
    assert!(time.is_some() && time >= due, "{relayed} {deferred}");
    chain.wait_taken(DEFERRED);
}

fn what_was_asked_for_is_passed_on_or_answered(chain: &Chain) {
    let mut client = chain.client();
    client.say("MAIL FROM:<asks@source.test> RET=HDRS ENVID=a+2Bb", "250");
    client
        .say("RCPT TO:<dsn@data.test> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;old+2Bx@old.test", "250");
    client.say("DATA", "354");
    client.send("Subject: asks\r\n\r\nx\r\n");
    queued_id(&client.say(".", "250"));
    let taken = chain.wait_taken("dsn@data.test");
    let rcpt = &taken.rcpt[0];
    if chain.hop.habits().dsn {
        // RFC 3461 §5.2.1.
        assert!(taken.mail.contains(" RET=HDRS"), "{taken:?}");
        assert!(taken.mail.contains(" ENVID=a+2Bb"), "{taken:?}");
        assert!(rcpt.contains(" NOTIFY=SUCCESS,FAILURE"), "{taken:?}");
        // RFC 3461 §4.2: the type of address has no case.
        assert!(
            rcpt.replace("RFC822;", "rfc822;").contains(" ORCPT=rfc822;old+2Bx@old.test"),
            "{taken:?}"
        );
        return;
    }
    // RFC 3461 §5.2.2: here the way ends on which success would be reported.
    let report = chain.wait_taken("asks@source.test");
    let report = unfolded(&report.content);
    for text in [
        "Action: relayed",
        "Original-Envelope-Id: a+b",
        "Original-Recipient: rfc822;old+x@old.test",
        "Final-Recipient: rfc822;dsn@data.test",
        "Status: 2.",
    ] {
        assert!(report.contains(text), "no {text:?} in {report}");
    }
    assert!(!rcpt.contains("SUCCESS"), "{taken:?}");
}

fn several_recipients_arrive_once(chain: &Chain) {
    // More than the last server takes in a transaction.
    let count = if chain.hop.habits().retries { 150 } else { 8 };
    let names: Vec<String> = (0..count).map(|n| format!("many{n}@data.test")).collect();
    let mut to: Vec<&str> = names.iter().map(String::as_str).collect();
    to.insert(3, "refused@data.test");
    let mut client = chain.client();
    client.mail("several@source.test", &to, "Subject: many\r\n\r\nx\r\n");
    let arrived = || {
        let all = chain.end.taken();
        let mut all: Vec<String> = all.into_iter().flat_map(|taken| taken.rcpt).collect();
        all.retain(|rcpt| rcpt.contains("<many"));
        all
    };
    wait_until("all recipients", || arrived().len() >= count);
    let mut arrived = arrived();
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), count, "{arrived:?}");
    let about = "Final-Recipient: rfc822;refused@data.test";
    let report = unfolded(&chain.wait_taken_with("several@source.test", about).content);
    assert!(!report.contains("many0@data.test"), "{report}");
}
