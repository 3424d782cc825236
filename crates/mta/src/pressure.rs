//! What is scarce at the moment, for an operator.

use crate::shared::Shared;

impl Shared {
    /// A sentence about each pool that is under pressure.
    #[must_use]
    pub fn pressures(&self) -> Vec<String> {
        self.short_lines()
    }

    /// What somebody waits for.
    fn short_lines(&self) -> Vec<String> {
        let lines = [
            ("connections to next hops", &self.connections),
            ("workers that write mailboxes", &self.workers),
            ("octets for messages that are read back", &self.reads),
            ("octets for messages that are converted", &self.conversions),
            ("DNS lookups at once", &self.lookups),
        ];
        let short = lines.into_iter().filter(|(_, line)| line.waiting() > 0);
        let told = short.map(|(what, line)| {
            let (used, max, waiting) = (line.used(), line.parts().max, line.waiting());
            format!("{used} of {max} {what} are in use, and {waiting} wait (docs/limits.md)")
        });
        told.collect()
    }
}
