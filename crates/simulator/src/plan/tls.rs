//! TLS of next hops: what routes ask of them, what hosts can do, and what DNSSEC and domains promise.

use super::dns::mx_name;
use super::{Act, ActKind, BY_MX, Hop, Plan, RouteChange};
use load::random::Random;
use std::net::IpAddr;

/// The key that no host has.
pub const NOBODYS_KEY: u8 = 254;

/// The next hops that have TLS in worlds with it: all but those that are there for something else.
const HOPS: usize = 4;

/// TLS towards a next hop.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// `tls` of its route.
    pub word: &'static str,
    /// Of each host.
    pub hosts: Vec<HostTls>,
    /// Of each of its domains, if it is found by MX records: DNSSEC vouches for them.
    pub secure: Vec<bool>,
    /// Of each domain: what it promises, from when on, in order.
    pub promises: Vec<Vec<(u64, Promise)>>,
    /// In this time the pages of the promises can't be fetched.
    pub away_us: (u64, u64),
}

/// TLS of one host, until all heals; then it does all well.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostTls {
    /// What it does wrong.
    pub illness: Option<TlsIllness>,
    /// Its records.
    pub tlsa: TlsaPlan,
}

/// What a host does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsIllness {
    /// It does not offer STARTTLS.
    Lacks,
    /// Somebody on the way takes the offer out, now and then.
    Stripped,
    /// 454 to STARTTLS.
    Refuses,
    /// It hangs up amid the handshake.
    Breaks,
    /// It never answers in the handshake.
    Silent,
    /// It says something in clear behind the reply to STARTTLS.
    Injects,
    /// It has the certificate of another.
    Wrong,
    /// It has one that is out of date.
    Expired,
}

const ILLNESSES: [TlsIllness; 8] = [
    TlsIllness::Lacks,
    TlsIllness::Stripped,
    TlsIllness::Refuses,
    TlsIllness::Breaks,
    TlsIllness::Silent,
    TlsIllness::Injects,
    TlsIllness::Wrong,
    TlsIllness::Expired,
];

impl TlsIllness {
    /// One of them, by chance.
    #[must_use]
    pub fn any(chance: u64) -> TlsIllness {
        ILLNESSES[(chance % ILLNESSES.len() as u64) as usize]
    }
}

/// TLSA records of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsaPlan {
    /// It has none.
    #[default]
    None,
    /// One about its certificate.
    Right,
    /// One about a certificate that nobody has.
    Wrong,
    /// One of a kind that mail does not use.
    Unusable,
    /// The answer is false, says DNSSEC.
    Bogus,
}

/// What a domain promises (MTA-STS).
#[derive(Clone, Debug)]
pub struct Promise {
    /// `mode`; empty: there is no promise.
    pub mode: &'static str,
    /// The hosts that it has.
    pub hosts: Vec<String>,
    /// `max_age`.
    pub seconds: u64,
}

impl Promise {
    /// The page.
    #[must_use]
    pub fn text(&self) -> String {
        let hosts: String = self.hosts.iter().map(|host| format!("mx: {host}\n")).collect();
        format!("version: STSv1\nmode: {}\n{hosts}max_age: {}\n", self.mode, self.seconds)
    }
}

/// What stands for the key of the host at this address.
#[must_use]
pub fn key_of(host: IpAddr) -> u8 {
    let IpAddr::V4(host) = host else { return NOBODYS_KEY };
    let [.., hop, number] = host.octets();
    hop.wrapping_mul(16).wrapping_add(number)
}

impl Plan {
    /// Whether next hops have TLS, and the node for its clients.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.hops.iter().any(|hop| hop.tls.is_some())
    }

    /// Draws TLS for the next hops of one world of two.
    pub(super) fn add_tls(&mut self, random: &mut Random) {
        if random.below(2) > 0 {
            return;
        }
        self.fault_rates.peer_tls = random.below(150) as u16;
        for number in 0..HOPS {
            let word = word(random, number == BY_MX);
            let hop = &self.hops[number];
            let hosts = hop.hosts.iter().map(|_| host_tls(random)).collect();
            let secure = hop.domains.iter().map(|_| random.below(3) > 0).collect();
            let promises = match number {
                BY_MX => hop.domains.iter().map(|_| promises(random, hop, self.heal_us)).collect(),
                _ => Vec::new(),
            };
            let from_us = random.below(self.heal_us);
            let until_us = from_us + random.below(self.heal_us - from_us);
            let away_us = if random.below(2) == 0 { (from_us, until_us) } else { (0, 0) };
            self.hops[number].tls = Some(TlsPlan { word, hosts, secure, promises, away_us });
        }
        if random.below(3) == 0 {
            self.change_tls(random);
        }
    }

    /// A route asks for other TLS from some time on.
    fn change_tls(&mut self, random: &mut Random) {
        let changes = |act: &&Act| matches!(act.kind, ActKind::Change(_));
        let last_us = self.acts.iter().filter(changes).map(|act| act.at_us).max().unwrap_or(0);
        let at_us = last_us + random.below(self.heal_us - last_us);
        let hop = random.below(HOPS as u64) as usize;
        let now = &self.hops_after(self.changes.len())[hop];
        let same_hosts = |other: &usize| self.hops[*other].hosts == now.hosts;
        self.changes.push(RouteChange {
            hop,
            connections_max: now.connections_max,
            in_flight_max: now.in_flight_max,
            goes_to: (0..HOPS).find(same_hosts).unwrap_or(hop),
            gone: now.gone,
            tls: Some(word(random, hop == BY_MX)),
        });
        self.acts.push(Act { at_us, kind: ActKind::Change(self.changes.len() - 1) });
        self.acts.sort_by_key(|act| act.at_us);
    }
}

fn word(random: &mut Random, by_mx: bool) -> &'static str {
    match (by_mx, random.below(8)) {
        (true, 0..=3) => "mta-sts",
        (true, 4 | 5) => "dane",
        (false, 0) => "off",
        (false, 1 | 2) | (true, 6) => "required",
        (false, 3..=5) => "verified",
        _ => "opportunistic",
    }
}

fn host_tls(random: &mut Random) -> HostTls {
    let illness = TlsIllness::any(random.next_u64());
    HostTls {
        illness: (random.below(3) == 0).then_some(illness),
        tlsa: match random.below(8) {
            0..=2 => TlsaPlan::None,
            3 | 4 => TlsaPlan::Right,
            5 => TlsaPlan::Wrong,
            6 => TlsaPlan::Unusable,
            _ => TlsaPlan::Bogus,
        },
    }
}

/// What a domain promises over time; in the end all its hosts may have its mail.
fn promises(random: &mut Random, hop: &Hop, heal_us: u64) -> Vec<(u64, Promise)> {
    let all: Vec<String> = (0..hop.hosts.len()).map(|number| mx_name(hop, number)).collect();
    let mut promises = Vec::new();
    let mut at_us = 0;
    loop {
        let mode = match random.below(8) {
            0 => "",
            1 => "none",
            2 => "testing",
            _ => "enforce",
        };
        let mut hosts = all.clone();
        if random.below(2) == 0 {
            hosts.retain(|_| random.below(2) == 0);
        }
        if hosts.is_empty() {
            hosts.push("mx.elsewhere.test".to_owned());
        }
        let seconds = if random.below(2) == 0 { 5 + random.below(60) } else { 86_400 };
        promises.push((at_us, Promise { mode, hosts, seconds }));
        at_us += random.below(heal_us - at_us);
        if random.below(2) == 0 {
            break;
        }
    }
    // Who takes a promise back says so (RFC 8461 §8.3): else it holds until its time is over.
    let last = promises.last().map_or("", |(_, promise)| promise.mode);
    let last = if last.is_empty() { "none" } else { last };
    promises.push((heal_us, Promise { mode: last, hosts: all, seconds: 86_400 }));
    promises
}

impl TlsPlan {
    /// What domain number `which` promises at that time, and how often that has changed.
    #[must_use]
    pub fn promise(&self, which: usize, at_us: u64) -> Option<(usize, &Promise)> {
        let all = self.promises.get(which)?;
        let number = all.partition_point(|&(from_us, _)| from_us <= at_us).checked_sub(1)?;
        all.get(number).map(|(_, promise)| (number, promise)).filter(|(_, p)| !p.mode.is_empty())
    }
}

impl Hop {
    /// The host number `number` by all its names: its address, and what MX records call it.
    #[must_use]
    pub fn names_of(&self, number: usize) -> Vec<String> {
        let address = self.hosts.get(number).map(|host| host.ip().to_string());
        let name = self.by_mx.then(|| mx_name(self, number));
        address.into_iter().chain(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_have_all_kinds_of_policies_and_in_the_end_all_is_well() {
        let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
        let with: Vec<&Plan> = plans.iter().filter(|plan| plan.hops[BY_MX].tls.is_some()).collect();
        assert!((120..280).contains(&with.len()), "{} of 400", with.len());
        let by_mx = || with.iter().filter_map(|plan| plan.hops[BY_MX].tls.as_ref());
        for word in ["mta-sts", "dane", "required", "opportunistic"] {
            assert!(by_mx().any(|tls| tls.word == word), "{word}");
        }
        let differ = |tls: &&TlsPlan| {
            let mode = |which| tls.promise(which, 0).map(|(_, promise)| promise.mode);
            mode(0) == Some("enforce") && mode(1) != Some("enforce")
        };
        assert!(by_mx().filter(differ).count() > 5);
        for plan in &with {
            let hop = &plan.hops[BY_MX];
            let tls = hop.tls.as_ref().expect("it has TLS");
            for which in 0..hop.domains.len() {
                if let Some((_, promise)) = tls.promise(which, plan.heal_us) {
                    assert_eq!(promise.hosts.len(), hop.hosts.len());
                }
            }
        }
        assert!(with.iter().any(|plan| plan.changes.iter().any(|change| change.tls.is_some())));
    }
}
