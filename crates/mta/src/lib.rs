//! Mail transfer core: ingress accepts, the spool makes durable, the queue schedules, egress delivers, reports go to
//! the sender. Plain async code over the traits of [`seams`].

pub mod acceptor;
pub mod alarm;
pub mod alert_reserve;
pub mod answer;
pub mod budget;
pub mod clients;
pub mod clock;
pub mod commands;
mod conditions;
pub mod console;
pub mod control;
mod crowding;
pub mod custody;
pub mod delivery;
pub mod dialogues;
mod encryption;
pub mod event;
mod facts;
pub mod hashing_lanes;
pub mod holding;
pub mod imported;
pub mod inbox;
pub mod ingress;
mod known_hops;
pub mod known_hosts;
mod known_names;
pub mod lack;
pub mod line;
pub mod login_failures;
pub mod login_registry;
pub mod message;
pub mod metrics;
pub mod name_servers;
mod operator;
pub mod outages;
pub mod overrides;
mod own_fields;
pub mod own_mailbox;
#[cfg(feature = "planted")]
pub mod planted;
pub mod pools;
pub mod pressure;
pub mod problems;
pub mod rate_limits;
mod reply_classes;
mod report_limit;
pub mod routing;
pub mod salts;
mod schedule;
pub mod seams;
pub mod seats;
pub mod services;
pub mod shaping;
pub mod shard;
pub mod shared;
pub mod sources_out;
pub mod srs;
pub mod steering;
pub mod stopping;
pub mod suspension;
pub mod tables;
mod tenants;
#[cfg(test)]
mod testing;
pub mod unheard;
pub mod warmup;
pub mod watched;
pub mod window;

/// The sections of the configuration that this crate defines.
#[must_use]
pub fn sections() -> config::Schema {
    config::Schema::new()
        .section::<srs::RewrittenSenders>()
        .section::<event::EventSettings>()
        .section::<rate_limits::RateLimits>()
}
