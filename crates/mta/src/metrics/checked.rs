//! What came of checks of who sends, counted.

use super::{Counter, Metrics};
use auth::checks::Summary;
use auth::{arc, dkim, dmarc, dnsbl, iprev, spf};

impl Metrics {
    /// Counts the verdict of each check that was made.
    pub fn note_checked(&self, checked: &Summary) {
        let counters = [
            checked.iprev.map(|verdict| self.of_iprev(verdict)),
            checked.spf.map(|verdict| self.of_spf(verdict)),
            checked.dkim.map(|verdict| self.of_dkim(verdict)),
            checked.dmarc.map(|verdict| self.of_dmarc(verdict)),
            checked.arc.map(|verdict| self.of_arc(verdict)),
            checked.dnsbl.map(|verdict| self.of_dnsbl(verdict)),
        ];
        counters.into_iter().flatten().for_each(Counter::inc);
        if let Some(says) = checked.sealed {
            match says {
                arc::Verdict::Pass => self.sealed_pass.inc(),
                arc::Verdict::Fail => self.sealed_fail.inc(),
                arc::Verdict::None | arc::Verdict::TempError | arc::Verdict::CutShort => {
                    self.sealed_none.inc()
                }
            }
        }
    }

    fn of_iprev(&self, verdict: iprev::Verdict) -> &Counter {
        match verdict {
            iprev::Verdict::Pass => &self.checked_iprev_pass,
            iprev::Verdict::Fail => &self.checked_iprev_fail,
            iprev::Verdict::TempError | iprev::Verdict::CutShort => &self.checked_iprev_temperror,
            iprev::Verdict::PermError => &self.checked_iprev_permerror,
        }
    }

    fn of_spf(&self, verdict: spf::Verdict) -> &Counter {
        match verdict {
            spf::Verdict::None => &self.checked_spf_none,
            spf::Verdict::Neutral => &self.checked_spf_neutral,
            spf::Verdict::Pass => &self.checked_spf_pass,
            spf::Verdict::Fail => &self.checked_spf_fail,
            spf::Verdict::SoftFail => &self.checked_spf_softfail,
            spf::Verdict::TempError | spf::Verdict::CutShort => &self.checked_spf_temperror,
            spf::Verdict::PermError => &self.checked_spf_permerror,
        }
    }

    fn of_dkim(&self, verdict: dkim::Verdict) -> &Counter {
        match verdict {
            dkim::Verdict::None => &self.checked_dkim_none,
            dkim::Verdict::Pass => &self.checked_dkim_pass,
            dkim::Verdict::Fail => &self.checked_dkim_fail,
            dkim::Verdict::Policy => &self.checked_dkim_policy,
            dkim::Verdict::Neutral => &self.checked_dkim_neutral,
            dkim::Verdict::TempError | dkim::Verdict::CutShort => &self.checked_dkim_temperror,
            dkim::Verdict::PermError => &self.checked_dkim_permerror,
        }
    }

    fn of_dmarc(&self, verdict: dmarc::Verdict) -> &Counter {
        match verdict {
            dmarc::Verdict::None => &self.checked_dmarc_none,
            dmarc::Verdict::Pass => &self.checked_dmarc_pass,
            dmarc::Verdict::Fail => &self.checked_dmarc_fail,
            dmarc::Verdict::TempError | dmarc::Verdict::CutShort => &self.checked_dmarc_temperror,
            dmarc::Verdict::PermError => &self.checked_dmarc_permerror,
        }
    }

    fn of_arc(&self, verdict: arc::Verdict) -> &Counter {
        match verdict {
            arc::Verdict::None => &self.checked_arc_none,
            arc::Verdict::Pass => &self.checked_arc_pass,
            arc::Verdict::Fail => &self.checked_arc_fail,
            arc::Verdict::TempError | arc::Verdict::CutShort => &self.checked_arc_temperror,
        }
    }

    fn of_dnsbl(&self, verdict: dnsbl::Verdict) -> &Counter {
        match verdict {
            dnsbl::Verdict::None => &self.checked_dnsbl_none,
            dnsbl::Verdict::Allowed => &self.checked_dnsbl_allowed,
            dnsbl::Verdict::Below => &self.checked_dnsbl_below,
            dnsbl::Verdict::Listed => &self.checked_dnsbl_listed,
        }
    }
}
