//! Greylisting: defers unknown clients at their first attempt.

use super::super::checks::ascii_domain;
use super::parts::RcptCheckContext;
use super::questions::{Memo, of_sender};
use super::settings::Greylist;
use auth::greylist::{ClientIdentity, GreylistResult, Triplet, network};
use auth::spf::{self, Sender, SpfQuery};
use mail::{Mailbox, Recipient, Refusal};
use mta::ingress::{TransactionView, no_answer};
use mta::seams::{Greylist as _, Time, World};
use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// The greylisting of one listener.
pub(super) struct Greylister<W: World> {
    parts: Rc<RcptCheckContext<W>>,
    told: Greylist,
    /// Clients authorized by SPF of the sender's domain.
    allowed: Memo<(IpAddr, Box<str>), bool>,
}

impl<W: World> Greylister<W> {
    pub(super) fn new(parts: Rc<RcptCheckContext<W>>, told: Greylist) -> Greylister<W> {
        Greylister { parts, told, allowed: Memo::default() }
    }

    /// Judges a recipient by the greylist.
    ///
    /// # Errors
    /// It is deferred.
    pub(super) async fn check(
        &self,
        transaction: &TransactionView,
        recipient: &Recipient,
    ) -> Result<(), Refusal> {
        let world = &self.parts.world;
        let is_exempt = self.told.exempt.has(world, transaction, recipient).await;
        if is_exempt.map_err(|trouble| no_answer(&*self.parts.console, &trouble))? {
            return Ok(());
        }
        let client = transaction.session.client().address.ip();
        let sender = transaction.sender.as_ref();
        let sender = sender.map(|sender| (sender.local_unquoted(), ascii_domain(sender)));
        let sender = sender.as_ref().map(|(local, domain)| (&**local, domain.as_str()));
        let client = match sender {
            Some((_, domain)) if self.is_sent_for(transaction, domain).await => {
                ClientIdentity::Domain(domain)
            }
            _ => ClientIdentity::Network(network(
                client,
                self.told.ipv4_prefix,
                self.told.ipv6_prefix,
            )),
        };
        let recipient = address(&recipient.mailbox);
        let triplet = Triplet { client, sender, recipient: &recipient, tags: &self.parts.tags };
        let now = world.time().wall();
        let verdict = world.greylist().judge(&self.told.rules, &triplet, now);
        transaction.session.metrics().greylist[verdict].inc();
        match verdict {
            GreylistResult::New(wait) | GreylistResult::Early(wait) => Err(put_off(wait)),
            GreylistResult::Passed(_) | GreylistResult::Known | GreylistResult::Client => Ok(()),
        }
    }

    /// Returns true if the client is authorized by SPF of the sender's domain.
    async fn is_sent_for(&self, transaction: &TransactionView, domain: &str) -> bool {
        if !self.told.by_spf || domain.is_empty() {
            return false;
        }
        let world = &self.parts.world;
        let client = transaction.session.client();
        let (ip, helo) = (client.address.ip().to_canonical(), &*client.helo);
        let time = world.time();
        let lookups = of_sender(&self.parts.of_senders, world, ip);
        // Without the local part: a policy may depend on it, and each sender would then need separate lookups.
        let question = SpfQuery {
            client: ip,
            sender: Some(Sender { local: "postmaster", domain }),
            helo,
            receiver: &self.parts.server,
            now: time.wall().0 / 1_000,
        };
        let place = self.allowed.place((ip, domain.into()), time.now());
        let allowed = place.get_or_try_init(|| async {
            let is_passed = spf::check(&lookups, question).await.verdict == spf::SpfResult::Pass;
            // A result cut short by a local limit is not cached.
            if lookups.was_cut() && !is_passed { Err(()) } else { Ok(is_passed) }
        });
        allowed.await.is_ok_and(|is_allowed| *is_allowed)
    }
}

/// The recipient in one form, however its domain is written.
fn address(mailbox: &Mailbox) -> String {
    format!("{}@{}", mailbox.local_unquoted(), ascii_domain(mailbox))
}

fn put_off(wait: Duration) -> Refusal {
    // Rounded up, so that the wait is over after this many seconds.
    let seconds = wait.as_millis().div_ceil(1_000);
    let text = format!("Greylisted; try again in {seconds} seconds");
    Refusal { text: Cow::Owned(text), ..Refusal::transient((7, 1), "") }
}
