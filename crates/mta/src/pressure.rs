//! Pools of the process that are nearly used up, for an operator.

use crate::shared::Shared;
use config::quantity::write_size;

/// A pool is under pressure when so many hundredths of it are taken.
const PRESSURE_PERCENT: u64 = 80;

/// Whether so much of `max` is taken that it should be shown.
fn is_pressed(used: u64, max: u64) -> bool {
    used.saturating_mul(100) >= max.saturating_mul(PRESSURE_PERCENT)
}

impl Shared {
    /// A sentence about each pool that is under pressure, and about mail that waits for nobody but an
    /// operator.
    #[must_use]
    pub fn pressures(&self) -> Vec<String> {
        let waiting = self.short_lines().into_iter();
        waiting.chain(self.held_mail()).chain(self.own_mail()).collect()
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

    fn held_mail(&self) -> Option<String> {
        let (held, max) = (self.holdings.held(), self.holdings.max());
        let pressed =
            is_pressed(held.recipients, max.recipients) || is_pressed(held.bytes, max.bytes);
        pressed.then(|| {
            format!(
                "checks hold {} of {} recipients and {} of mail, and more is deferred (451): release or \
                 remove what is held",
                held.recipients,
                max.recipients,
                write_size(held.bytes)
            )
        })
    }

    fn own_mail(&self) -> Option<String> {
        let (path, found) = (self.own_mailbox.path()?, self.own_mailbox.found()?);
        let is_full = self.own_mailbox.is_full();
        (is_full || found.messages > 0).then(|| {
            let full = if is_full { "; it is full, and more is deferred (452)" } else { "" };
            format!(
                "the postmaster has {} messages ({}) in {}{full}: read them, or give the postmaster's mail \
                 a route",
                found.messages,
                write_size(found.bytes),
                path.display()
            )
        })
    }
}
