//! TLS results of sessions for TLS reports (RFC 8460). Nothing is recorded while reports are off.

use super::content::StreamOf;
use super::relay_of;
use auth::mta_sts::Mode;
use auth::tls_report::{Details, Policy, ResultType, TlsSession};
use mail::Failure;
use mta::delivery::{Slot, TlsDomain};
use mta::routing::hop::NextHop;
use mta::routing::hosts::Host;
use mta::seams::{DnsError, Encryption, Endpoint, HandshakeError, Net, World};
use queue::TransactionWork;
use smtp::client::ClientSession;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Maximum number of domains counted for one failed session. Further ones are counted as left out.
pub(super) const DOMAINS_MAX: usize = 1_000;

/// A session with an MX host, with TLS.
pub(super) struct Trial {
    host: Box<str>,
    local: Option<IpAddr>,
    peer: Option<IpAddr>,
    /// Policy of the host's TLSA records, if they count.
    records: Option<Policy>,
}

impl Trial {
    /// A session between these addresses.
    pub(super) fn begin(
        host: &Host,
        local: Option<IpAddr>,
        peer: &Endpoint,
        records: Option<Policy>,
    ) -> Box<Trial> {
        let peer = match peer {
            Endpoint::Tcp(address) => Some(address.ip()),
            Endpoint::Unix(_) => None,
        };
        Box::new(Trial { host: Box::from(&*host.name), local, peer, records })
    }

    fn details(&self, result: ResultType, reason: &str) -> Details {
        Details {
            sending_mta_ip: self.local,
            receiving_mx_hostname: Some(self.host.clone()),
            receiving_ip: self.peer,
            ..Details::new(result).because(reason)
        }
    }

    /// The policy by which a domain's mail is judged.
    fn policy(&self, domain: &TlsDomain) -> Policy {
        match (&self.records, &domain.policy) {
            (Some(records), _) => records.clone(),
            (None, Some(policy)) => Policy::sts(Some(policy)),
            (None, None) => Policy::none(),
        }
    }

    /// The session failed for TLS. The failure counts for all domains with waiting mail.
    pub(super) fn failed<W: World>(&self, slot: &Slot<W>, result: ResultType, failure: &Failure) {
        let reason = match &failure.reply {
            Some(reply) => format!("{} {}", reply.code, reply.text),
            None => failure.text.to_string(),
        };
        let details = self.details(result, &reason);
        note_waiting(slot, |domain| (self.policy(domain), details.clone()));
    }

    /// The host is ready for mail. `is_unfit` is set if it has TLSA records, but none is usable.
    pub(super) fn opened(
        self: Box<Trial>,
        is_unfit: bool,
        session: &ClientSession,
        encryption: Option<Encryption>,
    ) -> TlsResult {
        let fault = match encryption {
            Some(_) if is_unfit => {
                Some((ResultType::TlsaInvalid, "none of the TLSA records is usable"))
            }
            Some(_) => None,
            None if session.capabilities().starttls => {
                Some((ResultType::ValidationFailure, "STARTTLS was offered but rejected"))
            }
            None => Some((ResultType::StarttlsNotSupported, "")),
        };
        let helo = session.peer_name();
        let fault = fault.map(|(result, reason)| self.details(result, reason).said_by(helo));
        TlsResult { trial: self, fault, examined: None, helo: helo.into(), told: BTreeSet::new() }
    }
}

/// The lookup of a host's TLSA records failed, or the answer was bogus. No session is started.
pub(super) fn note_unanswered<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    host: &Host,
    why: &DnsError,
) {
    if slot.tls_reports().is_none() || !relay_of(hop).is_by_mx() {
        return;
    }
    let details = Details {
        receiving_mx_hostname: Some(Box::from(&*host.name)),
        ..Details::new(ResultType::DnssecInvalid).because(&why.to_string())
    };
    note_waiting(slot, |_| (Policy::tlsa(&host.name, &[]), details.clone()));
}

fn note_waiting<W: World>(slot: &Slot<W>, of: impl Fn(&TlsDomain) -> (Policy, Details)) {
    let Some(reports) = slot.tls_reports() else { return };
    let domains = slot.waiting_domains();
    for domain in domains.iter().take(DOMAINS_MAX) {
        let (policy, details) = of(domain);
        reports.note(TlsSession { domain: domain.name.clone(), policy, failure: Some(details) });
    }
    reports.leave_out(domains.len().saturating_sub(DOMAINS_MAX) as u64);
}

/// TLS result of an open connection.
pub(super) struct TlsResult {
    trial: Box<Trial>,
    /// TLS fault for the mail of all domains.
    fault: Option<Details>,
    /// Verification of the certificate against this machine's roots, once done.
    examined: Option<Option<Details>>,
    helo: Box<str>,
    /// Domains already counted.
    told: BTreeSet<Box<str>>,
}

impl TlsResult {
    /// Counts the session for the domains of these recipients.
    pub(super) fn carry<W: World>(
        &mut self,
        slot: &Slot<W>,
        stream: &StreamOf<W>,
        work: &TransactionWork,
    ) {
        for (entry, _, _) in &work.entries {
            let Some(domain) = slot.domain_of(*entry) else { continue };
            if !self.told.insert(domain.name.clone()) {
                continue;
            }
            let (policy, failure) =
                (self.trial.policy(&domain), self.failure(slot, stream, &domain));
            if let Some(reports) = slot.tls_reports() {
                reports.note(TlsSession { domain: domain.name.clone(), policy, failure });
            }
        }
    }

    /// The failure that counts for this domain.
    fn failure<W: World>(
        &mut self,
        slot: &Slot<W>,
        stream: &StreamOf<W>,
        domain: &TlsDomain,
    ) -> Option<Details> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        let policy = domain.policy.as_ref().filter(|_| self.trial.records.is_none())?;
        // A policy in force was checked when the session was opened.
        if policy.mode != Mode::Testing {
            return None;
        }
        if !policy.has_host(&self.trial.host) {
            let reason = "the policy does not list this host";
            let details = self.trial.details(ResultType::ValidationFailure, reason);
            return Some(details.said_by(&self.helo));
        }
        let (trial, helo) = (&self.trial, &self.helo);
        let examine = || {
            let error = slot.world().net().examine(stream, &trial.host).err()?;
            if mta::lack::is_ours(&error) {
                return None;
            }
            let result = HandshakeError::result_of(&error);
            Some(trial.details(result, &error.to_string()).said_by(helo))
        };
        self.examined.get_or_insert_with(examine).clone()
    }
}
