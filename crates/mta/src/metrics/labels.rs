//! Values of labels, each with its type: first types of other modules, then types only for metrics.

use super::{Grid, Label, Metrics};
use crate::clients::Lane;
use crate::rate_limits::settings::LimitBy;
use auth::checks::AuthSummary;
use auth::dkim::Algorithm;
use auth::{arc, dkim, dmarc, dnsbl, greylist, iprev, spf};
use classes::ReplyClass;
use config::shaping::Action;
use lookup::LookupErrorKind;

// A check cut short by a local limit counts as temporary, as the sender sees it.
crate::label! { iprev::IprevResult, "verdict":
Pass = "pass", Fail = "fail", TempError | CutShort = "temperror", PermError = "permerror" }
crate::label! { spf::SpfResult, "verdict":
None = "none", Neutral = "neutral", Pass = "pass", Fail = "fail", SoftFail = "softfail",
TempError | CutShort = "temperror", PermError = "permerror" }
crate::label! { dkim::DkimResult, "verdict":
None = "none", Pass = "pass", Fail = "fail", Policy = "policy", Neutral = "neutral",
TempError | CutShort = "temperror", PermError = "permerror" }
crate::label! { dmarc::DmarcResult, "verdict":
None = "none", Pass = "pass", Fail = "fail", TempError | CutShort = "temperror",
PermError = "permerror" }
crate::label! { arc::ArcResult, "verdict":
None = "none", Pass = "pass", Fail = "fail", TempError | CutShort = "temperror" }
crate::label! { dnsbl::DnsblResult, "verdict":
None = "none", Allowed = "allowed", Below = "below", Listed = "listed" }
crate::label! { greylist::GreylistResult, "verdict":
New = "new", Early = "early", Passed = "passed", Known = "known", Client = "client" }
crate::label! { Algorithm, "algorithm":
RsaSha256 = "rsa-sha256", Ed25519Sha256 = "ed25519-sha256" }
crate::label! { LimitBy, "by":
Login = "login", Sender = "sender", SenderDomain = "sender_domain", Listener = "listener" }
crate::label! { Lane, "lane": Known = "known", Stranger = "stranger", Suspect = "suspect" }
crate::label! { Action, "action":
Backoff = "backoff", Set = "set", Suspend = "suspend", SuspendTenant = "suspend_tenant",
SuspendCampaign = "suspend_campaign", FailCampaign = "fail_campaign" }

crate::label! { LookupErrorKind, "kind":
Unreachable = "unreachable", Timeout = "timeout", Wrong = "wrong", Key = "key", Busy = "busy" }

impl super::Label for ReplyClass {
    const NAME: &'static str = "class";
    const VALUES: &'static [&'static str] = &{
        let mut names = [""; ReplyClass::ALL.len()];
        let mut n = 0;
        while n < names.len() {
            names[n] = ReplyClass::ALL[n].as_str();
            n += 1;
        }
        names
    };

    fn index(self) -> usize {
        self as usize
    }
}

/// Declares enumerations that are labels.
macro_rules! labels {
    ($($(#[$doc:meta])* $type:ident = $name:literal { $($variant:ident = $value:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($variant),* }

        $crate::label! { $type, $name: $($variant = $value),* }
    )*};
}

labels! {
    /// Reason for a rejection at intake, as coarse as a label allows.
    RefusalReason = "reason" {
        Protocol = "protocol", Size = "size", Content = "content", Policy = "policy", Limit = "limit",
        Resources = "resources",
    }
    /// A check of unauthenticated clients before their message.
    StrangersCheck = "check" {
        HeloFqdn = "helo_fqdn", SenderFqdn = "sender_fqdn", OwnDomains = "own_domains",
        SenderDomain = "sender_domain", Dnsbl = "dnsbl", Greylist = "greylist",
        MultiRecipientBounce = "multi_recipient_bounce",
    }
    /// Chain validation status in an ARC seal (RFC 8617 §4.1.3, `cv`).
    SealedChain = "says" { None = "none", Pass = "pass", Fail = "fail" }
    /// Reason for which a message was not signed as configured.
    UnsignedReason = "reason" { NoAuthor = "no_author", NoSigner = "no_signer" }
    /// Outcome of a held message that was not released in time.
    HoldEnd = "outcome" { Returned = "returned", Removed = "removed" }
    /// Outcome of a recipient.
    RecipientOutcome = "outcome" {
        Delivered = "delivered", Relayed = "relayed", Failed = "failed", Expired = "expired", Removed = "removed",
    }
    /// Action of a DSN.
    DsnAction = "action" { Failed = "failed", Delayed = "delayed", Success = "success" }
    /// State of a queued recipient.
    QueueState = "state" {
        Scheduled = "scheduled", Ready = "ready", InFlight = "in_flight", Held = "held", Unreported = "unreported",
    }
    /// Source of the TLS policy of a connection.
    TlsPolicy = "policy" { Dane = "dane", MtaSts = "mta-sts" }
    /// The capability that a next hop lacks for a message with REQUIRETLS (RFC 8689).
    RequireTlsLack = "reason" { Encryption = "encryption", RequireTls = "requiretls" }
}

impl Metrics {
    /// Counts the result of each check.
    pub fn count_checked(&self, checked: &AuthSummary) {
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
            arc::ArcResult::Pass => SealedChain::Pass,
            arc::ArcResult::Fail => SealedChain::Fail,
            arc::ArcResult::None | arc::ArcResult::TempError | arc::ArcResult::CutShort => {
                SealedChain::None
            }
        });
        count(&self.sealed, chain);
    }
}
