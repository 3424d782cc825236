//! TLS towards a host: whether it is asked for, and the handshake.

use super::content::{SmtpTransport, StreamOf};
use super::dialogue::SmtpDialogue;
use super::refusals;
use super::relay_of;
use super::seat::Memory;
use super::tls_result::{Trial, note_unanswered};
use crate::settings::RouteTls;
use crate::smtp::HANDSHAKE_MAX;
use auth::tls_report::{Policy, ResultType};
use mail::{Class, EnhancedStatus, Failure, Mono, Step};
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::lack;
use mta::metrics::{Metrics, TlsPolicy};
#[cfg(feature = "planted")]
use mta::planted::Planted;
use mta::routing::dane::Dane;
use mta::routing::hop::NextHop;
use mta::routing::hosts::Host;
use mta::routing::require_tls::ENCRYPTION_NEEDED;
use mta::seams::{DnsError, Encryption, Endpoint, HandshakeError, Net, Stream as _, Trust, World};
use smtp::client::StartTls;
use std::io;
use std::net::IpAddr;

/// How connections to one host are encrypted.
pub(super) struct HostTls {
    asks: StartTls,
    trust: Trust,
    /// As events and failures name it.
    policy: &'static str,
    /// Messages ask for it that are returned where it can't be had (RFC 8689).
    is_demanded: bool,
}

impl HostTls {
    const OPPORTUNISTIC: HostTls = HostTls {
        asks: StartTls::Opportunistic,
        trust: Trust::Anyone,
        policy: "opportunistic",
        is_demanded: false,
    };

    fn required(trust: Trust, policy: &'static str) -> HostTls {
        HostTls { asks: StartTls::Required, trust, policy, is_demanded: false }
    }

    /// Whether a session with this address of the host asks for TLS.
    pub(super) fn asks<W: World>(
        &self,
        slot: &Slot<W>,
        hop: &NextHop,
        peer: &Endpoint,
    ) -> StartTls {
        let tls = || &hop.memory::<Memory>().tls;
        let is_unusable = || tls().is_unusable(slot.now(), peer, hop.retried_at.get());
        match self.may_be_clear(slot) && is_unusable() {
            true => StartTls::Failed,
            false => self.asks,
        }
    }

    /// What a session over this connection is to show of TLS; `None`: it does not count.
    pub(super) fn trial<W: World>(
        &self,
        slot: &Slot<W>,
        hop: &NextHop,
        (host, peer): (&Host, &Endpoint),
        stream: &StreamOf<W>,
    ) -> Option<Box<Trial>> {
        slot.tls_reports()?;
        // A host that is spared its handshakes for an hour has shown what it can.
        if !relay_of(hop).is_by_mx()
            || matches!(self.asks(slot, hop, peer), StartTls::Off | StartTls::Failed)
        {
            return None;
        }
        let local = stream.local_addr().ok().map(|address| address.ip());
        Some(Trial::begin(host, local, peer, self.records(&host.name)))
    }

    fn may_be_clear<W: World>(&self, _slot: &Slot<W>) -> bool {
        #[cfg(feature = "planted")]
        if _slot.has_planted(Planted::InClearAnyway) {
            return true;
        }
        self.asks == StartTls::Opportunistic
    }

    /// Whether mail goes in clear to an address of a host with which nothing came of TLS; it is remembered.
    pub(super) fn goes_on_in_clear<W: World>(
        &self,
        slot: &Slot<W>,
        hop: &NextHop,
        (host, peer): (&Host, &Endpoint),
    ) -> bool {
        if !self.may_be_clear(slot) {
            return false;
        }
        let now = slot.now();
        let was_encrypted = slot.known_hosts().was_encrypted(now, &host.name, host.port);
        hop.memory::<Memory>().tls.failed(now, peer, was_encrypted)
    }

    /// Why a session in clear is not used, if it is not: connections to the host were encrypted not long ago, and
    /// now it does not offer that, or refuses it. Whoever is on the way can say so, too (RFC 3207 §6).
    pub(super) fn lost<W: World>(
        &self,
        slot: &Slot<W>,
        hop: &NextHop,
        (host, peer): (&Host, &Endpoint),
    ) -> Option<Failure> {
        let now = slot.now();
        let is_expected = self.may_be_clear(slot)
            && self.asks(slot, hop, peer) != StartTls::Failed
            && slot.known_hosts().was_encrypted(now, &host.name, host.port);
        if !is_expected || self.goes_on_in_clear(slot, hop, (host, peer)) {
            return None;
        }
        let text = "TLS can't be had, which the host had before";
        Some(Failure::network(&*host.name, NO_STARTTLS, text))
    }

    /// What was said for good without TLS of a host that must have it: whoever is on the way, or forges
    /// answers of the DNS, can say that in its name. Mail waits for what the host itself says.
    pub(super) fn doubted(&self, failure: Failure) -> Failure {
        if self.asks != StartTls::Required || !refusals::is_for_good(&failure) {
            return failure;
        }
        let text = match &failure.reply {
            Some(reply) => format!("said before TLS: {} {}", reply.code, reply.text),
            None => failure.text.to_string(),
        };
        Failure { reply: None, ..failure.for_now(text) }
    }

    /// Whether messages are only for hosts that offer REQUIRETLS.
    pub(super) fn is_demanded(&self) -> bool {
        self.is_demanded
    }

    /// Whether it is known whom a connection is encrypted with.
    pub(super) fn authenticates(&self) -> bool {
        !matches!(self.trust, Trust::Anyone)
    }

    /// What went wrong with a host that messages may only go to over TLS: RFC 8689 §4.2.1 has them returned
    /// where no host is better. What may pass (no answer, 4yz) is waited for.
    pub(super) fn demanded(&self, failure: Failure) -> Failure {
        let may_pass = failure.reply.as_ref().is_some_and(|reply| reply.code / 100 == 4);
        if !self.is_demanded || may_pass {
            return failure;
        }
        let said = failure.reply.as_ref();
        let said = said.map(|reply| format!(": {} {}", reply.code, reply.text)).unwrap_or_default();
        Failure {
            class: Class::Permanent,
            status: ENCRYPTION_NEEDED,
            reply: None,
            text: format!("{}{said}, and the message asks for TLS (REQUIRETLS)", failure.text)
                .into(),
            ..failure
        }
    }

    /// What is said of a session that ended before TLS.
    pub(super) fn unencrypted(&self, failure: Failure) -> Failure {
        let failure = self.doubted(failure);
        match failure.status == NO_STARTTLS {
            true => self.demanded(failure),
            false => failure,
        }
    }

    /// The policy that a connection is encrypted by.
    pub(super) fn policy(&self) -> &'static str {
        self.policy
    }

    /// What reports say of the host's TLSA records, where these count.
    pub(super) fn records(&self, host: &str) -> Option<Policy> {
        match &self.trust {
            Trust::Dane(trust) => Some(Policy::tlsa(host, &trust.records)),
            Trust::Anyone if self.policy == DANE => Some(Policy::tlsa(host, &[])),
            Trust::Anyone | Trust::Roots | Trust::MtaSts => None,
        }
    }

    /// It has TLSA records that count, and none can be used.
    pub(super) fn has_unusable_records(&self) -> bool {
        self.policy == DANE && self.trust == Trust::Anyone
    }

    /// What it is in reports that a session has ended before TLS; `None`: that was for another reason.
    pub(super) fn result_of(&self, failure: &Failure) -> Option<ResultType> {
        let is_missed = self.asks == StartTls::Required
            && (failure.status.subject, failure.status.detail) == (7, 4);
        is_missed.then_some(match &failure.reply {
            Some(_) => ResultType::ValidationFailure,
            None => ResultType::StarttlsNotSupported,
        })
    }

    /// Counts that a host is as the policy says, or not.
    fn count(&self, metrics: &Metrics, is_met: bool) {
        let policy = match self.policy {
            DANE => TlsPolicy::Dane,
            MTA_STS => TlsPolicy::MtaSts,
            _ => return,
        };
        let grid =
            if is_met { &metrics.tls_policy_connections } else { &metrics.tls_policy_failures };
        grid[policy].inc();
    }

    /// What is wrong with a host, with the policy that it was found by where that is not the route's
    /// alone.
    pub(super) fn named(&self, metrics: &Metrics, mut failure: Failure) -> Failure {
        let by = match &self.trust {
            Trust::Dane(trust) => format!(
                "by the TLSA records of {}",
                trust.names.first().map_or("the host", |name| name)
            ),
            Trust::MtaSts => "by the MTA-STS policy of the domain".to_owned(),
            Trust::Anyone if self.policy == DANE => "by the host's TLSA records".to_owned(),
            Trust::Anyone | Trust::Roots => return failure,
        };
        let is_of_tls = failure.step.map_or(failure.reply.is_none(), |step| step == Step::StartTls);
        // RFC 3463 §3.8: what has to do with security.
        if is_of_tls && failure.status.subject == 7 && failure.status.detail != 30 {
            self.count(metrics, false);
            failure.text = format!("{by}: {}", failure.text).into();
        }
        failure
    }
}

/// RFC 3463 §3.8: security features not supported; what a session says of a host without STARTTLS.
const NO_STARTTLS: EnhancedStatus = EnhancedStatus::new(4, 7, 4);

/// The policy of hosts that messages ask for TLS to, and nobody says more of.
const REQUIRETLS: &str = "requiretls";

/// The policy of hosts that have TLSA records.
const DANE: &str = "dane";

/// That of hosts whose domain promises something.
const MTA_STS: &str = "mta-sts";

/// How connections to this host are encrypted, as the route says and those whom it heeds.
///
/// # Errors
/// The DNS gives no answer about its TLSA records, or a false one; or the host has no address, and what it may have
/// in a moment was not asked about.
pub(super) async fn host_tls<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    host: &Host,
) -> Result<HostTls, Failure> {
    let tls = relay_of(hop).peer.tls;
    let is_demanded = hop.tls.required;
    // Nobody but this machine listens on its sockets.
    if !is_demanded && (tls == RouteTls::Off || host.socket().is_some()) {
        return Ok(HostTls { asks: StartTls::Off, policy: "off", ..HostTls::OPPORTUNISTIC });
    }
    match tls {
        _ if is_demanded => {}
        RouteTls::Required => return Ok(HostTls::required(Trust::Anyone, tls.word())),
        RouteTls::Verified => return Ok(HostTls::required(Trust::Roots, tls.word())),
        RouteTls::Off | RouteTls::Opportunistic => return Ok(HostTls::OPPORTUNISTIC),
        RouteTls::Dane | RouteTls::MtaSts => {}
    }
    if hop.tls.dane
        && let Some(failure) = nameless(host)
    {
        return Err(failure);
    }
    let found = match hop.tls.dane {
        true => slot.dane(&host.name, host.port).await,
        false => Ok(Dane::Nothing("nobody vouches for its name")),
    };
    match found {
        Ok(found) if is_demanded => Ok(demanded(found, hop.tls.mta_sts)),
        Ok(found) => {
            let is_for_users = relay_of(hop).smarthost.is_for_users();
            Ok(by_records(found, hop.tls.mta_sts, is_for_users))
        }
        Err(DnsError::NoRecords | DnsError::NoSuchDomain) => Err(host.no_address()),
        Err(error) => {
            slot.metrics().tls_policy_failures[TlsPolicy::Dane].inc();
            note_unanswered(slot, hop, host, &error);
            Err(no_answer(host, &error))
        }
    }
}

/// How a host is encrypted for messages that ask for TLS all the way (RFC 8689 §4.2.1), whose TLSA records
/// say this: always with a certificate that proves its name.
fn demanded(found: Dane, mta_sts: bool) -> HostTls {
    let (trust, policy) = match found {
        Dane::Authenticated(trust) => (Trust::Dane(trust), DANE),
        Dane::Encrypted | Dane::Nothing(_) if mta_sts => (Trust::MtaSts, MTA_STS),
        Dane::Encrypted | Dane::Nothing(_) => (Trust::Roots, REQUIRETLS),
    };
    HostTls { is_demanded: true, ..HostTls::required(trust, policy) }
}

/// How a host is encrypted whose TLSA records say this; `mta_sts`: the domain's policy is in force;
/// `is_for_users`: it is to be shown a password. RFC
/// 8461 §2: that must not stand in for records which say what certificate the host has. Records that
/// can't be used say nothing of it, and then what the domain promises holds.
fn by_records(found: Dane, mta_sts: bool, is_for_users: bool) -> HostTls {
    match found {
        Dane::Authenticated(trust) => HostTls::required(Trust::Dane(trust), DANE),
        Dane::Encrypted | Dane::Nothing(_) if mta_sts => HostTls::required(Trust::MtaSts, MTA_STS),
        Dane::Encrypted => HostTls::required(Trust::Anyone, DANE),
        // A password is shown to nobody whom nobody vouches for.
        Dane::Nothing(_) if is_for_users => {
            HostTls::required(Trust::Roots, RouteTls::Verified.word())
        }
        Dane::Nothing(_) => HostTls::OPPORTUNISTIC,
    }
}

/// An address has no TLSA records: where the file, or a table, has one for a host that is to have them,
/// that is a mistake, and no reason to do without. RFC 3463 §3.4: 4.3.5, system incorrectly configured.
fn nameless(host: &Host) -> Option<Failure> {
    host.name.parse::<IpAddr>().ok()?;
    let status = EnhancedStatus::new(4, 3, 5);
    let text = format!("tls = \"dane\" is for hosts by name, and {} is an address", host.name);
    Some(Failure::local(Class::Transient, status, text))
}

/// RFC 7672 §2.1.1: nothing is sent to a host whose records may be there and can't be had.
fn no_answer(host: &Host, error: &DnsError) -> Failure {
    host.no_answer(format!("DANE: the lookup of the host's TLSA records failed: {error}"))
}

/// Why a connection is not encrypted.
pub(super) struct Unencrypted {
    pub(super) failure: Failure,
    /// What that is in reports; `None`: the host has shown nothing.
    pub(super) result: Option<ResultType>,
}

/// Encrypts a connection whose session asks for it now, as `tls` says. `host` is the host's name or
/// address, `name` what failures call the peer.
///
/// # Errors
/// What went wrong with the handshake; the connection is gone.
pub(super) async fn encrypt<W: World>(
    slot: &Slot<W>,
    tls: &HostTls,
    (host, name): (&str, &str),
    dialogue: SmtpDialogue<W>,
) -> Result<(SmtpDialogue<W>, Encryption), Unencrypted> {
    let SmtpDialogue { wire: SmtpTransport { stream, mut session, mut alarm }, stir, .. } =
        dialogue;
    let until = session.deadline();
    let (stream, encryption) =
        shake_hands(slot, tls, (host, name), stream, (&mut alarm, until)).await?;
    session.handle_tls_started(slot.now());
    stir.note(slot.now());
    Ok((SmtpDialogue::new(SmtpTransport { stream, session, alarm }, stir), encryption))
}

/// The handshake, which is over before `until`.
///
/// # Errors
/// What went wrong with it; the connection is gone.
pub(super) async fn shake_hands<W: World>(
    slot: &Slot<W>,
    tls: &HostTls,
    (host, name): (&str, &str),
    stream: StreamOf<W>,
    (alarm, until): (&mut Alarm<W::Time>, Mono),
) -> Result<(StreamOf<W>, Encryption), Unencrypted> {
    let until = until.min(slot.now() + HANDSHAKE_MAX);
    // RFC 7672 §8.1: the host is asked for by the name that has the records.
    let host = match &tls.trust {
        Trust::Dane(trust) => trust.names.first().map_or(host, |name| name),
        Trust::Anyone | Trust::Roots | Trust::MtaSts => host,
    };
    let begun = slot.world().net().encrypt_connected(stream, host, &tls.trust);
    let done = alarm.within(|_| until, begun).await;
    match done.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
        Ok((stream, encryption)) => {
            slot.metrics().tls_connections.inc();
            tls.count(slot.metrics(), true);
            Ok((stream, encryption))
        }
        // RFC 3463 §3.4: 4.3.0. The host is not to blame, and has shown nothing of what it can.
        Err(error) if lack::is_ours(&error) => {
            let text = format!("no TLS for now: {error}");
            let status = EnhancedStatus::new(4, 3, 0);
            let failure = Failure::local(Class::Transient, status, text);
            Err(Unencrypted { failure, result: None })
        }
        Err(error) => {
            slot.metrics().tls_connections_failed.inc();
            // RFC 3463 §3.8: X.7.5 is a cryptographic failure.
            let status = EnhancedStatus::new(4, 7, 5);
            let text = format!("the TLS handshake failed: {error}");
            slot.console().debug("tls", format_args!("{text} peer={name}"));
            let result = Some(HandshakeError::result_of(&error));
            let failure = Failure::network(name, status, text);
            // Not what the network did.
            let failure = match error.kind() == io::ErrorKind::InvalidData {
                true => tls.demanded(failure),
                false => failure,
            };
            Err(Unencrypted { failure, result })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Reply;
    use mta::seams::DaneTrust;

    #[test]
    fn what_is_said_before_tls_is_never_final_where_tls_must_be() {
        let said = |code| {
            let reply = Reply { code, enhanced: None, text: "go away".into() };
            Failure::peer("mx.far.test", reply, Step::Connect)
        };
        let status = EnhancedStatus::new(5, 4, 6);
        let loops = Failure::local(Class::Permanent, status, "it is this server");
        let required = HostTls::required(Trust::MtaSts, MTA_STS);
        for failure in [said(521), loops] {
            assert!(refusals::is_for_good(&failure));
            assert_eq!(HostTls::OPPORTUNISTIC.doubted(failure.clone()), failure);
            let doubted = required.doubted(failure);
            assert!(!refusals::is_for_good(&doubted), "{doubted}");
            assert_eq!((doubted.class, doubted.status.class), (Class::Transient, 4));
        }
        assert!(required.doubted(said(521)).text.contains("521 go away"));
        assert_eq!(required.doubted(said(450)), said(450));
    }

    #[test]
    fn what_a_message_demands_is_final_where_a_host_does_not_have_it() {
        let lacks = |status| Failure::network("mx.far.test", status, "STARTTLS is not offered");
        let tls = demanded(Dane::Nothing(""), false);
        assert_eq!(
            (tls.policy(), tls.asks, tls.is_demanded()),
            (REQUIRETLS, StartTls::Required, true)
        );
        let failure = tls.unencrypted(lacks(NO_STARTTLS));
        assert_eq!((failure.class, failure.status), (Class::Permanent, ENCRYPTION_NEEDED));
        assert!(refusals::is_for_good(&failure) && failure.text.contains("REQUIRETLS"));
        // Of others it is not, nor what the network does, nor what the host says may pass.
        let required = HostTls::required(Trust::Roots, "verified");
        assert_eq!(required.unencrypted(lacks(NO_STARTTLS)), lacks(NO_STARTTLS));
        let lost = EnhancedStatus::new(4, 4, 2);
        assert_eq!(tls.unencrypted(lacks(lost)), lacks(lost));
        let refused = |code| {
            let reply = Reply { code, enhanced: None, text: "no TLS".into() };
            let failure = Failure::peer("mx.far.test", reply, Step::StartTls);
            tls.unencrypted(Failure { status: NO_STARTTLS, ..failure })
        };
        assert_eq!(refused(454).class, Class::Transient);
        let failure = refused(501);
        assert_eq!((failure.class, failure.reply), (Class::Permanent, None));
        assert!(failure.text.contains("501 no TLS"));
    }

    #[test]
    fn who_is_demanded_to_have_tls_proves_its_name() {
        let trust = || std::sync::Arc::new(DaneTrust { names: Vec::new(), records: Vec::new() });
        for (found, mta_sts, policy) in [
            (Dane::Authenticated(trust()), true, DANE),
            (Dane::Encrypted, true, MTA_STS),
            (Dane::Encrypted, false, REQUIRETLS),
            (Dane::Nothing(""), true, MTA_STS),
            (Dane::Nothing(""), false, REQUIRETLS),
        ] {
            let tls = demanded(found.clone(), mta_sts);
            assert_eq!((tls.policy, tls.authenticates()), (policy, true), "{found:?}");
        }
        assert!(!HostTls::OPPORTUNISTIC.authenticates());
    }

    #[test]
    fn an_address_is_no_host_with_tlsa_records() {
        let host = |name: &str| Host { name: name.into(), port: 25 };
        for address in ["192.0.2.1", "2001:db8::1"] {
            let failure = nameless(&host(address)).expect("it has no name");
            assert_eq!(failure.status, EnhancedStatus::new(4, 3, 5));
        }
        assert_eq!(nameless(&host("mx.far.test")), None);
    }

    #[test]
    fn records_that_cannot_be_used_leave_what_the_domain_promises() {
        let trust = || std::sync::Arc::new(DaneTrust { names: Vec::new(), records: Vec::new() });
        for (found, mta_sts, policy, asks) in [
            (Dane::Encrypted, true, MTA_STS, StartTls::Required),
            (Dane::Encrypted, false, DANE, StartTls::Required),
            (Dane::Authenticated(trust()), true, DANE, StartTls::Required),
            (Dane::Authenticated(trust()), false, DANE, StartTls::Required),
            (Dane::Nothing(""), true, MTA_STS, StartTls::Required),
            (Dane::Nothing(""), false, "opportunistic", StartTls::Opportunistic),
        ] {
            let tls = by_records(found.clone(), mta_sts, false);
            assert_eq!((tls.policy, tls.asks), (policy, asks), "{found:?}");
            let by_roots = matches!(tls.trust, Trust::MtaSts);
            assert_eq!(by_roots, policy == MTA_STS, "{found:?}");
        }
    }
}
