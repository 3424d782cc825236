//! A source that warms up.

use super::{Act, ActKind, PacePlan, Plan};
use load::random::Random;

const DAY_MS: u64 = 86_400_000;

/// What the first source may send.
#[derive(Clone, Debug)]
pub struct WarmupPlan {
    /// Recipients on its first day, the second, and so on.
    pub per_day: Vec<u32>,
    /// The world begins so long before the end of a day of UTC; `None`: at the usual time.
    pub begins_before_midnight_ms: Option<u64>,
}

impl WarmupPlan {
    /// Which of the sources.
    pub const SOURCE: usize = 0;

    /// The key of the source.
    pub(super) fn key(&self) -> String {
        let per_day = &self.per_day;
        format!("warmup = {{ start = \"2026-11-17\", per_day = {per_day:?}, hold_above = 0.9 }}\n")
    }

    /// What is to be added to the wall clock, if that says `wall_ms`.
    #[must_use]
    pub fn offset_ms(&self, wall_ms: u64) -> u64 {
        self.begins_before_midnight_ms.map_or(0, |before_ms| {
            let midnight_ms = (wall_ms / DAY_MS + 1) * DAY_MS;
            midnight_ms - before_ms - wall_ms
        })
    }

    /// The most recipients in any day when so many days have begun before it.
    #[must_use]
    pub fn count_max(&self, days: usize) -> u32 {
        self.per_day.iter().take(days + 1).copied().max().unwrap_or(0)
    }
}

impl Plan {
    /// Draws it: some recipients a day, so that one too many shows, or some at once.
    pub(super) fn warm_up(&mut self, pace: &mut PacePlan, random: &mut Random) {
        let count = |random: &mut Random| match random.below(2) {
            0 => 1 + random.below(3) as u32,
            _ => 120 + random.below(1_000) as u32,
        };
        // More days than a history has.
        let per_day = (0..4).map(|_| count(random)).collect();
        let has_midnight = random.below(2) == 0;
        if has_midnight {
            // Whoever turns the clock back over midnight has a day twice.
            self.acts.retain(|act| !matches!(act.kind, ActKind::JumpBack { .. }));
        }
        let before_ms = 1 + random.below(self.heal_us / 1_000);
        let begins_before_midnight_ms = has_midnight.then_some(before_ms);
        pace.warmup = Some(WarmupPlan { per_day, begins_before_midnight_ms });
        // Jumps of the clock let more go. (So few that nothing expires.)
        for _ in 0..random.below(3) {
            let kind = ActKind::Jump { ms: random.below(300_000) };
            self.acts.push(Act { at_us: random.below(self.heal_us), kind });
        }
    }
}
