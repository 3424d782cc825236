//! Classification of failing replies: each gets a [`ReplyClass`] and a [`FailureKind`].
//!
//! Rules are lines of text: first those of the operator's files, then the built-in ones
//! (`builtin.classes`). The first match wins. [`Classes`] is an immutable set of rules, and
//! [`Classifier`] adds a cache. Code, enhanced status, provider and text of a reply are arguments.
//! Failures of this server have no class.

mod addresses;
mod class;
mod classes;
mod classifier;
mod file;
mod pattern;
mod rule;
mod said;

pub use addresses::without_words;
pub use class::{FailureKind, ReplyClass};
pub use classes::{BUILTIN, Classes, Named, ReplyClassification, RulePosition};
pub use classifier::{CACHE_MAX, Classifier};
pub use file::{
    FILE_BYTES_MAX, MISTAKES_MAX, PATTERN_BYTES_MAX, RULES_MAX, RuleFile, RuleFileError,
    matches_everything,
};
pub use pattern::{Pattern, one_line};
pub use rule::{CodePattern, StatusPattern};
pub use said::{PeerReply, REPLY_BYTES_MAX, read_reply};
