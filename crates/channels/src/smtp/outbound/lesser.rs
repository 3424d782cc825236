//! Refusals that are no verdict on a message: in a session with less than the host's usual capabilities, or for a
//! capability that another host may have.

use super::moves::TransactionId;
use super::seat::Memory;
use mail::{Class, EnhancedStatus, Failure, Mono, Reply, Step};
use mta::known_hosts::{KnownHosts, Offers};
use mta::routing::hop::NextHop;
use mta::routing::hosts::Host;
use smtp::client::Lesser;
use std::time::Duration;

/// Age of a message, tried before, at which refusals in a lesser session are believed. They seem to be the host's usual
/// ones.
const BELIEVED_AFTER: Duration = Duration::from_secs(3600);

/// Age and attempts of a recipient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) age: Duration,
    /// Attempts before this one.
    pub(super) attempts: u16,
}

/// Turns a refusal in a lesser session into a temporary failure, unless it is unrelated to the missing capabilities and
/// the recipient has waited long enough.
pub(super) fn doubted(failure: Failure, lesser: Lesser, patience: Patience) -> Failure {
    let was_waited = patience.age >= BELIEVED_AFTER && patience.attempts > 0;
    if failure.class == Class::Transient || was_waited && !is_of_session(&failure) {
        return failure;
    }
    let why = match lesser {
        Lesser::InClear => "in clear after TLS failed",
        Lesser::WithoutExtensions => "after HELO because EHLO was rejected",
    };
    let text = format!("{}, {why}", failure.text);
    failure.for_now(text)
}

/// Returns true if the session's missing capabilities may cause it. Possible causes are a security rule (RFC 3463 §3.8),
/// 530 (RFC 3207 §4, RFC 4954 §6), and a bad sequence of commands (RFC 5321 §4.2.4).
pub(super) fn is_of_session(failure: &Failure) -> bool {
    let Some(reply) = &failure.reply else { return true };
    failure.status.subject == 7 || !matches!(reply.code, 550..=559)
}

/// Returns true if the host refuses a message only for a missing capability, by its EHLO reply or by a later reply.
pub(super) fn is_want(failure: &Failure) -> bool {
    failure.class == Class::Permanent
        && match &failure.reply {
            None => want_of(failure.status).is_some(),
            Some(reply) => is_word_of_want(reply, failure.step),
        }
}

/// Returns true if a permanent reply concerns the host's capabilities rather than the message.
fn is_word_of_want(reply: &Reply, step: Option<Step>) -> bool {
    if step.is_none_or(Step::opens_session) {
        return false;
    }
    match (reply.enhanced.map(|status| (status.subject, status.detail)), reply.code) {
        // // RFC 3463 §3.4: the size; §3.7: kinds of content, conversions. RFC 6531 §3.6: addresses and a header in //
        // UTF-8. RFC 8689 §4.2.1: end-to-end TLS.
        (Some((3, 4) | (6, 1..=3 | 7..=9) | (7, 10 | 30)), _) => true,
        // RFC 5321 §4.2.2: a parameter is not recognized, or not implemented.
        (_, 504 | 555) => true,
        // RFC 1870 §6.1, §6.2, RFC 5321 §4.2.3. To RCPT it concerns a mailbox.
        (None, 552) => step != Some(Step::RcptTo),
        _ => false,
    }
}

/// The capability that a failure of this status requires, as a check of a host's offers.
fn want_of(status: EnhancedStatus) -> Option<fn(&Offers) -> bool> {
    match (status.subject, status.detail) {
        // RFC 1870 §6: the host announces a limit.
        (3, 4) => Some(|offers| offers.size_max.is_none()),
        // RFC 6152 §3.
        (6, 3) => Some(|offers| offers.eight_bit_mime),
        // RFC 6531 §3.6.
        (6, 7) => Some(|offers| offers.smtputf8),
        // RFC 8689 §5.
        (7, 30) => Some(|offers| offers.require_tls),
        _ => None,
    }
}

/// Turns a missing capability of one host into a temporary failure, until all hosts are known not to have it or have
/// refused this transaction for it.
pub(super) fn of_one_host(
    failure: Failure,
    bytes: u64,
    (hop, of): (&NextHop, TransactionId),
    (now, known): (Mono, &KnownHosts),
) -> Failure {
    let has = want_of(failure.status);
    let takes = |offers: &Offers| {
        has.is_none_or(|has| has(offers))
            || offers.size_max.is_some_and(|max| {
                (failure.status.subject, failure.status.detail) == (3, 4) && bytes <= max
            })
    };
    let lacking = &hop.memory::<Memory>().lacking;
    let mut hosts = hop.hosts.iter().flat_map(|group| &group.hosts);
    let is_lacking = |host: &Host| {
        lacking.is_known(now, of, host)
            || known.offers(now, &host.name, host.port).is_some_and(|offers| !takes(&offers))
    };
    if hosts.all(is_lacking) {
        return failure;
    }
    let text = format!("{}; another host or session may support it", failure.text);
    failure.for_now(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_what_a_host_takes_are_told_from_words_about_the_message() {
        use Step::{Data, Ehlo, FinalDot, MailFrom, RcptTo};
        for (reply, step, expected) in [
            (Reply::new(552, (5, 3, 4), "size"), MailFrom, true),
            (Reply::new(552, (5, 3, 4), "size"), RcptTo, true),
            (Reply::new(552, (5, 3, 4), "size"), FinalDot, true),
            (Reply::bare(552, "size"), MailFrom, true),
            (Reply::bare(552, "size"), FinalDot, true),
            (Reply::bare(552, "full"), RcptTo, false),
            (Reply::new(552, (5, 2, 2), "full"), MailFrom, false),
            (Reply::new(553, (5, 6, 7), "ascii"), RcptTo, true),
            (Reply::new(554, (5, 6, 9), "header"), FinalDot, true),
            (Reply::new(554, (5, 6, 3), "8-bit"), FinalDot, true),
            (Reply::new(554, (5, 6, 1), "binary"), Data, true),
            (Reply::new(550, (5, 7, 30), "tls"), MailFrom, true),
            (Reply::new(555, (5, 5, 4), "parameter"), MailFrom, true),
            (Reply::bare(555, "parameter"), RcptTo, true),
            (Reply::bare(504, "parameter"), MailFrom, true),
            (Reply::new(550, (5, 1, 1), "who?"), RcptTo, false),
            (Reply::new(550, (5, 6, 0), "bad header"), FinalDot, false),
            (Reply::new(554, (5, 7, 1), "spam"), FinalDot, false),
            (Reply::bare(554, "spam"), FinalDot, false),
            (Reply::new(504, (5, 5, 4), "EHLO"), Ehlo, false),
        ] {
            let failure = said(reply, step);
            assert_eq!(is_want(&failure), expected, "{failure}");
        }
        assert!(!is_want(&said(Reply::new(452, (4, 3, 4), "size"), MailFrom)), "for now");
    }

    fn patience(age: Duration, attempts: u16) -> Patience {
        Patience { age, attempts }
    }

    fn said(reply: Reply, step: Step) -> Failure {
        Failure::peer("mx.far.test", reply, step)
    }

    #[test]
    fn a_lesser_session_gives_no_verdict_before_it_was_waited_for() {
        let new = patience(Duration::ZERO, 0);
        let old = patience(BELIEVED_AFTER, 1);
        let fresh_but_old = patience(BELIEVED_AFTER, 0);
        let mailbox = said(Reply::new(550, (5, 1, 1), "who?"), Step::RcptTo);
        let spam = said(Reply::bare(554, "no"), Step::FinalDot);
        for failure in [&mailbox, &spam] {
            for lesser in [Lesser::InClear, Lesser::WithoutExtensions] {
                for patience in [new, fresh_but_old, patience(BELIEVED_AFTER / 2, 9)] {
                    let doubted = doubted(failure.clone(), lesser, patience);
                    assert_eq!((doubted.class, doubted.status.class), (Class::Transient, 4));
                    assert_eq!(doubted.reply, failure.reply);
                    let kept = Failure::from_text(&doubted.to_string());
                    assert_eq!(kept.step, failure.step, "{doubted}");
                }
                assert_eq!(doubted(failure.clone(), lesser, old), *failure);
            }
        }
        for (reply, step) in [
            (Reply::new(530, (5, 7, 0), "STARTTLS first"), Step::MailFrom),
            (Reply::new(550, (5, 7, 1), "no"), Step::RcptTo),
            (Reply::new(550, (5, 7, 10), "encrypt"), Step::MailFrom),
            (Reply::bare(503, "STARTTLS first"), Step::MailFrom),
            (Reply::bare(503, "no"), Step::RcptTo),
        ] {
            let failure = doubted(said(reply, step), Lesser::InClear, old);
            assert_eq!(failure.class, Class::Transient, "{failure}");
        }
    }
}
