//! `bench tls`: what TLS costs a relay that does nothing else, to hold its runs with `--tls` against.

use crate::stand::certificate::{Certificate, KeyKind};
use crate::stand::{Error, Result};
use comfy_table::{Table, presets};
use load::file;
use load::stop::{CommandError, Outcome};
use load::tls::{Handshakes, TlsClient, TlsServer};
use load::tls_cost::{Conversation, Shape, measure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// As it is named on the command line.
pub(super) const NAME: &str = "tls";

/// Each figure is taken for so long unless the command line says otherwise.
const SECONDS: u64 = 3;

/// Conversations at once.
const SESSIONS: usize = 50;

/// Content of the relay scenarios.
const CONTENT_BYTES: [usize; 2] = [400, 65_536];

/// How connections begin, and what with.
const KINDS: [(Handshakes, KeyKind); 4] = [
    (Handshakes::Resumed, KeyKind::EcdsaP256),
    (Handshakes::Full, KeyKind::EcdsaP256),
    (Handshakes::Resumed, KeyKind::Rsa2048),
    (Handshakes::Full, KeyKind::Rsa2048),
];

/// One line of the result; microseconds of processor time for each message.
#[derive(Clone, Debug)]
struct TlsCost {
    content_bytes: usize,
    handshakes: Handshakes,
    key: KeyKind,
    /// A message in, on a connection of its own, as its server sees it.
    in_clear: f64,
    in_tls: f64,
    /// A message out, on a connection that is kept, as its client sees it.
    out_clear: f64,
    out_tls: f64,
    /// Handshakes that were resumed, of a hundred.
    resumed_percent: f64,
}

impl TlsCost {
    /// What TLS adds for a message that comes in and goes out.
    fn added(&self) -> f64 {
        self.in_tls - self.in_clear + self.out_tls - self.out_clear
    }

    fn to_json(&self) -> Value {
        json!({
            "content_bytes": self.content_bytes,
            "handshakes": self.handshakes.name(),
            "key": self.key.title(),
            "in_clear_us": self.in_clear,
            "in_tls_us": self.in_tls,
            "out_clear_us": self.out_clear,
            "out_tls_us": self.out_tls,
            "added_us": self.added(),
            "resumed_percent": self.resumed_percent,
        })
    }

    fn cells(&self) -> Vec<String> {
        let us = |value: f64| format!("{value:.1}");
        vec![
            self.content_bytes.to_string(),
            self.handshakes.name().to_owned(),
            self.key.title().to_owned(),
            us(self.in_clear),
            us(self.in_tls),
            us(self.out_clear),
            us(self.out_tls),
            us(self.added()),
            format!("{:.0}", self.resumed_percent),
        ]
    }
}

const HEADINGS: [&str; 9] = [
    "content B",
    "handshakes",
    "key",
    "in, clear µs",
    "in, TLS µs",
    "out, clear µs",
    "out, TLS µs",
    "TLS adds µs",
    "resumed %",
];

/// The command: a line for each kind of handshake and size of content.
pub(super) fn run(seconds: Option<u64>, as_json: bool) -> Outcome {
    let lasts = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let lines = lines(lasts, SESSIONS).map_err(|error| CommandError::new(error.to_string()))?;
    if as_json {
        println!("{}", Value::from_iter(lines.iter().map(TlsCost::to_json)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADINGS);
    lines.iter().for_each(|line| {
        table.add_row(line.cells());
    });
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn lines(lasts: Duration, sessions: usize) -> Result<Vec<TlsCost>> {
    let directory =
        std::env::temp_dir().join(format!("postrider-bench-tls-{}", std::process::id()));
    file::create_directory(&directory)?;
    let lines = lines_in(&directory, lasts, sessions);
    file::remove_directory(&directory, &[])?;
    lines
}

fn lines_in(directory: &Path, lasts: Duration, sessions: usize) -> Result<Vec<TlsCost>> {
    let ecdsa = Certificate::make(&directory.join("ecdsa"), KeyKind::EcdsaP256)?;
    let rsa = Certificate::make(&directory.join("rsa"), KeyKind::Rsa2048)?;
    let mut lines = Vec::new();
    for content_bytes in CONTENT_BYTES {
        let talk = |shape, tls| {
            let conversation = Conversation { shape, content_bytes, tls, sessions, lasts };
            measure(&conversation).map_err(|error| Error::Missing(format!("TLS: {error}")))
        };
        let in_clear = talk(Shape::OneEach, None)?.server_us;
        let out_clear = talk(Shape::Kept, None)?.client_us;
        for (handshakes, key) in KINDS {
            let certificate = if key == KeyKind::EcdsaP256 { &ecdsa } else { &rsa };
            let taken = talk(Shape::OneEach, Some(ends(certificate, handshakes)?))?;
            let line = TlsCost {
                content_bytes,
                handshakes,
                key,
                in_clear,
                in_tls: taken.server_us,
                out_clear,
                out_tls: talk(Shape::Kept, Some(ends(certificate, handshakes)?))?.client_us,
                resumed_percent: 100.0 * taken.resumed as f64 / taken.handshakes.max(1) as f64,
            };
            eprintln!("{}", line.cells().join("  "));
            lines.push(line);
        }
    }
    Ok(lines)
}

fn ends(certificate: &Certificate, handshakes: Handshakes) -> Result<(TlsServer, TlsClient)> {
    let failed = |error| Error::Missing(format!("TLS: {error}"));
    let server = TlsServer::from_files(&certificate.chain, &certificate.key, handshakes);
    Ok((server.map_err(failed)?, TlsClient::new(handshakes).map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use super::lines;
    use load::tls::Handshakes;
    use std::time::Duration;

    #[test]
    fn what_is_called_resumed_is_and_costs_less_than_a_signature() {
        let lines = lines(Duration::from_millis(100), 2).expect("measured");
        for line in &lines {
            match line.handshakes {
                Handshakes::Full => assert!(line.resumed_percent < 0.001, "{line:?}"),
                Handshakes::Resumed => assert!(line.resumed_percent > 50.0, "{line:?}"),
            }
            assert!(line.added() > 0.0, "{line:?}");
        }
    }
}
