//! What the client's address is called.

use super::super::lookups::{Limits, Lookups};
use super::turns::Lines;
use super::{AT_ONCE_MAX, checks_for};
use auth::iprev::{self, NAMES_MAX};
use auth::judgement::Power;
use mail::Recipient;
use mta::answer::{Answer, Decision};
use mta::clients::network_of;
use mta::ingress::{Resolved, Routed, Stage, TransactionView};
use mta::seams::World;
use std::rc::Rc;
use std::time::Duration;

const NAME_LIMITS: Limits = Limits {
    // So long MAIL waits for it; then nobody knows.
    time_max: Duration::from_secs(10),
    // Its names, and the addresses of those.
    lookups_max: 1 + NAMES_MAX as u32,
    at_once_max: AT_ONCE_MAX,
};

/// Looks clients up, once in a session, where it is asked for.
pub(super) struct ClientNames<W: World> {
    pub(super) world: W,
    pub(super) lines: Rc<Lines>,
}

impl<W: World> Stage for ClientNames<W> {
    fn name(&self) -> &'static str {
        "client_name"
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let client = transaction.session.client();
        let is_wanted = checks_for(transaction).is_some_and(|checks| checks.powers.asked().iprev);
        if !is_wanted || client.name.get().is_some() {
            return Decision::pass();
        }
        Answer::later(async move {
            let turn = self.lines.names.of(network_of(client.address.ip()));
            let lookups = Lookups::within(&self.world, turn, NAME_LIMITS);
            let found = iprev::check(&lookups, client.address.ip()).await;
            transaction.session.note_name(found);
            Ok(())
        })
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
        _routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        let found = transaction.session.client().name.get();
        let (Some(checks), Some(found)) = (checks_for(transaction), found) else {
            return Answer::Now(Ok(None));
        };
        let power = checks.powers.client_name;
        let refusal = found.refusal(checks.powers.defers);
        let refusal = refusal.filter(|_| match found.verdict {
            iprev::Verdict::TempError | iprev::Verdict::CutShort => power >= Power::Hold,
            _ => power == Power::Reject,
        });
        let is_postmaster = recipient.mailbox.domain_str().is_empty();
        Answer::Now(refusal.filter(|_| !is_postmaster).map_or(Ok(None), Err))
    }
}
