//! What is sent in a case, as the scenario and the command line have it.

use super::BenchOptions;
use super::report::Workload;
use super::scenario::{Case, MeasurementKind, Scenario};
use crate::stand::certificate::{Certificate, Encryption, KeyKind};
use crate::stand::directory::Population;
use crate::stand::egress::Egress;
use crate::stand::long_path::PathShape;
use crate::stand::ways::Ways;
use crate::stand::{Load, Result, Tool};
use load::source::Span;
use load::stop::StopFlag;
use load::tls::Handshakes;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// What is sent; where users of a directory get it, the file of them is still to be named.
pub(super) fn load(case: &Case, options: &BenchOptions, scale: f64, seed: u64) -> Load {
    let lasts = case.lasts(options.seconds.map(Duration::from_secs), scale);
    Load {
        cut_off: options.cut_off.map(Duration::from_secs),
        rate: case.rate(options.rate),
        tls: case.tls(options.tls),
        ..case.load(scale, seed).lasting(lasts)
    }
}

/// The same for the report.
pub(super) fn shown(case: &Case, load: &Load, options: &BenchOptions) -> Workload {
    let drawn = |span: Span| (!span.is_one()).then_some(span.min);
    let keeps_mail = case.keeps_mail();
    Workload {
        messages: match case.kind {
            MeasurementKind::SteadyState(_) => 0,
            _ if load.lasts.is_some() => 0,
            _ => load.messages,
        },
        seconds: load.lasts.map_or(0.0, |lasts| lasts.as_secs_f64()),
        body_bytes: load.body_bytes.max,
        body_bytes_min: drawn(load.body_bytes),
        sources: load.sources,
        sessions: load.sessions,
        per_connection: load.per_connection.max,
        per_connection_min: drawn(load.per_connection),
        users: if keeps_mail { options.users } else { 0 },
        recipients: if keeps_mail { options.recipients } else { 0 },
        rate: load.rate.unwrap_or(0.0),
        read_after_seconds: options.read_after.filter(|_| keeps_mail),
        postal: load.tool == Tool::Postal,
        path_rtt_ms: case.path.map_or(0.0, |path| path.rtt.as_secs_f64() * 1e3),
        path_loss: case.path.map_or(0.0, |path| path.loss),
        connections_max: case.egress.in_sum().unwrap_or(0),
        routes: case.egress.domains(),
        tls: load.tls.map(|handshakes| handshakes.name().to_owned()),
    }
}

/// What the command line makes different from the publication.
pub(super) fn differences(scenario: &Scenario, options: &BenchOptions) -> Vec<String> {
    let mut differences = Vec::new();
    if let Some(rate) = options.rate
        && scenario.cases.iter().any(|case| case.rate(Some(rate)).is_some())
    {
        differences.push(format!(
            "{rate} messages are offered in a second, evenly; the publication sends as fast as they are accepted"
        ));
    }
    if let Some(handshakes) = options.tls
        && scenario.cases.iter().any(|case| case.tls(Some(handshakes)).is_some())
    {
        differences.push(format!(
            "incoming and outgoing mail is encrypted (STARTTLS, an ECDSA P-256 certificate; handshakes: {})",
            handshakes.name()
        ));
    }
    if let Some(seconds) = options.read_after
        && scenario.cases.iter().any(Case::keeps_mail)
    {
        differences.push(format!(
            "users read and remove mail after {seconds} s in their mailboxes; the publication \
             leaves it there"
        ));
    }
    differences
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Of this measurement alone.
    pub(super) directory: PathBuf,
    /// The postrider program.
    pub(super) postrider: PathBuf,
    /// Between server and sink.
    pub(super) path: Option<PathShape>,
    /// Connections to the sink.
    pub(super) egress: Egress,
    /// What mail is to come in and go out by.
    pub(super) ways: Ways,
    /// Mail is encrypted on its way in and out.
    pub(super) tls: Option<Handshakes>,
    /// Whose mail is kept; without them it is relayed to a sink.
    pub(super) population: Option<Rc<Population>>,
    /// Users read and remove mail that is so old.
    pub(super) read_after: Option<Duration>,
    /// Decides what is lost on the path.
    pub(super) seed: u64,
    /// Drop so many arrivals from the account: shows that a loss is seen.
    pub(super) planted_loss: u64,
    pub(super) stop: StopFlag,
}

impl Site {
    /// Below which the Maildirs are, where mail is kept.
    pub(super) fn mail(&self) -> PathBuf {
        self.directory.join("mail")
    }

    /// What mail is encrypted with, if it is.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub(super) fn encryption(&self) -> Result<Option<Encryption>> {
        let encryption = self.tls.map(|handshakes| {
            let certificate = Certificate::make(&self.directory.join("tls"), KeyKind::EcdsaP256)?;
            Ok(Encryption { certificate, handshakes })
        });
        encryption.transpose()
    }
}
