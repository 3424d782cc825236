//! TLS to a host: the policy and the handshake.

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

/// TLS policy for connections to one host.
pub(super) struct HostTls {
    asks: StartTls,
    trust: Trust,
    /// Name in events and failures.
    policy: &'static str,
    /// Messages with REQUIRETLS, which are returned if TLS is impossible (RFC 8689).
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

    /// STARTTLS mode of a session with this address of the host.
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

    /// Starts recording TLS results of a session for TLS reports. `None` if the session does not count.
    pub(super) fn trial<W: World>(
        &self,
        slot: &Slot<W>,
        hop: &NextHop,
        (host, peer): (&Host, &Endpoint),
        stream: &StreamOf<W>,
    ) -> Option<Box<Trial>> {
        slot.tls_reports()?;
        // // A host with STARTTLS suspended for an hour has been reported already.
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

    /// Returns true if mail to an address may go in clear after TLS failed. The failure is remembered.
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

    /// Failure for a session in clear with a host that recently used TLS, and now does not offer STARTTLS or refuses
    /// it. An attacker on the path can forge this (RFC 3207 §6).
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
        let text = "TLS unavailable on a host that offered it before";
        Some(Failure::network(&*host.name, NO_STARTTLS, text))
    }

    /// Turns a permanent failure before TLS into a temporary one, if the host must use TLS. An attacker on the path, or
    /// one that forges DNS answers, could have sent it. Mail waits for a reply over TLS.
    pub(super) fn doubted(&self, failure: Failure) -> Failure {
        if self.asks != StartTls::Required || !refusals::is_for_good(&failure) {
            return failure;
        }
        let text = match &failure.reply {
            Some(reply) => format!("reply before TLS: {} {}", reply.code, reply.text),
            None => failure.text.to_string(),
        };
        Failure { reply: None, ..failure.for_now(text) }
    }

    /// Returns true if messages are only for hosts that offer REQUIRETLS.
    pub(super) fn is_demanded(&self) -> bool {
        self.is_demanded
    }

    /// Returns true if the peer of an encrypted connection is authenticated.
    pub(super) fn authenticates(&self) -> bool {
        !matches!(self.trust, Trust::Anyone)
    }

    /// Failure of a host for messages that require TLS: they are returned if no host is better (RFC 8689 §4.2.1).
    /// Temporary failures (no reply, 4yz) are retried.
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
            text: format!("{}{said}, but the message requires TLS (REQUIRETLS)", failure.text)
                .into(),
            ..failure
        }
    }

    /// Failure of a session that ended before TLS.
    pub(super) fn unencrypted(&self, failure: Failure) -> Failure {
        let failure = self.doubted(failure);
        match failure.status == NO_STARTTLS {
            true => self.demanded(failure),
            false => failure,
        }
    }

    /// The name of the policy.
    pub(super) fn policy(&self) -> &'static str {
        self.policy
    }

    /// The host's TLSA records for TLS reports, if they count.
    pub(super) fn records(&self, host: &str) -> Option<Policy> {
        match &self.trust {
            Trust::Dane(trust) => Some(Policy::tlsa(host, &trust.records)),
            Trust::Anyone if self.policy == DANE => Some(Policy::tlsa(host, &[])),
            Trust::Anyone | Trust::Roots | Trust::MtaSts => None,
        }
    }

    /// Returns true if it has secure TLSA records, but none is usable.
    pub(super) fn has_unusable_records(&self) -> bool {
        self.policy == DANE && self.trust == Trust::Anyone
    }

    /// Result type in TLS reports of a session that ended before TLS. `None` if it ended for another reason.
    pub(super) fn result_of(&self, failure: &Failure) -> Option<ResultType> {
        let is_missed = self.asks == StartTls::Required
            && (failure.status.subject, failure.status.detail) == (7, 4);
        is_missed.then_some(match &failure.reply {
            Some(_) => ResultType::ValidationFailure,
            None => ResultType::StarttlsNotSupported,
        })
    }

    /// Counts a connection that meets the policy, or fails to.
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

    /// Adds the policy to the failure text, unless the route alone sets it.
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
        // // RFC 3463 §3.8: security status.
        if is_of_tls && failure.status.subject == 7 && failure.status.detail != 30 {
            self.count(metrics, false);
            failure.text = format!("{by}: {}", failure.text).into();
        }
        failure
    }
}

/// RFC 3463 §3.8: security features not supported. Status for a host without STARTTLS.
const NO_STARTTLS: EnhancedStatus = EnhancedStatus::new(4, 7, 4);

/// Policy of hosts for REQUIRETLS messages, if no other policy applies.
const REQUIRETLS: &str = "requiretls";

/// Policy of hosts with TLSA records.
const DANE: &str = "dane";

/// Policy of hosts with an MTA-STS policy of their domain.
const MTA_STS: &str = "mta-sts";

/// TLS policy for connections to this host, by the route and the policies that it heeds.
///
/// # Errors
/// The DNS gives no answer or a bogus one about the TLSA records. Or the host had no address, and so its TLSA records
/// were not looked up, though it may get an address at any time.
pub(super) async fn host_tls<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    host: &Host,
) -> Result<HostTls, Failure> {
    let tls = relay_of(hop).peer.tls;
    let is_demanded = hop.tls.required;
    // Only this machine listens on its Unix sockets.
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
        false => Ok(Dane::Nothing("its name is not secure")),
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

/// TLS policy of a host for messages that require TLS (RFC 8689 §4.2.1), by its TLSA records. The certificate must
/// always prove the host's name.
fn demanded(found: Dane, mta_sts: bool) -> HostTls {
    let (trust, policy) = match found {
        Dane::Authenticated(trust) => (Trust::Dane(trust), DANE),
        Dane::Encrypted | Dane::Nothing(_) if mta_sts => (Trust::MtaSts, MTA_STS),
        Dane::Encrypted | Dane::Nothing(_) => (Trust::Roots, REQUIRETLS),
    };
    HostTls { is_demanded: true, ..HostTls::required(trust, policy) }
}

/// TLS policy of a host by its TLSA records. With `mta_sts` the domain's MTA-STS policy is in force; with
/// `is_for_users` the session sends a password.
///
/// RFC 8461 §2: the MTA-STS policy must not replace TLSA records for authentication. Unusable records authenticate
/// nothing, and the MTA-STS policy then applies.
fn by_records(found: Dane, mta_sts: bool, is_for_users: bool) -> HostTls {
    match found {
        Dane::Authenticated(trust) => HostTls::required(Trust::Dane(trust), DANE),
        Dane::Encrypted | Dane::Nothing(_) if mta_sts => HostTls::required(Trust::MtaSts, MTA_STS),
        Dane::Encrypted => HostTls::required(Trust::Anyone, DANE),
        // // A password is sent to an authenticated host only.
        Dane::Nothing(_) if is_for_users => {
            HostTls::required(Trust::Roots, RouteTls::Verified.word())
        }
        Dane::Nothing(_) => HostTls::OPPORTUNISTIC,
    }
}

/// An address has no TLSA records. An address in the configuration or a table for a route with DANE is an error, and
/// must not switch DANE off. RFC 3463 §3.4: 4.3.5, system incorrectly configured.
fn nameless(host: &Host) -> Option<Failure> {
    host.name.parse::<IpAddr>().ok()?;
    let status = EnhancedStatus::new(4, 3, 5);
    let text = format!("tls = \"dane\" needs a host name, but {} is an address", host.name);
    Some(Failure::local(Class::Transient, status, text))
}

/// RFC 7672 §2.1.1: no mail is sent to a host if the lookup of its TLSA records fails.
fn no_answer(host: &Host, error: &DnsError) -> Failure {
    host.no_answer(format!("DANE: the lookup of the host's TLSA records failed: {error}"))
}

/// A connection that could not be encrypted.
pub(super) struct Unencrypted {
    pub(super) failure: Failure,
    /// Result type for TLS reports. `None` if the failure is not the host's.
    pub(super) result: Option<ResultType>,
}

/// Encrypts a connection after STARTTLS, by the policy `tls`. `host` is the host's name or address, `name` the peer in
/// failures.
///
/// # Errors
/// The handshake failed; the connection is closed.
pub(super) async fn encrypt<W: World>(
    slot: &Slot<W>,
    tls: &HostTls,
    (host, name): (&str, &str),
    dialogue: SmtpDialogue<W>,
) -> Result<(SmtpDialogue<W>, Encryption), Unencrypted> {
    let SmtpDialogue { wire, stir, transcript, .. } = dialogue;
    let SmtpTransport { stream, mut session, mut alarm } = wire;
    let until = session.deadline();
    let (stream, encryption) =
        shake_hands(slot, tls, (host, name), stream, (&mut alarm, until)).await?;
    session.handle_tls_started(slot.now());
    stir.note(slot.now());
    let wire = SmtpTransport { stream, session, alarm };
    Ok((SmtpDialogue::new(wire, stir, transcript), encryption))
}

/// Performs the handshake, with `until` as deadline.
///
/// # Errors
/// The handshake failed; the connection is closed.
pub(super) async fn shake_hands<W: World>(
    slot: &Slot<W>,
    tls: &HostTls,
    (host, name): (&str, &str),
    stream: StreamOf<W>,
    (alarm, until): (&mut Alarm<W::Time>, Mono),
) -> Result<(StreamOf<W>, Encryption), Unencrypted> {
    let until = until.min(slot.now() + HANDSHAKE_MAX);
    // // RFC 7672 §8.1: SNI is the name with the TLSA records.
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
        // // RFC 3463 §3.4: 4.3.0. Local exhaustion is no fault of the host, and does not count as a TLS result.
        Err(error) if lack::is_ours(&error) => {
            let text = format!("TLS unavailable: {error}");
            let status = EnhancedStatus::new(4, 3, 0);
            let failure = Failure::local(Class::Transient, status, text);
            Err(Unencrypted { failure, result: None })
        }
        Err(error) => {
            slot.metrics().tls_connections_failed.inc();
            // RFC 3463 §3.8: X.7.5 is a cryptographic failure.
            let status = EnhancedStatus::new(4, 7, 5);
            let text = format!("TLS handshake failed: {error}");
            slot.console().debug("tls", format_args!("{text} peer={name}"));
            let result = Some(HandshakeError::result_of(&error));
            let failure = Failure::network(name, status, text);
            // // Not for network errors.
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
            let failure = nameless(&host(address)).expect("it has no host name");
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
