//! What an operator can ask of sources.

use serde::{Deserialize, Serialize};

/// Courses that an answer has of one source: those of the last days, and of these the largest.
pub const SHOWN_COURSES_MAX: usize = 1_000;

/// Sources, and how far those have come that warm up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {}

/// A source of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceItem {
    pub name: String,
    /// It has a warm-up.
    #[serde(default)]
    pub warms_up: bool,
    /// Providers and sets of hosts that something was sent to since it began to warm up, some of them if there are
    /// more than a thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<CourseItem>,
    /// How many there are.
    #[serde(default)]
    pub courses_count: u64,
}

/// How far a source has come with a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CourseItem {
    /// The provider, or the set of hosts.
    pub towards: String,
    /// Which day of the warm-up, from 1.
    pub stage: u32,
    /// Days that it has.
    pub stages: u32,
    /// The recipients of that day; absent once it is warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The day that the rest is about, in UTC.
    pub date: String,
    /// Recipients handed out on it.
    pub used: u32,
    pub tried: u32,
    pub delivered: u32,
    /// Deferred or refused as blocked or rate limited.
    pub held: u32,
}
