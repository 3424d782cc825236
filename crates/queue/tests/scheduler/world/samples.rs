//! Keys, limits and entries that tests begin with.

use mail::{Class, Domain, EnhancedStatus, Failure, MessageId, Mono, RequireTls};
use queue::{NamedLimit, NewEntry, ReadyKey, ReadyLimits, RetryPolicy, ScheduledKey};
use std::sync::Arc;
use std::time::Duration;

/// Limits of a hop: its own, and what is shared under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub connections_max: u32,
    pub opens_max: u32,
    pub messages_per_connection: u32,
    pub messages_per_second: f64,
    pub recipients_per_message: u32,
    pub adaptive: bool,
}

impl Limits {
    pub fn own(&self) -> ReadyLimits {
        ReadyLimits {
            opens_max: self.opens_max,
            messages_per_connection: self.messages_per_connection,
            recipients_per_message: self.recipients_per_message,
            adaptive: self.adaptive,
        }
    }

    pub fn shared(&self, name: &str) -> NamedLimit {
        NamedLimit {
            name: Arc::from(name),
            connections_max: self.connections_max,
            messages_per_second: self.messages_per_second,
        }
    }
}

pub fn limits() -> Limits {
    Limits {
        connections_max: 50,
        opens_max: 0,
        messages_per_connection: 0,
        messages_per_second: 0.0,
        recipients_per_message: 100,
        adaptive: false,
    }
}

pub fn policy() -> RetryPolicy {
    RetryPolicy {
        first: Duration::from_secs(60),
        factor: 2.0,
        longest: Duration::from_secs(3600),
        jitter: 0.1,
        give_up_after: Duration::from_secs(5 * 86_400),
        warn_after: None,
    }
}

pub fn failure(text: &str) -> Arc<Failure> {
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 1), text))
}

pub fn scheduled_key(domain: &str) -> ScheduledKey {
    ScheduledKey {
        tenant: Arc::from(""),
        campaign: Arc::from(""),
        domain: Domain::parse(domain).expect("a domain"),
        route: Arc::from(""),
        pool: Arc::from(""),
        window: Arc::from(""),
        require_tls: RequireTls::Unsaid,
        choice: Arc::from(""),
    }
}

pub fn ready_key(next_hop: &str) -> ReadyKey {
    let nothing = || Arc::from("");
    let (source, tls, shaping, login) = (nothing(), nothing(), nothing(), nothing());
    ReadyKey { source, next_hop: Arc::from(next_hop), tls, shaping, login }
}

/// The set of hosts in a key, whatever their order.
pub fn hosts_of(key: &ReadyKey) -> &str {
    key.next_hop.split('>').next().unwrap_or_default()
}

pub fn entry(id: u64, now: Mono) -> NewEntry {
    NewEntry {
        id: MessageId(id),
        recipient: 0,
        received: now,
        age_before_start: Duration::ZERO,
        due: now,
        attempts: 0,
        priority: 4,
        held: false,
        warned: false,
        deadlines: queue::Deadlines::NONE,
        origin: queue::Origin::OURS,
    }
}
