//! What came of checks of who sends, counted.

use super::{Grid, Label, Metrics, SealedChain};
use auth::arc;
use auth::checks::Summary;

impl Metrics {
    /// Counts the verdict of each check that was made.
    pub fn count_checked(&self, checked: &Summary) {
        fn count<V: Label>(grid: &Grid<V>, verdict: Option<V>) {
            if let Some(verdict) = verdict {
                grid[verdict].inc();
            }
        }
        count(&self.checked_iprev, checked.iprev);
        count(&self.checked_spf, checked.spf);
        count(&self.checked_dkim, checked.dkim);
        count(&self.checked_dmarc, checked.dmarc);
        count(&self.checked_arc, checked.arc);
        count(&self.checked_dnsbl, checked.dnsbl);
        let chain = checked.sealed.map(|says| match says {
            arc::Verdict::Pass => SealedChain::Pass,
            arc::Verdict::Fail => SealedChain::Fail,
            arc::Verdict::None | arc::Verdict::TempError | arc::Verdict::CutShort => {
                SealedChain::None
            }
        });
        count(&self.sealed, chain);
    }
}
