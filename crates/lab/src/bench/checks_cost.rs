//! `bench checks`: what the checks of who sends cost for one message, with all records at hand.

use auth::checks::{Subject, Verdicts, check};
use auth::dkim::{Algorithm, SigningError, SigningIdentity, SigningKey, sign};
use auth::judgement::{ActionLimit, ActionLimits, PolicyAction, judge};
use auth::records::{DnsAnswer, Family, Records};
use auth::results::lines;
use auth::scan::{Scan, ScanOptions};
use auth::spf::{Sender, SpfQuery};
use comfy_table::{Table, presets};
use load::cpu::thread_time;
use load::stop::{CommandError, Outcome};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// As it is named on the command line.
pub(super) const NAME: &str = "checks";

/// Each figure is taken for so long unless the command line says otherwise.
const SECONDS: u64 = 3;

/// Of each message, with its header.
const CONTENT_BYTES: usize = 10_000;

/// When all of it happens, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// Who sends, and signs.
const DOMAIN: &str = "news.sender.example";

/// What is checked in a line of the result, and with what the message is signed.
const KINDS: [(&str, ActionLimits, Algorithm); 5] = [
    ("spf", ActionLimits { spf: ActionLimit::Mark, ..NOTHING }, Algorithm::RsaSha256),
    ("dkim, RSA 2048", ActionLimits { dkim: ActionLimit::Mark, ..NOTHING }, Algorithm::RsaSha256),
    (
        "dkim, Ed25519",
        ActionLimits { dkim: ActionLimit::Mark, ..NOTHING },
        Algorithm::Ed25519Sha256,
    ),
    ("spf, dkim, dmarc, RSA 2048", ALL, Algorithm::RsaSha256),
    ("spf, dkim, dmarc, Ed25519", ALL, Algorithm::Ed25519Sha256),
];

const NOTHING: ActionLimits = ActionLimits {
    client_name: ActionLimit::None,
    spf: ActionLimit::None,
    dkim: ActionLimit::None,
    dmarc: ActionLimit::None,
    arc: ActionLimit::None,
    defers: false,
};

const ALL: ActionLimits = ActionLimits {
    spf: ActionLimit::Mark,
    dkim: ActionLimit::Mark,
    dmarc: ActionLimit::Reject,
    ..NOTHING
};

/// The records of the sender, as a cache has them.
#[derive(Default)]
struct Cache(HashMap<String, Vec<Vec<u8>>>);

impl Cache {
    fn add(&mut self, name: String, text: String) {
        self.0.insert(name, vec![text.into_bytes()]);
    }
}

impl Records for Cache {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        Ok(self.0.get(name).cloned().unwrap_or_default())
    }

    async fn addresses(&self, _host: &str, _family: Family) -> DnsAnswer<IpAddr> {
        Ok(vec![CLIENT])
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        Ok(vec![format!("mx.{domain}")])
    }

    async fn names(&self, _address: IpAddr) -> DnsAnswer<String> {
        Ok(vec![format!("mx.{DOMAIN}")])
    }
}

/// A message with one signature, and what the DNS says of who sent it.
struct Case {
    content: Vec<u8>,
    records: Cache,
}

impl Case {
    fn make(algorithm: Algorithm) -> Result<Case, SigningError> {
        let unsigned = message();
        let key = SigningKey::generate(algorithm)?;
        let mut records = Cache::default();
        records.add(format!("s1._domainkey.{DOMAIN}"), key.record().ok_or(SigningError)?);
        // As senders have it that use somebody's service beside their own hosts: three lookups.
        records.add(DOMAIN.into(), "v=spf1 include:_spf.esp.example mx -all".into());
        records.add("_spf.esp.example".into(), "v=spf1 include:_a.esp.example ~all".into());
        records.add(
            "_a.esp.example".into(),
            "v=spf1 ip4:198.51.100.0/24 ip4:192.0.2.0/24 ~all".into(),
        );
        records.add(
            "_dmarc.sender.example".into(),
            "v=DMARC1; p=reject; rua=mailto:d@sender.example".into(),
        );
        let mut scan = Scan::new(ScanOptions { to_sign: true, ..ScanOptions::default() });
        scan.push(&unsigned);
        let signer =
            SigningIdentity { domain: DOMAIN.into(), selector: "s1".into(), key: Arc::new(key) };
        let fields = sign(&[signer], &scan.finish(), b"", NOW)?;
        let mut content = Vec::with_capacity(CONTENT_BYTES + 1_000);
        for field in fields {
            content.extend_from_slice(field.join("\r\n\t").as_bytes());
            content.extend_from_slice(b"\r\n");
        }
        content.extend_from_slice(&unsigned);
        Ok(Case { content, records })
    }

    /// All that is done about the message between its first octet and its custody.
    fn check(&self, powers: &ActionLimits) -> (Verdicts, PolicyAction) {
        let mut scan = powers.asked().scan();
        scan.push(&self.content);
        let message = scan.finish();
        let sender = Sender { local: "news", domain: DOMAIN };
        let question = SpfQuery {
            client: CLIENT,
            sender: Some(sender),
            helo: "mx.news.sender.example",
            receiver: "mx.here.example",
            now: NOW,
        };
        let subject = Subject { question: Some(question), message: &message, now: NOW, chance: 50 };
        let verdicts = at_once(check(&self.records, powers.asked(), subject));
        black_box(lines("mx.here.example", &verdicts));
        let judgement = judge(powers, &verdicts);
        (verdicts, judgement)
    }
}

/// Ten fields, and text in lines of 78 octets.
fn message() -> Vec<u8> {
    let mut message = format!(
        "From: News <news@{DOMAIN}>\r\nTo: reader@here.example\r\nSubject: news of the week\r\n\
         Date: Fri, 15 Jan 2027 08:00:00 +0000\r\nMessage-ID: <1@{DOMAIN}>\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\
         List-Unsubscribe: <https://{DOMAIN}/u/1>\r\n\
         List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\r\n"
    )
    .into_bytes();
    let line = "A line of text, with signs  and some blanks in it, as long as lines are.  \r\n";
    while message.len() < CONTENT_BYTES {
        message.extend_from_slice(line.as_bytes());
    }
    message
}

/// What a future gives that has all it asks for.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("every record is at hand"),
    }
}

/// One line of the result.
struct CheckCost {
    checks: &'static str,
    /// Processor time for each message, in microseconds.
    us: f64,
}

/// The command: a line for each set of checks.
pub(super) fn run(seconds: Option<u64>, as_json: bool) -> Outcome {
    let lasts = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let lines = measure(lasts).map_err(|_| CommandError::new("no key could be made".to_owned()))?;
    if as_json {
        let to_json = |line: &CheckCost| json!({ "checks": line.checks, "us": line.us });
        println!("{}", Value::from_iter(lines.iter().map(to_json)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(["checks", "µs"]);
    for line in lines {
        table.add_row([line.checks.to_owned(), format!("{:.1}", line.us)]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn measure(lasts: Duration) -> Result<Vec<CheckCost>, SigningError> {
    let mut lines = Vec::with_capacity(KINDS.len());
    for (checks, powers, algorithm) in KINDS {
        let case = Case::make(algorithm)?;
        let begun = thread_time();
        let mut count = 0u32;
        let used = loop {
            black_box(case.check(&powers));
            count += 1;
            let used = thread_time().saturating_sub(begun);
            if used >= lasts {
                break used;
            }
        };
        lines.push(CheckCost { checks, us: used.as_secs_f64() * 1e6 / f64::from(count) });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::checks::CheckSelection;

    #[test]
    fn what_is_measured_passes_every_check() {
        for (checks, powers, algorithm) in KINDS {
            let case = Case::make(algorithm).expect("a case");
            let (verdicts, judgement) = case.check(&powers);
            let summary = verdicts.summary();
            let CheckSelection { spf, dkim, dmarc, .. } = powers.asked();
            assert_eq!(
                summary.spf.map(auth::spf::SpfResult::as_str),
                (spf || dmarc).then_some("pass")
            );
            assert_eq!(
                summary.dkim.map(auth::dkim::DkimResult::as_str),
                (dkim || dmarc).then_some("pass")
            );
            assert_eq!(
                summary.dmarc.map(auth::dmarc::DmarcResult::as_str),
                dmarc.then_some("pass")
            );
            assert_eq!(judgement, PolicyAction::Take, "{checks}");
        }
        let lines = measure(Duration::from_millis(1)).expect("measured");
        assert!(lines.iter().all(|line| line.us > 1.0));
    }
}
