//! What a peer is told of a message beside its content.

use mail::{ByMode, DeliverBy, Mono, Wall};
use mta::message::Message;
use queue::Work;
use smtp::client::{Outgoing, OutgoingRecipient, RequireTls};
use smtp::wishes::By;

/// What is said of a message at this time of day, but for what hangs on the hop and on its recipient.
pub(super) fn outgoing(message: &Message, work: &Work, now: Wall) -> Outgoing {
    let envelope = &message.envelope;
    let recipients = work
        .entries
        .iter()
        .filter_map(|(_, index, _)| envelope.recipients.get(*index as usize))
        .map(|recipient| OutgoingRecipient {
            mailbox: recipient.mailbox.clone(),
            notify: recipient.notify,
            orcpt: recipient.orcpt.clone(),
        })
        .collect();
    Outgoing {
        reverse_path: None,
        recipients,
        body: envelope.body,
        smtputf8: envelope.smtputf8,
        require_tls: RequireTls::Off,
        priority: message.priority(),
        deliver_by: message.deliver_by().map(|by| left_of(by, now)),
        ret: envelope.ret,
        envid: envelope.envid.clone(),
        facts: message.sent_facts(),
        header_is_8bit: false,
        expires: Mono::NEVER,
        eight_bit_as_is: false,
        prefix_bytes: message.prefix.len() as u64,
    }
}

/// RFC 2852 §4.1.3: the time that is left. What is to be returned has some, or it would have been.
fn left_of(by: DeliverBy, now: Wall) -> By {
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let left = seconds(by.at.since(now)) - seconds(now.since(by.at));
    let least = if by.mode == ByMode::Return { 1 } else { i64::MIN };
    By { seconds: left.max(least), mode: by.mode, is_traced: by.is_traced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_in_seconds() {
        let left = |at: u64, mode| {
            let by = DeliverBy { at: Wall(at), mode, is_traced: true };
            let by = left_of(by, Wall(100_000));
            (by.seconds, by.is_traced)
        };
        assert_eq!(left(107_900, ByMode::Return), (7, true));
        assert_eq!(left(100_100, ByMode::Return), (1, true));
        assert_eq!(left(107_000, ByMode::Notify), (7, true));
        assert_eq!(left(95_000, ByMode::Notify), (-5, true));
    }
}
