//! What one check may do.

use auth::judgement::Power;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a check may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    /// It is not made.
    #[default]
    None,
    /// What comes of it stands in Authentication-Results, events and metrics.
    Mark,
    /// The same, and a message that fails waits for an operator.
    Hold,
    /// The same, and a message that fails is refused.
    Reject,
}

impl Check {
    pub(crate) fn power(self) -> Power {
        match self {
            Check::None => Power::None,
            Check::Mark => Power::Mark,
            Check::Hold => Power::Hold,
            Check::Reject => Power::Reject,
        }
    }
}

/// What a check may do, for people; `None`: it is not made.
pub(crate) fn said(check: &str, power: Power) -> Option<String> {
    let does = match power {
        Power::None => return None,
        Power::Mark => "marks",
        Power::Hold => "holds",
        Power::Reject => "refuses",
    };
    Some(format!("{check} {does}"))
}
