//! Worlds in which much is shared: mail goes from several addresses, a provider's limits cut across next hops, and
//! tenants have rates of their own, over four shards. Drawn by itself so that it changes nothing else.

use super::{Act, ActKind, Anger, BY_MX, Hop, Plan, RulePlan, SECOND_US, Word, hop, mx_name};
use crate::network::HostSet;
use crate::plant::Plant;
use load::random::Random;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Shards of these worlds.
const SHARDS: u16 = 4;
/// The second next hop of the provider; the first is [`BY_MX`].
const SECOND_DOMAINS: [&str; 2] = ["d6.test", "d7.test"];
/// In what time, in seconds, rates let all go that clients may hand in.
const ALL_IN_S: u32 = 90;
/// The rate of one message at a time, and nearly no burst.
const PER_SECOND_MIN: u32 = 2;

/// Reloads that change what holds.
const CHANGES_MAX: usize = 3;

/// What is shared.
#[derive(Clone, Debug)]
pub struct PacePlan {
    /// The addresses that mail to the provider goes from.
    pub sources: Vec<IpAddr>,
    /// What holds at first; [`ActKind::Pace`] counts those that hold later.
    pub terms: Vec<PaceTerms>,
    /// When the provider says something that rules listen for.
    pub angers: Vec<Anger>,
    /// What rules listen for, recipients have in their addresses, and the provider never says but as a part of these.
    pub echo: Option<Word>,
    /// The first source warms up.
    pub warmup: Option<WarmupPlan>,
}

/// What holds between two reloads.
#[derive(Clone, Debug)]
pub struct PaceTerms {
    /// Connections to all hosts of the provider, of each source.
    pub connections_max: u32,
    /// Transactions that may begin towards them per second, of each source.
    pub per_second: u32,
    /// The same of each tenant towards anybody.
    pub tenants: Vec<u32>,
    /// What is done when the provider says something.
    pub rules: Vec<RulePlan>,
}

impl Plan {
    /// Draws it for one world of four without small domains: those have a bound on how long mail takes.
    pub(super) fn add_pace(&mut self, random: &mut Random) {
        if random.below(4) > 0 || self.crowd.is_some() {
            return;
        }
        self.shards = SHARDS;
        self.hops.push(Hop { by_mx: true, ..hop(random, 9, &SECOND_DOMAINS, self.heal_us) });
        // Most of the mail goes to the provider.
        let provider =
            [self.hops[BY_MX].domains.clone(), SECOND_DOMAINS.map(str::to_owned).to_vec()];
        for _ in 0..2 {
            self.domains.extend(provider.concat());
        }
        let sources = 2 + random.below(2) as u32;
        let tenants = 2 + random.below(2) as u32;
        let source = |n: u32| IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11 + n as u8));
        self.pace = Some(PacePlan {
            sources: (0..sources).map(source).collect(),
            terms: vec![self.draw_terms(random, sources, tenants)],
            angers: Vec::new(),
            echo: None,
            warmup: None,
        });
    }

    fn draw_terms(&self, random: &mut Random, sources: u32, tenants: u32) -> PaceTerms {
        let messages = self.clients.0 * self.clients.1;
        let rate = |random: &mut Random, share: u32| {
            PER_SECOND_MIN + (2 * messages / share).div_ceil(ALL_IN_S) + random.below(3) as u32
        };
        PaceTerms {
            connections_max: 1 + random.below(3) as u32,
            per_second: rate(random, sources),
            tenants: (0..tenants).map(|_| rate(random, tenants)).collect(),
            rules: Vec::new(),
        }
    }

    /// Draws what changes during a run: limits and rules by reloads, and what the provider says.
    pub(super) fn change_pace(&mut self, random: &mut Random) {
        let Some(mut pace) = self.pace.take() else { return };
        if random.below(2) == 0 {
            pace.add_rules(random, self.heal_us);
        }
        let (sources, tenants) = (pace.sources.len() as u32, pace.terms[0].tenants.len() as u32);
        let mut at_us = 0;
        while pace.terms.len() <= CHANGES_MAX && random.below(3) > 0 {
            at_us += random.below(self.heal_us - at_us);
            self.acts.push(Act { at_us, kind: ActKind::Pace(pace.terms.len()) });
            let mut terms = self.draw_terms(random, sources, tenants);
            terms.rules = pace.changed_rules(random);
            pace.terms.push(terms);
        }
        if random.below(3) == 0 {
            self.warm_up(&mut pace, random);
        }
        self.pace = Some(pace);
        self.acts.sort_by_key(|act| act.at_us);
    }

    /// How many addresses mail to this hop goes from.
    #[must_use]
    pub fn sources_of(&self, hop: &Hop) -> u32 {
        let pace = self.pace.as_ref().filter(|_| hop.by_mx);
        pace.map_or(1, |pace| pace.sources.len() as u32)
    }

    /// The hosts of the provider.
    #[must_use]
    pub fn provider_hosts(&self) -> Vec<SocketAddr> {
        let hops = self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd());
        hops.flat_map(|hop| hop.hosts.clone()).collect()
    }

    /// The hosts that stand in the name of a next hop of the provider (`mx:hop1:mx0.d.test:25>mx1.d.test:25`), in their
    /// order.
    #[must_use]
    pub fn order_of(&self, next_hop: &str) -> Option<Vec<HostSet>> {
        let hops = || self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd());
        let ip_of = |text: &str| {
            let (name, _) = text.rsplit_once(':')?;
            hops().find_map(|hop| {
                let mut hosts = hop.hosts.iter().enumerate();
                hosts.find(|(n, _)| mx_name(hop, *n) == name).map(|(_, host)| host.ip())
            })
        };
        let (_, groups) = next_hop.strip_prefix("mx:")?.split_once(':')?;
        groups.split('>').map(|group| group.split(',').map(ip_of).collect()).collect()
    }

    /// The tenant of the message of this number.
    #[must_use]
    pub fn tenant_of(&self, number: u64) -> Option<usize> {
        self.pace.as_ref().map(|pace| (number % pace.terms[0].tenants.len() as u64) as usize)
    }

    /// The shaping file after so many changes of what is shared.
    #[must_use]
    pub fn shaping(&self, changes: usize, plant: Option<Plant>) -> Option<String> {
        let terms = self.pace.as_ref()?.terms_told(changes, plant);
        let hops = self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd());
        let names: Vec<String> =
            hops.flat_map(|hop| (0..hop.hosts.len()).map(move |n| mx_name(hop, n))).collect();
        let connections =
            terms.connections_max + u32::from(plant == Some(Plant::OneConnectionMore));
        let per_second = terms.per_second * (1 + u32::from(plant == Some(Plant::RateDoubled)));
        Some(format!(
            "[provider.big]\nmx = {names:?}\n\
             together = {{ max_connections = {connections}, rate = [\"{per_second}/s\"] }}\n{}",
            RulePlan::section(&terms.rules),
        ))
    }
}

impl PacePlan {
    /// What holds after so many changes.
    #[must_use]
    pub fn terms_after(&self, changes: usize) -> &PaceTerms {
        &self.terms[changes]
    }

    /// The same, as the node is told.
    fn terms_told(&self, changes: usize, plant: Option<Plant>) -> &PaceTerms {
        let is_told = plant != Some(Plant::KeepOldPace);
        self.terms_after(if is_told { changes } else { 0 })
    }

    /// The name of a source.
    #[must_use]
    pub fn name_of(&self, source: IpAddr) -> Option<String> {
        let number = self.sources.iter().position(|own| *own == source)?;
        Some(format!("s{number}"))
    }

    /// Keys in front of all sections.
    pub(super) fn top(&self) -> &'static str {
        "shaping = [\"/shaping.toml\"]\n"
    }

    /// Keys of the listener.
    pub(super) fn of_listener(&self) -> &'static str {
        "steering_from = [\"10.9.0.0/16\"]\n"
    }

    /// The key of a route that finds hosts by MX records.
    pub(super) fn of_route(&self) -> &'static str {
        "pool = \"all\"\n"
    }

    /// Sections.
    pub(super) fn sections(&self, changes: usize, plant: Option<Plant>) -> String {
        let mut text = "[steering]\ntenant = \"X-Tenant\"\n".to_owned();
        let faster = 1 + u32::from(plant == Some(Plant::RateDoubled));
        for (n, per_second) in self.terms_told(changes, plant).tenants.iter().enumerate() {
            let rate = per_second * faster;
            let _ = writeln!(text, "[[tenant]]\nname = \"t{n}\"\nrate = [\"{rate}/s\"]");
        }
        let mut names = Vec::new();
        for (n, address) in self.sources.iter().enumerate() {
            let _ = writeln!(text, "[[source]]\nname = \"s{n}\"\naddress = \"{address}\"");
            let warmup = self.warmup.as_ref().filter(|_| n == WarmupPlan::SOURCE);
            text.push_str(&warmup.map_or_else(String::new, WarmupPlan::key));
            names.push(format!("{{ name = \"s{n}\" }}"));
        }
        let _ = writeln!(text, "[[pool]]\nname = \"all\"\nsources = [{}]", names.join(", "));
        text
    }
}

impl PacePlan {
    /// Draws some rules, and when the provider says what they listen for.
    pub(super) fn add_rules(&mut self, random: &mut Random, heal_us: u64) {
        let mut words: Vec<Word> = Word::ALL.into_iter().filter(|_| random.below(2) == 0).collect();
        if words.is_empty() {
            words.push(Word::Suspend);
        }
        self.terms[0].rules = words.iter().map(|word| RulePlan::draw(*word, random)).collect();
        for _ in 0..1 + random.below(4) {
            let from_us = random.below(heal_us);
            let until_us = from_us + (1 + random.below(15)) * SECOND_US;
            let word = words[random.below(words.len() as u64) as usize];
            self.angers.push(Anger { from_us, until_us, word });
        }
    }

    /// The rules as a reload may leave them: the same, others of the same names, fewer.
    pub(super) fn changed_rules(&self, random: &mut Random) -> Vec<RulePlan> {
        let before = self.terms.last().map_or(&[][..], |terms| &terms.rules);
        let changed = before.iter().filter_map(|rule| match random.below(6) {
            0 => None,
            1 => Some(RulePlan::draw(rule.word, random)),
            _ => Some(*rule),
        });
        changed.collect()
    }
}

impl Plan {
    /// Draws it: some recipients a day, so that one too many shows, or some at once.
    pub(super) fn warm_up(&mut self, pace: &mut PacePlan, random: &mut Random) {
        let count = |random: &mut Random| match random.below(2) {
            0 => 1 + random.below(3) as u32,
            _ => 120 + random.below(1_000) as u32,
        };
        // More days than a history has.
        let per_day = (0..4).map(|_| count(random)).collect();
        let has_midnight = random.below(2) == 0;
        if has_midnight {
            // Whoever turns the clock back over midnight has a day twice.
            self.acts.retain(|act| !matches!(act.kind, ActKind::JumpBack { .. }));
        }
        let before_ms = 1 + random.below(self.heal_us / 1_000);
        let begins_before_midnight_ms = has_midnight.then_some(before_ms);
        pace.warmup = Some(WarmupPlan { per_day, begins_before_midnight_ms });
        // Jumps of the clock let more go. (So few that nothing expires.)
        for _ in 0..random.below(3) {
            let kind = ActKind::Jump { ms: random.below(300_000) };
            self.acts.push(Act { at_us: random.below(self.heal_us), kind });
        }
    }
}

const DAY_MS: u64 = 86_400_000;

/// What the first source may send.
#[derive(Clone, Debug)]
pub struct WarmupPlan {
    /// Recipients on its first day, the second, and so on.
    pub per_day: Vec<u32>,
    /// The world begins so long before the end of a day of UTC; `None`: at the usual time.
    pub begins_before_midnight_ms: Option<u64>,
}

impl WarmupPlan {
    /// Which of the sources.
    pub const SOURCE: usize = 0;

    /// The key of the source.
    pub(super) fn key(&self) -> String {
        let per_day = &self.per_day;
        format!("warmup = {{ start = \"2026-11-17\", per_day = {per_day:?}, hold_above = 0.9 }}\n")
    }

    /// What is to be added to the wall clock, if that says `wall_ms`.
    #[must_use]
    pub fn offset_ms(&self, wall_ms: u64) -> u64 {
        self.begins_before_midnight_ms.map_or(0, |before_ms| {
            let midnight_ms = (wall_ms / DAY_MS + 1) * DAY_MS;
            midnight_ms - before_ms - wall_ms
        })
    }

    /// The most recipients in any day when so many days have begun before it.
    #[must_use]
    pub fn count_max(&self, days: usize) -> u32 {
        self.per_day.iter().take(days + 1).copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_worlds_share_much_and_their_rates_let_all_go() {
        let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
        let with: Vec<&Plan> = plans.iter().filter(|plan| plan.pace.is_some()).collect();
        assert!((60..140).contains(&with.len()), "{} of 400", with.len());
        for plan in with {
            let pace = plan.pace.as_ref().expect("it has one");
            assert_eq!(plan.shards, SHARDS);
            assert!(plan.crowd.is_none() && plan.provider_hosts().len() >= 2);
            for terms in &pace.terms {
                let all: u32 = terms.tenants.iter().sum();
                assert!(all * ALL_IN_S >= 2 * plan.clients.0 * plan.clients.1, "{pace:?}");
            }
            assert_eq!(plan.sources_of(&plan.hops[0]), 1);
            assert_eq!(plan.sources_of(&plan.hops[BY_MX]) as usize, pace.sources.len());
        }
    }
}
