//! The directory of some worlds: whose recipients it has, and when it is ill.

use super::{BY_MX, Plan, SECOND_US, UserLocations};
use crate::names::{BOX_DOMAIN, SENDER_DOMAIN, SPREAD_DOMAIN, UNKNOWN_USER};
use load::random::Random;
use lookup::Lifetimes;
use std::fmt::Write as _;
use std::time::Duration;

/// A local part that ends so is one that an alias stands for.
const BY_ALIAS: &str = "-alias";

/// How the directory feels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Well,
    /// After seconds, now and then later than anybody waits.
    Slow,
    /// It says nothing.
    Silent,
    /// Nobody listens there.
    Gone,
    /// What it says is no answer, half of the time.
    Babbling,
}

/// A time in which the directory is not well, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Illness {
    /// From then on.
    pub from_us: u64,
    /// Until then.
    pub until_us: u64,
    /// How it feels.
    pub health: Health,
}

/// Which routes ask the directory, and how it is.
#[derive(Clone, Debug)]
pub struct DirectoryPlan {
    /// Numbers in [`Plan::hops`].
    hops: Vec<usize>,
    /// Mailboxes are those that it names.
    has_boxes: bool,
    /// The domains of these routes.
    domains: Vec<String>,
    /// The domains among them with aliases.
    alias_domains: Vec<String>,
    /// Domains whose route is lost for a time.
    lost_domains: Vec<String>,
    /// In order; none after all heals.
    pub illnesses: Vec<Illness>,
    /// How long answers count.
    pub lifetimes: Lifetimes,
    /// Answers that are kept.
    pub entries_max: usize,
    /// Requests at once, and keys in each.
    pub requests_max: usize,
    /// Keys in one request.
    pub batch_max: usize,
    /// Where the users of [`SPREAD_DOMAIN`] are, if there are any.
    pub places: Option<UserLocations>,
}

impl Plan {
    /// Draws the directory, where there is one.
    pub(super) fn add_directory(&mut self, random: &mut Random) {
        if random.below(4) > 0 {
            return;
        }
        let has_boxes = random.below(3) > 0;
        let mut hops: Vec<usize> = (0..=BY_MX).filter(|_| random.below(2) == 0).collect();
        if hops.is_empty() && !has_boxes {
            hops.push(0);
        }
        let has_aliases = random.below(2) == 0;
        let of = |hops: &[usize]| -> Vec<String> {
            hops.iter().flat_map(|&hop| self.hops[hop].domains.clone()).collect()
        };
        let boxes = has_boxes.then(|| BOX_DOMAIN.to_owned());
        // What fails in a domain that is found by MX records is reported by its own name.
        let with_aliases: Vec<usize> = hops.iter().copied().filter(|&hop| hop != BY_MX).collect();
        let lost: Vec<usize> =
            self.changes.iter().filter(|change| change.gone).map(|change| change.hop).collect();
        let seconds = |random: &mut Random, below| Duration::from_secs(random.below(below));
        let lifetimes = Lifetimes {
            positive: seconds(random, 10),
            negative: seconds(random, 5),
            stale: if random.below(2) == 0 { seconds(random, 20) } else { Duration::ZERO },
        };
        self.directory = Some(DirectoryPlan {
            domains: of(&hops).into_iter().chain(boxes.clone()).collect(),
            alias_domains: match has_aliases {
                true => of(&with_aliases).into_iter().chain(boxes).collect(),
                false => Vec::new(),
            },
            lost_domains: of(&lost),
            hops,
            has_boxes,
            illnesses: illnesses(random, self.heal_us.min(self.traffic_us)),
            lifetimes,
            entries_max: 1 << random.below(9),
            requests_max: 1 + random.below(3) as usize,
            batch_max: 1 + random.below(4) as usize,
            places: None,
        });
    }
}

/// Draws when it is ill: most of a time that ends by itself, so that much is asked in it and some
/// after it.
fn illnesses(random: &mut Random, end_us: u64) -> Vec<Illness> {
    let mut illnesses = Vec::new();
    // Some recover while there is traffic still.
    let end_us = SECOND_US + random.below(end_us);
    let mut at_us = 0;
    loop {
        let from_us = at_us + random.below(15 * SECOND_US);
        let until_us = from_us + random.below(30 * SECOND_US);
        let all = [Health::Slow, Health::Silent, Health::Gone, Health::Babbling];
        let health = all[random.below(4) as usize];
        if from_us >= end_us {
            return illnesses;
        }
        illnesses.push(Illness { from_us, until_us: until_us.min(end_us), health });
        at_us = until_us;
    }
}

impl DirectoryPlan {
    /// How it feels at that time.
    #[must_use]
    pub fn health(&self, at_us: u64) -> Health {
        let now = |illness: &&Illness| (illness.from_us..illness.until_us).contains(&at_us);
        self.illnesses.iter().find(now).map_or(Health::Well, |illness| illness.health)
    }

    /// Whether the recipients of this domain are in it.
    #[must_use]
    pub fn governs(&self, domain: &str) -> bool {
        self.domains.iter().any(|governed| governed == domain)
    }

    /// Whether it has this address.
    #[must_use]
    pub fn has(&self, address: &str) -> bool {
        let Some((local, domain)) = address.rsplit_once('@') else { return false };
        !local.is_empty() && !local.ends_with(UNKNOWN_USER) && self.governs(domain)
    }

    /// Has the users of a hop, and where they are.
    pub(super) fn add_spread(&mut self, hop: usize, places: UserLocations) {
        self.hops.push(hop);
        self.domains.push(SPREAD_DOMAIN.to_owned());
        self.places = Some(places);
    }

    /// Where the users of this address's domain are, if that is asked.
    #[must_use]
    pub fn places_of(&self, address: &str) -> Option<&UserLocations> {
        self.places.as_ref().filter(|_| address.ends_with(SPREAD_DOMAIN))
    }

    /// Whom this address stands for.
    #[must_use]
    pub fn alias(&self, address: &str) -> Option<String> {
        let (local, domain) = address.rsplit_once('@')?;
        let may_stand = self.alias_domains.iter().any(|of| of == domain) && self.has(address);
        let stands = may_stand
            && !local.ends_with(BY_ALIAS)
            // No alias has an owner: reports go to whoever sent the mail.
            && !local.starts_with("owner-")
            && crc32c::crc32c(address.as_bytes()).is_multiple_of(3);
        stands.then(|| format!("{local}{BY_ALIAS}@{domain}"))
    }

    /// Whether the route of this address may be lost.
    #[must_use]
    pub fn may_lack_route(&self, address: &str) -> bool {
        let domain = address.rsplit('@').next().unwrap_or_default();
        self.lost_domains.iter().any(|lost| lost == domain)
    }

    /// The tables, as the configuration has them. (What they are told there counts for nothing.)
    pub(super) fn tables(&self) -> &'static str {
        "[[table]]\nname = \"users\"\ninline = {}\n[[table]]\nname = \"aliases\"\ninline = {}\n"
    }

    /// What the route of a hop is told of it. `all`: every route is, but that of the senders.
    pub(super) fn keys_of_hop(&self, number: usize, domain: &str, all: bool) -> String {
        let mut keys = String::new();
        if self.hops.contains(&number) || all && domain != SENDER_DOMAIN {
            keys.push_str("recipients = { table = \"users\" }\n");
        }
        self.push_aliases(&mut keys, domain);
        keys
    }

    fn push_aliases(&self, keys: &mut String, domain: &str) {
        if self.alias_domains.iter().any(|of| of == domain) {
            // Writing to a String can't fail.
            let _ = writeln!(keys, "aliases = {{ table = \"aliases\" }}");
        }
    }

    /// The keys of the mailboxes' route: whom it has, and the last part of a mailbox's path.
    pub(super) fn keys_of_boxes(&self) -> (String, &'static str) {
        let mut keys = String::new();
        if !self.has_boxes {
            return (keys, "{local}");
        }
        keys.push_str("recipients = { table = \"users\" }\n");
        self.push_aliases(&mut keys, BOX_DOMAIN);
        (keys, "{value}")
    }
}
