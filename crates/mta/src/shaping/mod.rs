//! Shaping rules: peers' replies that match are counted over all shards, and their effects are in force for a time.
//!
//! [`Rules`] are the compiled rules of the configuration. [`RulesInForce`] counts matches and keeps effects; a lock is
//! taken only when a rule matches. Shards follow the effects in force (`schedule/shaped.rs`), and one shard advances
//! them over time (`operator/shaped.rs`).

mod book;
mod in_force;
mod rules;

pub(crate) use book::{EFFECTS_MAX, EffectKey, News, Origin, Over};
pub use in_force::RulesInForce;
pub(crate) use rules::Words;
pub use rules::{RuleMatcher, Rules};
