//! Health of a host, judged by the outcomes of a transaction and by the end of a connection. Separates failures of the
//! host from those of the message.

use super::seat::{Memory, Seat};
use mail::{Culprit, EnhancedStatus, Failure, Mailbox, Reply, Step};
use mta::delivery::Slot;
use mta::routing::hop::NextHop;
use mta::seams::World;

/// Outcome for one recipient of a transaction.
type ReplyResult = Result<Reply, Failure>;

/// The party that an outcome concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concerns {
    /// It was accepted, or rejected permanently: a verdict.
    Settled,
    /// One recipient was deferred because of its mailbox, or by greylisting.
    Recipient,
    /// One recipient was deferred for another reason. If all were, it is the host.
    Each,
    /// One sender was deferred. The host may accept mail from other senders.
    Sender,
    /// The host: the reply does not concern the message.
    Host,
    /// This server.
    Ourselves,
}

/// Parties that the outcomes of one transaction concern.
pub(super) struct HostHealth(Vec<Concerns>);

impl HostHealth {
    /// Judges the outcomes of a transaction from `sender`. With `is_lmtp`, each recipient has a separate reply after
    /// the content (RFC 2033 §4.2).
    pub(super) fn of(
        outcomes: &[ReplyResult],
        sender: Option<&Mailbox>,
        is_lmtp: bool,
    ) -> HostHealth {
        let concerns = |outcome: &ReplyResult| match outcome {
            Ok(_) => Concerns::Settled,
            Err(failure) => concerned(failure, sender),
        };
        let mut all: Vec<Concerns> = outcomes.iter().map(concerns).collect();
        let is_all = |wanted: Concerns| all.iter().all(|concerns| *concerns == wanted);
        let is_host = is_all(Concerns::Each);
        let is_split = is_lmtp && !is_all(Concerns::Host);
        for (concerns, outcome) in all.iter_mut().zip(outcomes) {
            let is_reply = outcome.as_ref().is_err_and(|failure| failure.reply.is_some());
            *concerns = match *concerns {
                Concerns::Each if is_host => Concerns::Host,
                Concerns::Each => Concerns::Recipient,
                Concerns::Host if is_split && is_reply => Concerns::Recipient,
                other => other,
            };
        }
        HostHealth(all)
    }

    /// Returns true if the host ended or deferred the transaction without a verdict on the message.
    pub(super) fn is_of_host(&self) -> bool {
        self.0.contains(&Concerns::Host)
    }

    /// Returns true if the host gave a verdict on the message, or deferred a sender or recipient.
    pub(super) fn has_verdict(&self) -> bool {
        self.0.iter().any(|concerns| !matches!(concerns, Concerns::Host | Concerns::Ourselves))
    }

    /// Indices of recipients that another host may accept.
    pub(super) fn may_go_elsewhere(&self, was_tried_before: bool) -> Vec<usize> {
        let may = |concerns: Concerns| match concerns {
            Concerns::Host => true,
            // Greylisting and full mailboxes are mostly the same at all hosts.
            Concerns::Recipient | Concerns::Sender => was_tried_before,
            Concerns::Settled | Concerns::Each | Concerns::Ourselves => false,
        };
        (0..self.0.len()).filter(|index| may(self.0[*index])).collect()
    }

    /// Reports to the slot that the peer accepted a transaction from `sender`, or deferred it as a whole. (421 is
    /// reported at the end of the connection.)
    pub(super) fn tell<W: World>(
        &self,
        outcomes: &[ReplyResult],
        sender: Option<&Mailbox>,
        (slot, hop): (&Slot<W>, &NextHop),
    ) {
        let refused_sender = &hop.memory::<Memory>().refused_sender;
        if outcomes.iter().any(Result::is_ok) {
            refused_sender.take();
            return slot.accepted();
        }
        let code = |failure: &Failure| failure.reply.as_ref().map_or(0, |reply| reply.code);
        let refused = |outcome: &ReplyResult| {
            outcome.as_ref().is_err_and(|failure| matches!(code(failure), 400..=420 | 422..=499))
        };
        let Some(Err(failure)) = outcomes.first().filter(|_| outcomes.iter().all(refused)) else {
            return;
        };
        if self.0.iter().all(|concerns| *concerns == Concerns::Sender) {
            let domain = sender.map(Mailbox::domain);
            // A second sender in a row, with no accepted message in between: the sender is not the reason.
            let is_another = refused_sender.borrow().as_ref().is_some_and(|last| *last != domain);
            if !is_another {
                refused_sender.replace(Some(domain));
                return;
            }
        }
        slot.deferred(failure, failure.is_of_recipient());
    }
}

fn concerned(failure: &Failure, sender: Option<&Mailbox>) -> Concerns {
    if failure.class == mail::Class::Permanent {
        return Concerns::Settled;
    }
    if failure.culprit == Culprit::Local {
        return Concerns::Ourselves;
    }
    let Some(reply) = &failure.reply else { return Concerns::Host };
    if reply.code == 421 || reply.code / 100 != 4 {
        return Concerns::Host;
    }
    let status = (failure.status.subject, failure.status.detail);
    match failure.step {
        // RFC 3463 §3.2, §3.3: addresses and mailboxes. Greylisting replies have 4.7.1 or no status.
        Some(Step::RcptTo) => match (status.0, reply.enhanced) {
            (1 | 2 | 7, _) | (_, None) => Concerns::Recipient,
            _ => Concerns::Each,
        },
        // RFC 3463 §3.2: the sender's address or system; §3.8: a rule.
        Some(Step::MailFrom) => match status {
            (1, 7 | 8) | (7, _) => Concerns::Sender,
            _ if names(reply, sender) => Concerns::Sender,
            _ => Concerns::Host,
        },
        // RFC 3463 §3.7, §3.8: the content, and rules about it.
        Some(Step::Data | Step::Bdat | Step::FinalDot) => match status {
            (6 | 7, _) => Concerns::Sender,
            _ => Concerns::Host,
        },
        _ => Concerns::Host,
    }
}

/// Returns true if a reply names the sender or its domain.
fn names(reply: &Reply, sender: Option<&Mailbox>) -> bool {
    let Some(sender) = sender else { return false };
    let (text, domain) =
        (reply.text.to_ascii_lowercase(), sender.domain_str().to_ascii_lowercase());
    let is_edge =
        |byte: Option<&u8>| !byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'-');
    !domain.is_empty()
        && text.match_indices(&*domain).any(|(at, found)| {
            let bytes = text.as_bytes();
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            is_edge(before) && is_edge(bytes.get(at + found.len()))
        })
}

/// Reports that the peer closed the connection for a reason that further connections would not change.
pub(super) fn tell_throttled<W: World>(
    seat: &Seat<W::Time>,
    failure: Option<Failure>,
    slot: &Slot<W>,
) {
    let Some(failure) = failure else { return };
    let said_421 = failure.reply.as_ref().is_some_and(|reply| reply.code == 421);
    if said_421 {
        seat.crowded();
    }
    if said_421 || is_timeout_or_loss(&failure) {
        slot.throttled(failure);
    }
}

/// On a connection that has carried transactions before: the peer closed it before it could know of this transaction,
/// or replied 421 to its commands, perhaps before it read them. The message is not at fault, and a fresh connection may
/// deliver it at once.
pub(super) fn was_dead(outcomes: &[ReplyResult]) -> bool {
    let is_of_session = |failure: &Failure| match &failure.reply {
        Some(reply) => reply.code == 421,
        None => is_timeout_or_loss(failure),
    };
    outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(is_of_session))
}

/// On a connection that has carried transactions before: MAIL was refused because the peer accepts no further
/// transaction on it, and a fresh connection may deliver it at once. Replies are "bad sequence of commands" (RFC 5321
/// §4.3.2), and 4yz for the number of transactions (RFC 9422 §4.1 names that limit).
pub(super) fn is_spent(outcomes: &[ReplyResult]) -> bool {
    let refused_mail = |failure: &Failure| {
        failure.step == Some(Step::MailFrom)
            && failure
                .reply
                .as_ref()
                .is_some_and(|reply| reply.code == 503 || is_session_full(reply))
    };
    outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(refused_mail))
}

fn is_session_full(reply: &Reply) -> bool {
    const WORDS: [&str; 4] =
        ["per session", "per connection", "in this session", "on this connection"];
    let text = reply.text.to_ascii_lowercase();
    reply.code / 100 == 4 && reply.code != 421 && WORDS.iter().any(|words| text.contains(words))
}

fn is_timeout_or_loss(failure: &Failure) -> bool {
    failure.status == EnhancedStatus::new(4, 4, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Concerns::{Each, Host, Ourselves, Recipient, Sender, Settled};
    use mail::Class;

    fn said(text: &str, step: Step) -> Failure {
        let (code, rest) = text.split_once(' ').expect("a reply");
        let (enhanced, text) = match EnhancedStatus::parse_prefix(rest) {
            Some((status, text)) => (Some(status), text),
            None => (None, rest),
        };
        let reply =
            Reply { code: code.parse().expect("a code"), enhanced, text: text.to_owned().into() };
        Failure::peer("mx.far.test", reply, step)
    }

    #[test]
    fn what_a_refusal_concerns_is_read_from_its_step_and_its_status() {
        let sender = Mailbox::parse("jo@source.test", false).expect("an address");
        for (text, step, concerns) in [
            ("550 5.1.1 nobody", Step::RcptTo, Settled),
            ("450 4.2.1 full", Step::RcptTo, Recipient),
            ("450 4.1.1 perhaps", Step::RcptTo, Recipient),
            ("450 4.7.1 greylisted", Step::RcptTo, Recipient),
            ("451 later", Step::RcptTo, Recipient),
            ("451 4.3.0 try another host", Step::RcptTo, Each),
            ("421 4.3.2 busy", Step::RcptTo, Host),
            ("450 4.1.8 no such domain", Step::MailFrom, Sender),
            ("450 4.1.7 no such sender", Step::MailFrom, Sender),
            ("451 4.7.1 not now", Step::MailFrom, Sender),
            ("450 <jo@source.test>: rejected", Step::MailFrom, Sender),
            ("450 the domain SOURCE.TEST is unknown", Step::MailFrom, Sender),
            ("450 no opensource.test", Step::MailFrom, Host),
            ("451 4.3.0 disk", Step::MailFrom, Host),
            ("452 4.3.1 full", Step::Data, Host),
            ("451 4.7.1 odd content", Step::FinalDot, Sender),
            ("451 4.3.0 disk", Step::FinalDot, Host),
            ("250 2.0.0 what?", Step::Data, Host),
        ] {
            assert_eq!(concerned(&said(text, step), Some(&sender)), concerns, "{text}");
        }
        let lost = Failure::network("mx.far.test", EnhancedStatus::new(4, 4, 2), "lost");
        assert_eq!(concerned(&lost, None), Host);
        let own = Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), "no room");
        assert_eq!(concerned(&own, None), Ourselves);
    }

    #[test]
    fn a_host_that_puts_each_recipient_off_is_meant_itself() {
        let each = || Err(said("451 4.3.0 no", Step::RcptTo));
        let full = || Err(said("452 4.2.2 full", Step::RcptTo));
        let bearing = |outcomes: &[ReplyResult]| HostHealth::of(outcomes, None, false);
        let all = bearing(&[each(), each()]);
        assert!(all.is_of_host() && !all.has_verdict());
        assert_eq!(all.may_go_elsewhere(false), [0, 1]);
        let some = bearing(&[each(), full()]);
        assert!(!some.is_of_host() && some.has_verdict());
        assert!(some.may_go_elsewhere(false).is_empty());
        assert_eq!(some.may_go_elsewhere(true), [0, 1]);
    }

    #[test]
    fn in_lmtp_each_recipient_speaks_for_itself() {
        let taken = || Ok(Reply::new(250, (2, 0, 0), "taken"));
        let later = || Err(said("451 4.3.0 no", Step::FinalDot));
        let lost = || Err(Failure::network("mx", EnhancedStatus::new(4, 4, 2), "lost"));
        assert!(!HostHealth::of(&[taken(), later()], None, true).is_of_host());
        assert!(HostHealth::of(&[later(), later()], None, true).is_of_host());
        assert!(HostHealth::of(&[taken(), lost()], None, true).is_of_host());
    }

    #[test]
    fn a_session_that_is_full_says_nothing_of_the_message() {
        let mail = |text: &str| [Err(said(text, Step::MailFrom))];
        assert!(is_spent(&mail("503 5.5.1 no")));
        assert!(is_spent(&mail("452 4.5.3 too many messages per session")));
        assert!(!is_spent(&mail("452 4.3.1 no room")));
        assert!(!is_spent(&[Err(said("452 4.5.3 per session", Step::RcptTo))]));
    }
}
