//! Rules of shaping: what peers say is counted over all shards, and what comes of it is in force for a while.
//!
//! [`Rules`] are those of the configuration, ready to be asked. [`RulesInForce`] counts what is heard and keeps
//! effects; a lock is taken only when a rule matches. Shards follow the effects that are in force
//! (`schedule/shaped.rs`), and one of them keeps the time (`operator/shaped.rs`).

mod book;
mod in_force;
mod rules;

pub(crate) use book::{EFFECTS_MAX, EffectKey, News, Origin, Over};
pub use in_force::RulesInForce;
pub(crate) use rules::Words;
pub use rules::{RuleMatcher, Rules};
