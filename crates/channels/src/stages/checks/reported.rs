//! What owners of domains are told of a message in their name.

use super::ascii_domain;
use auth::checks::Verdicts;
use auth::dmarc::Wish;
use auth::dmarc::reporting::Message;
use auth::judgement::Judgement;
use mail::RefusalClass;
use mta::ingress::TransactionView;

/// The message as it counts in a report; `None`: nobody wants to hear of it, or it comes again.
pub(super) fn message(
    transaction: &TransactionView,
    verdicts: &Verdicts,
    judgement: &Judgement,
) -> Option<Message> {
    let dmarc = verdicts.dmarc.as_ref()?;
    let sender = transaction.sender.as_ref();
    Some(Message {
        applied: dmarc.applied.clone()?,
        source: transaction.session.client().address.ip(),
        disposition: match judgement {
            Judgement::Take => Wish::None,
            Judgement::Hold(_) => Wish::Quarantine,
            Judgement::Refuse(refusal) if refusal.class == RefusalClass::Transient => return None,
            Judgement::Refuse(_) => Wish::Reject,
        },
        wish: dmarc.wish,
        author: dmarc.domain.clone()?,
        envelope_from: sender.map(ascii_domain).unwrap_or_default(),
        spf: verdicts.spf.clone()?,
        dkim: verdicts.dkim.clone()?,
    })
}
