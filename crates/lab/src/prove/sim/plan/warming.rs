//! A source that warms up.

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
