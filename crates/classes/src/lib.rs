//! What a peer means when it says no: each failing reply gets a [`ReplyClass`] and a [`FailureKind`].
//!
//! Rules are lines of text, ours (`builtin.classes`) behind those of the operator's files; the first
//! that matches wins. [`Classes`] is an immutable set of them, [`Classifier`] one with a memory of what
//! it was asked. Nothing here knows where a reply came from: code, enhanced status, provider and words
//! come in as values. Only what a peer said belongs here; a lack of our own has no class.

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
