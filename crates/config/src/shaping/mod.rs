//! Traffic shaping: the pace of mail to each provider. Files define mailbox providers by their MX hosts.
//!
//! The settings for a domain are merged from levels, each overriding the one before: `[default]`, the route's own keys,
//! the provider's, the domain's. Only routes that find hosts in the DNS are shaped: if the configuration names hosts,
//! it also defines their pace.

mod easing;
mod pace;
mod rate;
mod read;
mod read_rule;
mod rule;
mod written;

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

pub use easing::{Easing, QUARTERS, RuleLimit, RuleSet};
pub use rate::Rate;
pub use rule::{
    Action, HITS_MAX, HitThreshold, LASTS_MAX, LocatedText, RULES_MAX, Rule, RuleCondition,
};

use crate::explainer::{ExplainedDecision, Origin};
use crate::patterns::DomainPattern;
use crate::problem::ConfigErrors;
use crate::route::RouteTable;
use crate::{RouteLimits, Source};
use mail::Domain;
use mail::map::FixedMap;
use pace::{FileLine, Set, in_words};
use rule::ProviderRules;

pub(crate) use pace::Pace;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// Built-in knowledge of providers.
const BUILTIN: &str = include_str!("builtin.toml");

/// Its name in the configuration, and in references to its lines.
pub(crate) const BUILTIN_NAME: &str = "builtin";

/// Source of shaping settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapingSource {
    /// Built-in knowledge of providers.
    Builtin,
    /// A file of the operator's.
    File(PathBuf),
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct ShapingFile {
    /// Its name, for people.
    pub name: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}

impl ShapingFile {
    /// Built-in knowledge of providers.
    #[must_use]
    pub fn builtin() -> ShapingFile {
        ShapingFile { name: BUILTIN_NAME.into(), text: BUILTIN.into() }
    }
}

/// A mailbox provider.
#[derive(Clone, Debug)]
struct Provider {
    name: Arc<str>,
    /// The line that names it.
    place: FileLine,
    /// `None`: not set in the file.
    mx: Option<Vec<(DomainPattern, FileLine)>>,
    domains: Option<Vec<(DomainPattern, FileLine)>>,
    pace: Pace,
    together: ProviderLimits,
    rules: ProviderRules,
    /// Deviations for single sources.
    sources: BTreeMap<Box<str>, (FileLine, Pace)>,
}

impl Provider {
    /// Applies the overrides of a later file.
    fn change(&mut self, later: Provider) {
        self.mx = later.mx.or(self.mx.take());
        self.domains = later.domains.or(self.domains.take());
        self.pace = later.pace.over(&self.pace);
        for (source, (place, pace)) in later.sources {
            let before = self.sources.get(&source).map(|(_, before)| pace.over(before));
            self.sources.insert(source, (place, before.unwrap_or(pace)));
        }
        self.together.change(later.together);
        self.rules.change(later.rules);
    }
}

/// Limits shared by a provider's host sets.
#[derive(Clone, Debug, Default)]
struct ProviderLimits {
    max_connections: Option<Set<u32>>,
    rates: Option<Set<Vec<Rate>>>,
}

impl ProviderLimits {
    /// Applies the overrides of a later file.
    fn change(&mut self, later: ProviderLimits) {
        self.max_connections = later.max_connections.or(self.max_connections.take());
        self.rates = later.rates.or(self.rates.take());
    }
}

/// All files, merged.
#[derive(Clone, Debug, Default)]
pub struct Shaping {
    default: Pace,
    /// For domains without a provider.
    default_rules: ProviderRules,
    providers: Vec<Provider>,
    by_mx: RouteTable,
    by_domain: RouteTable,
    domains: FixedMap<Domain, Pace>,
}

impl Shaping {
    /// Reads files, of which later ones win.
    ///
    /// # Errors
    /// What is wrong with the first file that has mistakes; names that two providers both claim.
    pub fn read(files: &[ShapingFile]) -> Result<Shaping, ConfigErrors> {
        let mut shaping = Shaping::default();
        for file in files {
            let read = read::read(file)?;
            shaping.default = read.default.over(&shaping.default);
            shaping.default_rules.change(read.default_rules);
            for later in read.providers {
                match shaping.providers.iter_mut().find(|provider| provider.name == later.name) {
                    Some(provider) => provider.change(later),
                    None => shaping.providers.push(later),
                }
            }
            for (domain, pace) in read.domains {
                let before = shaping.domains.get(&domain).map(|before| pace.over(before));
                shaping.domains.insert(domain, before.unwrap_or(pace));
            }
            shaping.check_claims(file)?;
        }
        shaping.complete_rules(files)?;
        for (provider, index) in shaping.providers.iter().zip(0_u32..) {
            for (pattern, _) in provider.mx.iter().flatten() {
                shaping.by_mx.insert(pattern, index);
            }
            for (pattern, _) in provider.domains.iter().flatten() {
                shaping.by_domain.insert(pattern, index);
            }
        }
        Ok(shaping)
    }

    /// Completes rules, which may be spread over several files.
    fn complete_rules(&mut self, files: &[ShapingFile]) -> Result<(), ConfigErrors> {
        let of_providers = self.providers.iter_mut().map(|provider| &mut provider.rules);
        let mut count = 0;
        for rules in std::iter::once(&mut self.default_rules).chain(of_providers) {
            let too_many = |part: &rule::PartialRule| rule::Incomplete {
                place: part.place.clone(),
                message: format!("more than {RULES_MAX} rules"),
                help: "",
            };
            count += rules.parts.len();
            let last = rules.parts.last().filter(|_| count > RULES_MAX);
            let wrong = last.map(too_many).or_else(|| rules.complete().err());
            let Some(wrong) = wrong else { continue };
            if let Some(file) = files.iter().find(|file| file.name == wrong.place.file) {
                return Err(read::refused(file, wrong.place.line, wrong.message, wrong.help));
            }
        }
        Ok(())
    }

    /// Checks that each name belongs to one provider; `file` was added last.
    fn check_claims(&self, file: &ShapingFile) -> Result<(), ConfigErrors> {
        let mx = read::conflict(self.providers.iter().map(|p| (&*p.name, p.mx.as_deref())));
        let domains = self.providers.iter().map(|p| (&*p.name, p.domains.as_deref()));
        let Some(conflict) = mx.or_else(|| read::conflict(domains)) else { return Ok(()) };
        let (here, there) = match conflict.places {
            (first, second) if second.file == file.name => (second, first),
            (first, second) => (first, second),
        };
        let (one, other) = conflict.providers;
        let message = format!("a name of both provider \"{one}\" and \"{other}\", at {there}");
        let help = "change a provider of an earlier file by its name; `mx = []` clears its names";
        Err(read::refused(file, here.line, message, help))
    }

    /// Checks that each source named by a provider exists.
    ///
    /// # Errors
    /// Returns the first that does not.
    pub(crate) fn check_sources(
        &self,
        files: &[ShapingFile],
        known: &[Arc<Source>],
    ) -> Result<(), ConfigErrors> {
        let mut named = self.providers.iter().flat_map(|provider| &provider.sources);
        let is_unknown = |name: &str| known.iter().all(|source| *source.name != *name);
        let Some((name, (place, _))) = named.find(|(name, _)| is_unknown(name)) else {
            return Ok(());
        };
        let names: Vec<&str> = known.iter().map(|source| &*source.name).collect();
        let help = format!("configured: {}", names.join(", "));
        match files.iter().find(|file| file.name == place.file) {
            Some(file) => {
                let message = format!("unknown source \"{name}\"");
                Err(read::refused(file, place.line, message, &help))
            }
            None => Ok(()),
        }
    }

    /// The provider of a domain with these MX hosts, and true if the domain itself is listed.
    fn provider<'h>(
        &self,
        domain: &Domain,
        mut hosts: impl Iterator<Item = &'h str>,
    ) -> Option<(&Provider, bool)> {
        if let Some(index) = self.by_domain.named(domain) {
            return self.providers.get(index).map(|provider| (provider, true));
        }
        let of = |host: &str| self.by_mx.named(&Domain::parse(host).ok()?);
        let first = of(hosts.next()?)?;
        let is_all = hosts.all(|host| of(host) == Some(first));
        self.providers.get(first).filter(|_| is_all).map(|provider| (provider, false))
    }

    /// The settings for mail to `domain` with these hosts, from a source (`None`: the system's default address), by a
    /// route with these limits. `own` are the settings of the route itself.
    pub(crate) fn in_force<'h>(
        &self,
        (limits, own): (RouteLimits, Option<&Pace>),
        source: Option<&str>,
        domain: &Domain,
        hosts: impl Iterator<Item = &'h str>,
    ) -> InForce<'_> {
        let provider = self.provider(domain, hosts);
        let mut pace = match own {
            Some(own) => own.over(&self.default),
            None => self.default.clone(),
        };
        if let Some((provider, _)) = provider {
            pace = provider.pace.over(&pace);
        }
        let of_domain = self.domains.get(domain);
        if let Some(of_domain) = of_domain {
            pace = of_domain.over(&pace);
        }
        let of_source = provider.zip(source);
        let of_source = of_source.and_then(|((provider, _), name)| provider.sources.get(name));
        if let Some((_, of_source)) = of_source {
            pace = of_source.over(&pace);
        }
        let apart = match (of_domain, provider) {
            (Some(_), _) => Some(format!("domain {domain}")),
            (None, Some((provider, true))) => Some(format!("provider {}", provider.name)),
            _ => None,
        };
        let (limits, rates) = pace.instead_of(limits);
        let rules = provider.map_or(&self.default_rules, |(provider, _)| &provider.rules);
        let provider = provider.map(|(provider, _)| provider);
        InForce { limits, rates, apart, provider, rules, pace }
    }
}

/// The known providers: from shaping files, or built in. The built-in ones are parsed once per process, at first use.
#[derive(Clone, Debug, Default)]
pub struct Providers(pub(crate) Option<Arc<Shaping>>);

impl Providers {
    fn shaping(&self) -> &Shaping {
        static BUILTIN_SHAPING: LazyLock<Shaping> = LazyLock::new(|| {
            let read = Shaping::read(&[ShapingFile::builtin()]);
            read.unwrap_or_else(|errors| unreachable!("{errors}"))
        });
        self.0.as_deref().unwrap_or_else(|| &BUILTIN_SHAPING)
    }

    /// The provider of this host.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&str> {
        let shaping = self.shaping();
        let host = Domain::parse(host.strip_suffix('.').unwrap_or(host)).ok()?;
        let provider = shaping.providers.get(shaping.by_mx.named(&host)?)?;
        Some(&provider.name)
    }

    /// Returns true if a provider has this name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.shaping().providers.iter().any(|provider| *provider.name == *name)
    }
}

/// The settings for a next hop.
#[derive(Clone, Debug)]
pub(crate) struct InForce<'a> {
    limits: RouteLimits,
    rates: Vec<Rate>,
    apart: Option<String>,
    provider: Option<&'a Provider>,
    rules: &'a ProviderRules,
    pace: Pace,
}

impl InForce<'_> {
    /// As the queue needs it.
    pub(crate) fn paced(self) -> Paced {
        let together = self.provider.map(|provider| {
            let ProviderLimits { max_connections, rates } = &provider.together;
            PacedTogether {
                provider: Arc::clone(&provider.name),
                connections_max: max_connections.as_ref().map_or(0, |set| set.value),
                rates: rates.as_ref().map(|set| set.value.clone()).unwrap_or_default(),
            }
        });
        let Self { limits, rates, apart, .. } = self;
        Paced { limits, rates, apart, together, ..Paced::of_route(limits) }
    }

    /// For people: each limit with the line that sets it. Those of the route itself are not among them.
    pub(crate) fn steps(&self) -> Vec<ExplainedDecision> {
        let step = |what: &str, value: String, place: &dyn std::fmt::Display| ExplainedDecision {
            what: what.to_owned(),
            value,
            decided_by: Origin::Line(place.to_string()),
        };
        let mut steps = Vec::new();
        if let Some(provider) = self.provider {
            steps.push(step("provider", provider.name.to_string(), &provider.place));
        }
        let shown = self.pace.shown();
        steps.extend(shown.into_iter().map(|(what, value, place)| step(what, value, place)));
        let together = self.provider.map(|provider| &provider.together);
        let most = together.and_then(|together| together.max_connections.as_ref());
        steps.extend(
            most.map(|set| step("max_connections together", set.value.to_string(), &set.place)),
        );
        let rates = together.and_then(|together| together.rates.as_ref());
        steps.extend(rates.map(|set| step("rate together", in_words(&set.value), &set.place)));
        let rules = self.rules.all();
        let ProviderLimits { max_connections, rates } = &self.rules.backoff;
        if rules.iter().any(|rule| rule.action == Action::Backoff) {
            steps.extend(
                max_connections.as_ref().map(|set| {
                    step("max_connections in backoff", set.value.to_string(), &set.place)
                }),
            );
            let rates = rates.as_ref();
            steps
                .extend(rates.map(|set| step("rate in backoff", in_words(&set.value), &set.place)));
        }
        let rules = rules.iter();
        steps.extend(
            rules.map(|rule| step(&format!("rule {}", rule.name), rule.in_words(), &rule.place)),
        );
        steps
    }
}

/// The limits of a next hop.
#[derive(Clone, Debug, PartialEq)]
pub struct Paced {
    /// Limits of the route, overridden by shaping.
    pub limits: RouteLimits,
    /// Message rates for its set of hosts; all in force, besides that of `limits`.
    pub rates: Vec<Rate>,
    /// Distinguishes this domain from domains with the same hosts and other limits.
    pub apart: Option<String>,
    /// Limits shared with other sets of hosts.
    pub together: Option<PacedTogether>,
    /// Replacements by rules of the set of hosts' limits, which are unchanged here.
    pub sets: Vec<RuleSet>,
    /// Additional limits by rules.
    pub by_rules: Vec<RuleLimit>,
}

impl Paced {
    /// Those of a route that is not shaped.
    #[must_use]
    pub fn of_route(limits: RouteLimits) -> Paced {
        Paced {
            limits,
            rates: Vec::new(),
            apart: None,
            together: None,
            sets: Vec::new(),
            by_rules: Vec::new(),
        }
    }
}

/// Limits shared by the host sets of one provider. 0: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct PacedTogether {
    /// The provider of the hosts.
    pub provider: Arc<str>,
    /// Connections at once.
    pub connections_max: u32,
    /// Message rates, all in force.
    pub rates: Vec<Rate>,
}
