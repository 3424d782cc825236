//! The checks before the message at one listener, in order.
//!
//! Checks also that mail to the sender could be delivered: its domain has MX or address records (RFC 5321 §2.3.5).

use super::super::checks::ascii_domain;
use super::forms;
use super::greylist::Greylister;
use super::lists::{Lists, Subject};
use super::parts::RcptCheckContext;
use super::questions::{Memo, of_sender};
use super::settings::Strangers;
use auth::dnsbl::{DnsblListings, DnsblResult};
use auth::judgement::ActionLimit;
use auth::records::{Family, Records, Unanswered};
use auth::results::allowed;
use mail::{Mailbox, Recipient, Refusal, RefusalClass};
use mta::clients::asker_of;
use mta::ingress::{Draft, TransactionView, no_answer};
use mta::metrics::{Counter, StrangersCheck};
use mta::seams::{Time, World};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A client from outside uses a sender of a local domain.
const NOT_YOURS: Refusal =
    Refusal::permanent((7, 1), "Sender address rejected: authentication required for this domain");

/// A local limit prevented lookups of lists.
const NOT_ASKED: Refusal =
    Refusal::transient((4, 3), "Temporary DNSBL lookup failure; try again later").with_code(450);

/// The checks of one listener.
pub(super) struct RcptChecks<W: World> {
    parts: Rc<RcptCheckContext<W>>,
    told: Arc<Strangers>,
    lists: Option<Lists<W>>,
    greylister: Option<Greylister<W>>,
    sender_domains: Memo<Box<str>, SenderDomain>,
}

impl<W: World> RcptChecks<W> {
    pub(super) fn new(parts: Rc<RcptCheckContext<W>>, told: &Arc<Strangers>) -> RcptChecks<W> {
        let lists = told.dnsbl.clone().map(|dnsbl| Lists::new(Rc::clone(&parts), dnsbl));
        let greylist = told.greylist.clone();
        let greylister = greylist.map(|greylist| Greylister::new(Rc::clone(&parts), greylist));
        let sender_domains = Memo::default();
        RcptChecks { parts, told: Arc::clone(told), lists, greylister, sender_domains }
    }

    /// Returns true if lookups about a client can start at the connection.
    pub(super) fn asks_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Looks up a client in advance.
    pub(super) async fn look_up(&self, client: IpAddr) {
        if let Some(lists) = &self.lists {
            lists.look_up(client).await;
        }
    }

    /// The authserv-id, if fields are added under that name.
    pub(super) fn speaks_as(&self) -> Option<&str> {
        self.lists.as_ref().filter(|lists| lists.may_allow()).map(|_| &*self.parts.server)
    }

    /// Checks a recipient of a client that may not relay.
    ///
    /// # Errors
    /// It is refused or deferred.
    pub(super) async fn check(
        &self,
        transaction: &TransactionView,
        recipient: &Recipient,
    ) -> Result<(), Refusal> {
        if self.is_exempt(transaction, recipient).await? {
            return Ok(());
        }
        let metrics = transaction.session.metrics();
        for (check, power, checked) in self.forms(transaction) {
            let objection = checked.or_else(|refusal| object(power, transaction, refusal));
            counted(objection, &metrics.strangers_refused[check])?;
        }
        counted(
            self.check_own_domain(transaction).await,
            &metrics.strangers_refused[StrangersCheck::OwnDomains],
        )?;
        counted(
            self.check_sender_domain(transaction).await,
            &metrics.strangers_refused[StrangersCheck::SenderDomain],
        )?;
        let verdict = counted(
            self.check_lists(transaction).await,
            &metrics.strangers_refused[StrangersCheck::Dnsbl],
        )?;
        match &self.greylister {
            // Clients on an allow list are known mail servers.
            Some(greylister) if verdict != DnsblResult::Allowed => {
                let put_off = greylister.check(transaction, recipient).await;
                counted(put_off, &metrics.strangers_refused[StrangersCheck::Greylist])
            }
            _ => Ok(()),
        }
    }

    async fn is_exempt(
        &self,
        transaction: &TransactionView,
        recipient: &Recipient,
    ) -> Result<bool, Refusal> {
        let world = &self.parts.world;
        let is_exempt = self.told.exempt.has(world, transaction, recipient).await;
        is_exempt.map_err(|trouble| no_answer(&*self.parts.console, &trouble))
    }

    /// Results of the checks of names, with the action permitted for each.
    fn forms(&self, transaction: &TransactionView) -> [FormCheck; 2] {
        let of = |check, power: ActionLimit, is_right: &dyn Fn() -> Result<(), Refusal>| {
            (check, power, if power.is_made() { is_right() } else { Ok(()) })
        };
        let helo = &transaction.session.client().helo;
        let sender = transaction.sender.as_ref();
        [
            of(StrangersCheck::HeloFqdn, self.told.helo_fqdn, &|| forms::check_helo(helo)),
            of(StrangersCheck::SenderFqdn, self.told.sender_fqdn, &|| forms::check_sender(sender)),
        ]
    }

    /// Returns true for a null sender with several recipients, where this is checked.
    pub(super) fn is_bounce_to_several(&self, transaction: &TransactionView) -> bool {
        self.told.multi_recipient_bounce.is_made() && self.bounce(transaction).is_err()
    }

    fn bounce(&self, transaction: &TransactionView) -> Result<(), Refusal> {
        forms::check_bounce(transaction.sender.as_ref(), transaction.recipients())
    }

    /// Checks the number of recipients, before the content is requested.
    ///
    /// # Errors
    /// The message is refused.
    pub(super) async fn check_bounce(&self, transaction: &TransactionView) -> Result<(), Refusal> {
        let exempt = self.told.exempt.has_client(&self.parts.world, transaction).await;
        if exempt.map_err(|trouble| no_answer(&*self.parts.console, &trouble))? {
            return Ok(());
        }
        let power = self.told.multi_recipient_bounce;
        let checked = self.bounce(transaction).or_else(|why| object(power, transaction, why));
        let counters = &transaction.session.metrics().strangers_refused;
        counted(checked, &counters[StrangersCheck::MultiRecipientBounce])
    }

    async fn check_own_domain(&self, transaction: &TransactionView) -> Result<(), Refusal> {
        match self.is_own_domain(transaction).await? {
            true => object(self.told.own_domains, transaction, NOT_YOURS),
            false => Ok(()),
        }
    }

    /// Returns true if the client uses a sender of a local domain.
    async fn is_own_domain(&self, transaction: &TransactionView) -> Result<bool, Refusal> {
        let sender = transaction.sender.as_ref().filter(|_| self.told.own_domains.is_made());
        let Some(sender) = sender else { return Ok(false) };
        let client = transaction.session.client().address.ip();
        let tables = self.parts.world.tables(asker_of(client));
        let is_ours = self.parts.own_domains.has(&tables, &sender.domain()).await;
        is_ours.map_err(|trouble| no_answer(&*self.parts.console, &trouble))
    }

    async fn check_sender_domain(&self, transaction: &TransactionView) -> Result<(), Refusal> {
        match self.sender_domain(transaction).await.check() {
            Ok(()) => Ok(()),
            Err(refusal) => object(self.told.sender_domain, transaction, refusal),
        }
    }

    /// State of the sender's domain, looked up once for all concurrent transactions.
    async fn sender_domain(&self, transaction: &TransactionView) -> SenderDomain {
        let sender = transaction.sender.as_ref().filter(|_| self.told.sender_domain.is_made());
        // An address literal needs no lookup, and the bare postmaster has no domain.
        let is_name =
            |sender: &&Mailbox| !matches!(sender.domain_str().as_bytes(), [] | [b'[', ..]);
        let Some(sender) = sender.filter(is_name) else { return SenderDomain::Found };
        let domain = ascii_domain(sender);
        let world = &self.parts.world;
        let place = self.sender_domains.place(domain.clone().into(), world.time().now());
        let client = transaction.session.client().address.ip();
        let questions = of_sender(&self.parts.of_senders, world, client);
        let found = place.get_or_try_init(|| async {
            let found = look_up(&questions, &domain).await;
            // A result cut short by a local limit is not shared.
            if questions.was_cut() { Err(found) } else { Ok(found) }
        });
        found.await.copied().unwrap_or_else(|cut| cut)
    }

    async fn check_lists(&self, transaction: &TransactionView) -> Result<DnsblResult, Refusal> {
        let Some(lists) = &self.lists else { return Ok(DnsblResult::None) };
        let subject = subject(transaction);
        let (standing, verdict, is_cut) = lists.standing(&subject).await;
        match (verdict, lists.power()) {
            (DnsblResult::Listed, ActionLimit::Reject) => {
                Err(lists.refusal(&subject, &standing).await)
            }
            (DnsblResult::Listed, ActionLimit::Hold) => {
                let zone = standing.worst().map_or("", |worst| &worst.zone);
                transaction.hold(&format!("listed by {zone}"));
                Ok(verdict)
            }
            // A list left out because of a local limit could have refused the client.
            (_, ActionLimit::Reject | ActionLimit::Hold) if is_cut => Err(NOT_ASKED),
            _ => Ok(verdict),
        }
    }

    /// Adds the results to the message and its event.
    pub(super) async fn mark(&self, transaction: &TransactionView, draft: &mut Draft) {
        if let Some(lists) = &self.lists {
            let subject = subject(transaction);
            let (standing, verdict, _) = lists.standing(&subject).await;
            draft.note_listed(verdict);
            self.tell(&subject, &standing, draft);
        }
        let domain = self.sender_domain(transaction).await.check().err();
        let is_own = self.is_own_domain(transaction).await.unwrap_or(false);
        let forms = self.forms(transaction).into_iter().filter_map(|(_, _, checked)| checked.err());
        let bounce = self.is_bounce_to_several(transaction).then(|| self.bounce(transaction).err());
        let names = domain.into_iter().chain(is_own.then_some(NOT_YOURS));
        for warning in forms.chain(names).chain(bounce.flatten()) {
            draft.prepend(&format!("X-Sender-Warning: {}", warning.text));
        }
    }

    fn tell(&self, subject: &Subject, standing: &DnsblListings, draft: &mut Draft) {
        for warning in Lists::<W>::warnings(subject, standing) {
            draft.prepend(&warning);
        }
        if let Some(lines) = allowed(&self.parts.server, standing) {
            draft.prepend_folded(&lines);
        }
    }
}

fn subject(transaction: &TransactionView) -> Subject {
    let client = transaction.session.client();
    Subject {
        client: client.address.ip(),
        helo: client.helo.as_ref().into(),
        sender_domain: transaction.sender.as_ref().map(|sender| ascii_domain(sender).into()),
    }
}

/// A check of a form: its result, and the action permitted for a failure.
type FormCheck = (StrangersCheck, ActionLimit, Result<(), Refusal>);

/// Counts a refusal.
fn counted<T>(checked: Result<T, Refusal>, counter: &Counter) -> Result<T, Refusal> {
    checked.inspect_err(|_| counter.inc())
}

/// Applies the action permitted for a failed check.
fn object(
    power: ActionLimit,
    transaction: &TransactionView,
    refusal: Refusal,
) -> Result<(), Refusal> {
    match power {
        ActionLimit::Reject => return Err(refusal),
        // A DNS failure is no reason for a hold.
        ActionLimit::Hold if refusal.class == RefusalClass::Transient => {}
        ActionLimit::Hold => transaction.hold(&refusal.text),
        ActionLimit::None | ActionLimit::Mark => {}
    }
    Ok(())
}

/// RFC 3463 §3.2: X.1.8, bad sender's system address.
const NO_DOMAIN: Refusal = Refusal::permanent((1, 8), "Sender address rejected: domain not found");
/// RFC 7505 §4.2.
const NULL_MX: Refusal = Refusal::permanent((7, 27), "Sender domain has a null MX");
/// RFC 3463 §3.5: X.4.3, directory server failure.
const NO_ANSWER: Refusal =
    Refusal::transient((4, 3), "Temporary DNS failure: sender domain; try again later")
        .with_code(450);

/// State of a sender's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderDomain {
    Found,
    /// It does not exist, or has no mail server.
    Missing,
    /// It has a null MX and accepts no mail (RFC 7505).
    TakesNone,
    Unanswered,
}

impl SenderDomain {
    /// Checks that the domain accepts mail.
    ///
    /// # Errors
    /// The refusal of mail from there.
    pub(super) fn check(self) -> Result<(), Refusal> {
        match self {
            SenderDomain::Found => Ok(()),
            SenderDomain::Missing => Err(NO_DOMAIN),
            SenderDomain::TakesNone => Err(NULL_MX),
            SenderDomain::Unanswered => Err(NO_ANSWER),
        }
    }
}

/// Looks up a domain, given in ASCII.
pub(super) async fn look_up<R: Records>(records: &R, domain: &str) -> SenderDomain {
    match found(records, domain).await {
        Ok(found) => found,
        Err(_) => SenderDomain::Unanswered,
    }
}

async fn found<R: Records>(records: &R, domain: &str) -> Result<SenderDomain, Unanswered> {
    let hosts = records.mail_hosts(domain).await?;
    if !hosts.is_empty() {
        let takes_none = hosts.iter().all(|host| host.is_empty());
        return Ok(if takes_none { SenderDomain::TakesNone } else { SenderDomain::Found });
    }
    // RFC 5321 §5.1: without MX records the domain itself is the mail server.
    for family in [Family::V4, Family::V6] {
        if !records.addresses(domain, family).await?.is_empty() {
            return Ok(SenderDomain::Found);
        }
    }
    Ok(SenderDomain::Missing)
}
