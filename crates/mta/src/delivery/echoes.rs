//! Removes quoted parts of our own commands from a peer's reply before rules and reply classes match it. Senders and
//! recipients choose these parts, and could otherwise trigger rules.

use super::Delivery;
use crate::message::Message;
use crate::reply_classes::leave_out_of;
use crate::seams::World;
use mail::dsn::xtext;
use mail::{Failure, Mailbox, Recipient, Reply, Step};
use queue::{ReadyId, TransactionWork};

/// Maximum number of recipients per transaction that are removed from replies.
const RECIPIENTS_MAX: usize = 100;

/// Removes our own strings of a transaction from its replies.
pub(super) fn leave_out<W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    (message, work): (&Message, &TransactionWork),
    outcomes: &mut [Result<Reply, Failure>],
) {
    #[cfg(feature = "planted")]
    if delivery.services.has_planted(crate::planted::Planted::HearEchoes) {
        return;
    }
    if outcomes.iter().all(Result::is_ok) {
        return;
    }
    let recipients = work.entries.iter();
    let recipients =
        recipients.map(|(_, index, _)| message.envelope.recipients.get(*index as usize));
    let recipients: Vec<Option<&Recipient>> = recipients.collect();
    let said_of_all = said_of_all(delivery, ready, message);
    let mut known: Option<(Reply, Option<Box<Reply>>)> = None;
    let mut all = None;
    for (outcome, recipient) in outcomes.iter_mut().zip(&recipients) {
        let Err(failure) = outcome else { continue };
        if failure.step == Some(Step::RcptTo) {
            leave_out_of(failure, &in_order(said_of_all.iter().cloned(), recipient.as_slice()));
            continue;
        }
        // The replies for most recipients are the same.
        match &known {
            Some((reply, heard)) if failure.reply.as_ref() == Some(reply) => {
                failure.heard.clone_from(heard);
            }
            _ => {
                let all = all.get_or_insert_with(|| {
                    let few: Vec<_> = recipients.iter().flatten().copied().collect();
                    let few = few.get(..few.len().min(RECIPIENTS_MAX)).unwrap_or_default();
                    in_order(said_of_all.iter().cloned(), few)
                });
                leave_out_of(failure, all);
                let heard = failure.heard.clone();
                known = failure.reply.clone().map(|reply| (reply, heard));
            }
        }
    }
}

/// Removes the name of our EHLO greeting.
pub(super) fn leave_out_greeting<W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    failure: &mut Failure,
) {
    let hop = delivery.schedule.hop(ready);
    let name = hop.map(|hop| hop.hostname.as_str().to_owned());
    leave_out_of(failure, name.as_slice());
}

/// The strings beside the recipients' addresses that the sender chose, and our host name.
fn said_of_all<W: World>(delivery: &Delivery<W>, ready: ReadyId, message: &Message) -> Vec<String> {
    let mut ours: Vec<String> = Vec::new();
    message.envelope.reverse_path.iter().for_each(|sender| push_address(sender, &mut ours));
    ours.extend(delivery.schedule.hop(ready).map(|hop| hop.hostname.as_str().to_owned()));
    if let Some(envid) = &message.envelope.envid {
        ours.extend(xtext::decode_envid(envid));
        ours.push(envid.to_string());
    }
    ours
}

/// The given strings and those of the recipients with their ORCPT, longest first. A string that is part of a longer one
/// must come later, or the rest of the longer one would remain.
fn in_order(words: impl Iterator<Item = String>, recipients: &[&Recipient]) -> Vec<String> {
    let mut ours: Vec<String> = words.collect();
    for recipient in recipients {
        push_address(&recipient.mailbox, &mut ours);
        let Some(orcpt) = &recipient.orcpt else { continue };
        ours.push(orcpt.to_string());
        if let Some(original) = xtext::decode_orcpt(orcpt) {
            let local = original.address.rsplit_once('@').map(|(local, _)| local.to_owned());
            ours.extend(local.into_iter().chain([original.address]));
        }
    }
    ours.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    ours.dedup();
    ours
}

/// Adds the address, its parts, and forms that join the parts with alphanumeric characters or `.`, `_`, `-`. Other
/// separators (`%40` of a URL, `+40` of xtext) leave each part recognisable.
fn push_address(address: &Mailbox, ours: &mut Vec<String>) {
    let (local, domain) = (address.local_unquoted(), address.domain());
    let domain = domain.as_str();
    for between in [".", "_at_", "-at-"] {
        ours.push(format!("{local}{between}{domain}"));
    }
    let escaped = |escape: char| {
        let escaped: String = local
            .chars()
            .map(|c| match c {
                c if c.is_ascii_alphanumeric() || "-._~".contains(c) => c.to_string(),
                c => {
                    let mut octets = [0; 4];
                    let octets = c.encode_utf8(&mut octets).bytes();
                    octets.map(|octet| format!("{escape}{octet:02X}")).collect()
                }
            })
            .collect();
        escaped
    };
    if !local.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        ours.extend([escaped('%'), escaped('='), xtext::encode(&local)]);
    }
    ours.extend([domain.to_owned(), local.into_owned()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a reply to mail for this address that rules match.
    fn heard(address: &str, reply: &str) -> String {
        let mailbox = Mailbox::parse(address, true).unwrap();
        let recipient = Recipient { mailbox, notify: mail::Notify::NEVER, orcpt: None };
        let ours = in_order(std::iter::empty(), &[&recipient]);
        let reply = Reply::new(550, (5, 1, 1), reply.to_owned());
        let mut failure = Failure::peer("mx.test", reply, Step::RcptTo);
        leave_out_of(&mut failure, &ours);
        failure.heard().map(|reply| reply.text.to_string()).unwrap_or_default()
    }

    #[test]
    fn no_spelling_of_an_address_is_heard() {
        for reply in [
            "no spamhaus",
            "no SPAMHAUS here",
            "no <spamhaus>",
            "no \"spamhaus\"",
            "no spamhaus.x.test",
            "no spamhaus%x.test",
            "no spamhaus%40x.test",
            "see https://a.test/?u=spamhaus%40x.test",
            "no rfc822;spamhaus+40x.test",
            "no spamhaus=40x.test",
            "no spamhaus at x.test",
            "no spamhaus_at_x.test",
            "no spamhaus(at)x.test",
            "no spamhaus, none",
            "no user\nspamhaus\nx.test",
            "no x.test!spamhaus",
        ] {
            let text = heard("spamhaus@x.test", reply);
            assert!(!text.to_lowercase().contains("spamhaus"), "{reply}: {text}");
        }
        for reply in [
            "no slow down please",
            "no slow%20down%20please%40x.test",
            "no rfc822;slow+20down+20please+40x.test",
            "no \"slow down please\"",
            "no slow=20down=20please",
        ] {
            let text = heard("\"slow down please\"@x.test", reply);
            assert!(!text.contains("slow"), "{reply}: {text}");
        }
        assert_eq!(heard("jo@x.test", "listed at spamhaus"), "listed at spamhaus");
    }

    #[test]
    fn a_name_that_looks_like_a_status_is_none() {
        let mut failure =
            Failure::peer("mx.test", Reply::new(550, (5, 7, 606), "not here"), Step::RcptTo);
        leave_out_of(&mut failure, &["5.7.606".to_owned()]);
        assert_eq!(failure.heard().and_then(|heard| heard.enhanced), None);
        assert_eq!(failure.reply.and_then(|reply| reply.enhanced).unwrap().detail, 606);
    }
}
