//! DNSBL lookups, all lists at once, each with a short timeout. A list without an answer counts as not listing the
//! client. A lookup prevented by a local limit leaves the result unknown.

use super::parts::RcptCheckContext;
use super::questions::Memo;
use super::settings::Dnsbl;
use auth::dnsbl::{
    DnsList, DnsblIdentity, DnsblListings, DnsblResult, DnsblSubject, Listing, TestPoint, printable,
};
use auth::judgement::ActionLimit;
use mail::{Mono, Refusal};
use mta::alarm::Alarm;
use mta::answer::{Later, all};
use mta::line::TrustLevel::Good;
use mta::line::{FairKey, FairSemaphore, Owner, SemaphoreLimits as LineParts};
use mta::seams::{Dns, DnsError, Time, World};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for all lists together.
const LISTS_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of concurrent lookups of lists on one shard.
pub(super) const PLACES: u64 = 100;
/// Share for one group of client networks: one part in four.
const GROUP_PART: u64 = 4;

/// Number of consecutive unanswered lookups after which a list is only probed. It would otherwise delay lookups of
/// other lists.
const SILENT_AFTER: u32 = 20;

/// Interval of probes.
const PROBED_EVERY: Duration = Duration::from_secs(1);

/// Client key of a lookup, and its deadline.
type ListRequester = (FairKey, Mono);

/// Listings found before a local limit ended the lookups.
type Cut = Rc<[Listing]>;

/// The queue for lookups of lists.
pub(super) fn line() -> Arc<FairSemaphore> {
    FairSemaphore::new(LineParts { owner_max: PLACES / GROUP_PART, ..LineParts::equal(PLACES) })
}

/// Clients of one network take turns with other networks, and so do the networks of one group.
fn who_is(client: IpAddr) -> FairKey {
    FairKey::new(0, 0).of(Owner::network(client)).within(Owner::site(client))
}

/// Time for which the result of a liveness test of a list is valid.
const ALIVE_LASTS: Duration = Duration::from_secs(3_600);

/// Minimum time between two warnings about one list.
const COMPLAINTS_EVERY: Duration = Duration::from_secs(600);

/// The lists of one listener, with their state and cached results.
pub(super) struct Lists<W: World> {
    parts: Rc<RcptCheckContext<W>>,
    told: Dnsbl,
    /// In the order of `told`.
    health: Vec<Health>,
    known: Memo<(DnsblIdentity, DnsblSubject), Rc<[Listing]>>,
    /// Reasons given by lists in TXT records, by lookup name.
    words: Memo<String, Option<String>>,
}

/// State of a list.
#[derive(Default)]
struct Health {
    /// Result of the last test, and its expiry.
    is_dead: Cell<Option<(Mono, bool)>>,
    quiet_until: Cell<Option<Mono>>,
    /// Number of consecutive lookups without an answer.
    unanswered: Cell<u32>,
    /// Time of the next probe, if it is silent.
    probed_next: Cell<Mono>,
}

impl Health {
    /// Returns true if the list may be looked up: always if it answers, otherwise only for a probe.
    fn may_be_asked(&self, now: Mono) -> bool {
        if self.unanswered.get() < SILENT_AFTER {
            return true;
        }
        let is_due = now >= self.probed_next.get();
        if is_due {
            self.probed_next.set(now + PROBED_EVERY);
        }
        is_due
    }

    fn note<T>(&self, said: &Result<T, DnsError>) {
        match said {
            Ok(_) | Err(DnsError::NoSuchDomain | DnsError::NoRecords) => self.unanswered.set(0),
            Err(DnsError::Lack) => {}
            Err(_) => self.unanswered.set(self.unanswered.get().saturating_add(1)),
        }
    }
}

/// Subject of lookups in lists.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) client: IpAddr,
    pub(super) helo: Rc<str>,
    /// In ASCII. `None` for the null sender.
    pub(super) sender_domain: Option<Rc<str>>,
}

impl Subject {
    fn key(&self, by: DnsblIdentity) -> Option<DnsblSubject> {
        match by {
            DnsblIdentity::Client => Some(DnsblSubject::Address(self.client.to_canonical())),
            DnsblIdentity::Helo => DnsblSubject::domain(&self.helo),
            DnsblIdentity::Sender => self.sender_domain.as_deref().and_then(DnsblSubject::domain),
        }
    }

    /// Name for people.
    fn name(&self, by: DnsblIdentity) -> String {
        match by {
            DnsblIdentity::Client => format!("[{}]", self.client.to_canonical()),
            DnsblIdentity::Helo => format!("HELO name {}", self.helo),
            DnsblIdentity::Sender => {
                format!("Sender domain {}", self.sender_domain.as_deref().unwrap_or(""))
            }
        }
    }
}

impl<W: World> Lists<W> {
    pub(super) fn new(parts: Rc<RcptCheckContext<W>>, told: Dnsbl) -> Lists<W> {
        let health = told.lists.iter().map(|_| Health::default()).collect();
        Lists { parts, told, health, known: Memo::default(), words: Memo::default() }
    }

    /// The action permitted for listed clients.
    pub(super) fn power(&self) -> ActionLimit {
        self.told.power
    }

    /// Returns true if one of the lists is an allow list.
    pub(super) fn may_allow(&self) -> bool {
        self.told.lists.iter().any(DnsList::may_allow)
    }

    /// The listings of the client and its domains, and the result. The flag is true if a local limit prevented some
    /// lookups.
    pub(super) async fn standing(&self, subject: &Subject) -> (DnsblListings, DnsblResult, bool) {
        let kinds = [DnsblIdentity::Client, DnsblIdentity::Helo, DnsblIdentity::Sender];
        let kinds = kinds.into_iter().filter(|by| self.told.lists.iter().any(|l| l.by == *by));
        let asked = kinds.filter_map(|by| Some((by, subject.key(by)?)));
        let who = who_is(subject.client);
        let later = |(by, key)| -> Later<'_, _> { Box::pin(self.listings(by, key, who)) };
        let found = all(asked.map(later).collect()).await;
        let is_cut = found.iter().any(Result::is_err);
        let known = found.iter().flat_map(|found| match found {
            Ok(found) | Err(found) => found.iter().cloned(),
        });
        let standing = DnsblListings(known.collect());
        let verdict = standing.verdict(self.told.threshold);
        (standing, verdict, is_cut)
    }

    /// Looks up an address in advance, if any list needs it.
    pub(super) async fn look_up(&self, client: IpAddr) {
        // A lookup cut short here is repeated when its result is needed.
        let _ = self
            .listings(
                DnsblIdentity::Client,
                DnsblSubject::Address(client.to_canonical()),
                who_is(client),
            )
            .await;
    }

    /// The listings of a key, looked up once for all concurrent requests.
    async fn listings(
        &self,
        by: DnsblIdentity,
        key: DnsblSubject,
        who: FairKey,
    ) -> Result<Rc<[Listing]>, Cut> {
        let now = self.parts.world.time().now();
        let place = self.known.place((by, key.clone()), now);
        let found = place.get_or_try_init(|| async {
            let turn = (who, now + LISTS_TIME_MAX);
            let lists = self.told.lists.iter().zip(&self.health);
            let asked = lists.filter(|(list, _)| list.by == by);
            let later =
                |(list, health)| -> Later<'_, _> { Box::pin(self.ask(list, health, &key, turn)) };
            let said = all(asked.map(later).collect()).await;
            // A result cut short by a local limit is not shared.
            let is_cut = said.iter().any(Result::is_err);
            let found: Rc<[Listing]> = said.into_iter().filter_map(Result::ok).flatten().collect();
            if is_cut { Err(found) } else { Ok(found) }
        });
        found.await.cloned()
    }

    /// The listing in one list.
    ///
    /// # Errors
    /// The lookup got no turn in time.
    async fn ask(
        &self,
        list: &DnsList,
        health: &Health,
        key: &DnsblSubject,
        turn: ListRequester,
    ) -> Result<Option<Listing>, DnsError> {
        let Some(name) = key.name_in(&list.zone) else { return Ok(None) };
        let question = self.parts.world.dns().ipv4_addresses(&name);
        let answers = match self.question(health, question, turn).await {
            Ok(answers) => answers,
            Err(DnsError::NoSuchDomain | DnsError::NoRecords) => return Ok(None),
            Err(cut @ DnsError::Lack) => return Err(cut),
            Err(why) => {
                self.complain(list, health, format_args!("lookup failed: {why}"));
                return Ok(None);
            }
        };
        let weighed = list.weigh(&answers);
        if let Some(senseless) = weighed.senseless {
            let text = format_args!("reply {senseless} is not a listing");
            self.complain(list, health, text);
        }
        let Some((answer, score)) = weighed.listed else { return Ok(None) };
        if self.is_dead(list, health, turn).await {
            let text = format_args!("it lists the RFC 5782 §5 test entry that must not be listed");
            self.complain(list, health, text);
            return Ok(None);
        }
        Ok(Some(Listing { zone: list.zone.clone(), by: list.by, answer, score }))
    }

    /// Returns true if a list contains every name, as abandoned ones do. Tested only when it lists a client.
    async fn is_dead(&self, list: &DnsList, health: &Health, turn: ListRequester) -> bool {
        let now = self.parts.world.time().now();
        if let Some((_, is_dead)) = health.is_dead.get().filter(|(until, _)| now < *until) {
            return is_dead;
        }
        let point =
            if list.by == DnsblIdentity::Client { TestPoint::Address } else { TestPoint::Domain };
        let name = point.name_in(&list.zone);
        let question = self.parts.world.dns().ipv4_addresses(&name);
        let said = self.question(health, question, turn).await;
        let is_dead = match said {
            Ok(answers) => list.weigh(&answers).listed.is_some(),
            Err(DnsError::NoSuchDomain | DnsError::NoRecords) => false,
            // Unknown; tested again the next time.
            Err(_) => return false,
        };
        health.is_dead.set(Some((now + ALIVE_LASTS, is_dead)));
        is_dead
    }

    /// Performs a DNS lookup in its turn.
    ///
    /// # Errors
    /// [`DnsError::Lack`] if it got no turn in time.
    async fn question<T>(
        &self,
        health: &Health,
        question: impl Future<Output = Result<T, DnsError>>,
        (who, until): ListRequester,
    ) -> Result<T, DnsError> {
        let time = self.parts.world.time();
        let in_turn = async {
            let _place = self.parts.of_lists.join(who, Good, 1).await;
            if !health.may_be_asked(time.now()) {
                return Err(DnsError::Transient("no reply for some time".into()));
            }
            let deadline = time.now() + self.told.timeout;
            let said = Alarm::new(time.clone()).within(|_| deadline, question).await;
            let said = said.unwrap_or_else(|| Err(DnsError::Transient("timeout".into())));
            health.note(&said);
            said
        };
        let said = Alarm::new(time.clone()).within(|_| until, in_turn).await;
        said.unwrap_or(Err(DnsError::Lack))
    }

    /// Warns about a list that can't be used, at intervals.
    fn complain(&self, list: &DnsList, health: &Health, why: fmt::Arguments<'_>) {
        let now = self.parts.world.time().now();
        if health.quiet_until.get().is_none_or(|until| now >= until) {
            health.quiet_until.set(Some(now + COMPLAINTS_EVERY));
            let text = format_args!("{}: {why}; list ignored", list.zone);
            self.parts.console.warn("dnsbl", text);
        }
    }

    /// The refusal of a listed client, with the reason of the list with the highest weight.
    pub(super) async fn refusal(&self, subject: &Subject, standing: &DnsblListings) -> Refusal {
        let Some(worst) = standing.worst() else { return Refusal::permanent((7, 1), "Listed") };
        let mut text = format!("{} is listed by {}", subject.name(worst.by), worst.zone);
        if let Some(words) = self.words(subject, worst).await {
            text.push_str(": ");
            text.push_str(&words);
        }
        Refusal { text: Cow::Owned(text), ..Refusal::permanent((7, 1), "") }
    }

    /// The reason given by the list (RFC 5782 §2.1).
    async fn words(&self, subject: &Subject, listing: &Listing) -> Option<String> {
        let name = subject.key(listing.by)?.name_in(&listing.zone)?;
        let asked = self.told.lists.iter().position(|list| list.zone == listing.zone)?;
        let now = self.parts.world.time().now();
        let place = self.words.place(name.clone(), now);
        let words = place.get_or_init(|| async {
            let turn = (who_is(subject.client), now + LISTS_TIME_MAX);
            let question = self.parts.world.dns().txt(&name);
            let said = self.question(&self.health[asked], question, turn).await;
            said.ok()?.first().and_then(|text| printable(text))
        });
        words.await.clone()
    }

    /// Header fields for the lists that contain the client.
    pub(super) fn warnings(subject: &Subject, standing: &DnsblListings) -> Vec<String> {
        let against = standing.0.iter().filter(|listing| listing.score > 0);
        let warning = |listing: &Listing| {
            let (name, zone) = (subject.name(listing.by), &listing.zone);
            format!("X-RBL-Warning: {name} is listed by {zone} ({})", listing.answer)
        };
        against.map(warning).collect()
    }
}
