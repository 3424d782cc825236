//! Sends mail, as fast as it is taken or at a given rate.

mod content;
mod course;
mod fields;
mod pace;
mod recipients;
mod reply;
mod report;
mod session;
mod span;

pub(crate) use content::sizes;
pub use content::{BODY_FIELD, Bodies, BodyKind, ID_FIELD, PreparedBody};
pub(crate) use course::{Conduct, SourceRun};
pub use fields::{FixedField, VariedField};
pub use pace::{Pace, Ticket};
pub use recipients::Recipients;
pub(crate) use reply::{Offered, ReplyReader};
pub use span::Span;

use crate::listener::resolve;
use crate::random::{Random, weight};
use crate::stop::{CommandError, Outcome};
use crate::tls::{HandshakeCount, Handshakes, TlsClient};
use crate::words::{Line, Words, lines};
use fields::ExtraFields;
use session::{Run, Session};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Send messages and report rates and latencies.
///
/// Each message has a unique id. After a broken connection the source connects again and continues
/// with new ids; `ledger` finds out whether the doubtful message arrived.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Latency is measured from the start of a message (with --rate: from its scheduled time) to its final \
reply. It includes the time to connect if the message needs a new connection.

Exit codes (the ledger is complete with each):
  0  all messages were acknowledged
  1  messages were refused, or their result is unknown
  2  the command line or a file is wrong
  3  no connection was possible for --reconnect seconds
  4  stopped by SIGTERM or Ctrl-C")]
pub struct SourceOptions {
    /// Address of the server
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Number of messages
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub messages: u64,
    /// Size of the body without the header, or a range to draw it from (0..10k)
    #[arg(long, visible_alias = "size", value_name = "N", default_value = "400")]
    pub body_bytes: Span,
    /// Kind of text in the body
    #[arg(long, value_name = "KIND", default_value = "plain")]
    pub body_kind: BodyKind,
    /// Number of concurrent sessions
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub sessions: usize,
    /// Number of messages per connection, or a range to draw it from (1..3)
    #[arg(long, value_name = "M", default_value = "1")]
    pub per_session: Span,
    /// Reverse-path; empty for the null sender
    #[arg(long, value_name = "ADDRESS", default_value = "sender@source.test")]
    pub from: String,
    /// Send all messages to this address
    #[arg(long, value_name = "ADDRESS", group = "whom")]
    pub to_address: Option<String>,
    /// File of recipients, one address per line, used in turn
    #[arg(long, value_name = "FILE", group = "whom")]
    pub recipients: Option<PathBuf>,
    /// Send to user@DOMAIN; domains are used in turn, or drawn if they have weights
    #[arg(long, value_name = "DOMAIN[=WEIGHT],...", value_delimiter = ',', group = "whom")]
    pub domains: Vec<String>,
    /// File of domains to draw from, one per line, each with an optional weight
    #[arg(long, value_name = "FILE", group = "whom")]
    pub domains_file: Option<PathBuf>,
    /// Send to this number of generated domains: domain0.SUFFIX, domain1.SUFFIX, ...
    #[arg(long, value_name = "N", group = "whom")]
    pub domain_count: Option<u64>,
    /// Suffix of domains for --domain-count
    #[arg(long, value_name = "SUFFIX", default_value = "test")]
    pub domain_suffix: String,
    /// Use each address once: user<n>@DOMAIN
    #[arg(long)]
    pub distinct_recipients: bool,
    // The placeholder is "{n}", which clap would print as a line break.
    /// Add a header field to each message; the message's number replaces an n in braces
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<FixedField>,
    /// Add a header field with a value drawn by weight for each message, for example
    /// X-Tenant=acme*3|t{20}; t{20} stands for t0 to t19
    #[arg(long, value_name = "NAME=VALUE[*WEIGHT]|...")]
    pub vary: Vec<VariedField>,
    /// Number of recipients per message
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub recipients_per_message: u64,
    /// Send at this rate in messages per second, however fast the server is (open loop)
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
    /// Seed for body texts and random choices
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Write the result of each message to this file
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write one line per minute to this file, and one for the rest, as postal does
    #[arg(long, value_name = "FILE")]
    pub minutes: Option<PathBuf>,
    /// Send MAIL, RCPT and DATA together if the server offers PIPELINING
    #[arg(long)]
    pub pipelining: bool,
    /// Use BDAT if the server offers CHUNKING; with --pipelining, one write carries the transaction
    #[arg(long)]
    pub chunking: bool,
    /// Encrypt connections with STARTTLS; any certificate is accepted
    #[arg(long, value_name = "HANDSHAKES")]
    pub tls: Option<Handshakes>,
    /// Maximum time without a successful connection
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub reconnect: u64,
    /// Timeout for opening a connection, and for a transaction
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
    /// Time for open transactions to end after the first signal
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub grace: u64,
    /// Read commands from standard input: `pause`, `resume`
    #[arg(long)]
    pub obey: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl SourceOptions {
    fn recipients(&self) -> Result<Recipients, String> {
        let (distinct, per_message) = (self.distinct_recipients, self.recipients_per_message);
        if let Some(address) = &self.to_address {
            return Recipients::list(vec![address.clone()], per_message);
        }
        if let Some(path) = &self.recipients {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            return Recipients::list(lines.map(str::to_owned).collect(), per_message);
        }
        if let Some(path) = &self.domains_file {
            return Recipients::weighted(read_domains(path)?, distinct, per_message);
        }
        if self.domains.iter().any(|domain| domain.contains('=')) {
            let weighted = |text: &String| match text.split_once('=') {
                Some((domain, share)) => Ok((domain.to_owned(), weight(share)?)),
                None => Ok((text.clone(), 1)),
            };
            let domains = self.domains.iter().map(weighted).collect::<Result<_, String>>();
            return Recipients::weighted(domains?, distinct, per_message);
        }
        if !self.domains.is_empty() {
            return Recipients::domains(self.domains.clone(), distinct, per_message);
        }
        let count = self.domain_count.unwrap_or(1);
        Recipients::generated(count, &self.domain_suffix, distinct, per_message)
    }

    fn check(&self) -> Result<(), String> {
        if self.body_bytes == Span::of(1) {
            return Err("--body-bytes must not be 1: a body ends with CRLF".to_owned());
        }
        if self.sessions == 0 || self.per_session.min == 0 {
            return Err("--sessions and --per-session must be at least 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate < 0.001) {
            return Err("--rate must be at least 0.001".to_owned());
        }
        if self.distinct_recipients && (self.to_address.is_some() || self.recipients.is_some()) {
            return Err(
                "--distinct-recipients needs generated addresses: use --domains or --domain-count"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn prepare(&self) -> Result<Run, String> {
        self.check()?;
        let course = SourceRun::new(self.messages, self.rate, self.ledger.as_deref())?;
        let now = SystemTime::now();
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Run {
            to: resolve(&self.to).map_err(|error| format!("{}: {error}", self.to))?,
            from: self.from.clone(),
            recipients: self.recipients()?,
            fields: ExtraFields::new(&self.header, &self.vary, self.seed),
            bodies: Bodies::generate(self.body_kind, self.body_bytes, self.seed),
            random: RefCell::new(Random::new(self.seed)),
            date: date(now),
            // The moment and the process: not the seed, for two runs with the same seed must not
            // send the same id.
            run_id: format!("{:x}.{:x}", since_1970.as_nanos(), std::process::id()),
            per_session: self.per_session,
            pipelining: self.pipelining,
            chunking: self.chunking,
            tls: self
                .tls
                .map(TlsClient::new)
                .transpose()
                .map_err(|error| format!("--tls: {error}"))?,
            handshakes: HandshakeCount::default(),
            reconnect: Duration::from_secs(self.reconnect),
            timeout: Duration::from_secs(self.timeout),
            course,
            next_id: Cell::new(0),
        })
    }
}

/// Domains and weights of a file.
fn read_domains(path: &Path) -> Result<Vec<(String, u64)>, String> {
    let text = crate::file::read(path).map_err(|error| error.to_string())?;
    let read = |line: Line<'_>| {
        let mut words = Words::new(line.text);
        let (_, domain) = words.next("a domain")?;
        let share = match words.rest() {
            (_, "") => 1,
            (at, text) => weight(text).map_err(|why| (at, why))?,
        };
        Ok((domain.to_owned(), share))
    };
    let domains = lines(&text, '#')
        .map(|line| read(line).map_err(|wrong| line.wrong(path, wrong).to_string()));
    domains.collect()
}

/// As RFC 5322 §3.3 writes it: like HTTP's, with the zone as a number.
fn date(at: SystemTime) -> String {
    httpdate::fmt_http_date(at).replace("GMT", "+0000")
}

/// The command.
pub fn run(options: &SourceOptions) -> Outcome {
    let run = Rc::new(options.prepare().map_err(CommandError::new)?);
    let conduct = Conduct {
        sessions: options.sessions,
        grace: Duration::from_secs(options.grace),
        obeys: options.obey,
        minutes: options.minutes.clone(),
    };
    let course = run.course.clone();
    let stopped = course.run(&conduct, || Session::new(Rc::clone(&run)).run())?;
    let tally = run.course.tally.borrow();
    if options.json {
        println!(
            "{}",
            tally.to_json(&run.run_id, &options.body_bytes.to_string(), &run.handshakes)
        );
    } else {
        tally.warnings().iter().for_each(|warning| eprintln!("postrider-lab: {warning}"));
        println!("{}", tally.to_table(["connect to EHLO's reply", "content to its reply"]));
    }
    Ok(course.exit_code(stopped))
}

#[cfg(test)]
mod tests {
    use super::date;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_date_has_its_zone_as_a_number() {
        let at = UNIX_EPOCH + Duration::from_secs(1_795_042_800);
        assert_eq!(date(at), "Wed, 18 Nov 2026 23:00:00 +0000");
    }
}
