//! Faults that are planted to see whether the laws notice.
//!
//! Those inside the production code exist only with the feature `planted`, which no build of the
//! program has.

#[cfg(feature = "planted")]
use mta::planted::Planted;

/// A fault of the node or of its judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The disk reports a sync without syncing: messages are acknowledged before they are durable
    AcknowledgeBeforeSync,
    /// One settle in four is recorded as a failed delivery
    ForgetSettle,
    /// A next hop sometimes delivers a message twice
    CountTwice,
    /// The node opens one connection too many to each next hop
    OneConnectionMore,
    /// The node may begin twice the allowed number of transactions per second
    RateDoubled,
    /// The node has one concurrent DNS lookup too many
    OneLookupMore,
    /// A reload does not apply shared limits (providers' limits, tenants' rates, rules)
    KeepOldPace,
    /// A restart forgets the effects of shaping rules
    ForgetRules,
    /// The counts of a source in warm-up are recorded at a stop, not before sending
    CountAfterUse,
    /// Next hops without a recent success may use all connections of the process
    NoParts,
    /// A next hop sometimes replies 554 without a reason known to the judge
    RefuseForGood,
    /// Without an answer from the directory, all recipients are unknown
    SilenceIsNo,
    /// Without an answer from the directory, all recipients are known
    SilenceIsYes,
    /// Recipients of other routes are looked up in the directory too
    AskForAll,
    /// A directory marked as failed is never used again
    IgnoreProbes,
    /// A lookup returns another user's entry
    AnothersEntry,
    /// A connection is reused after a protocol error
    #[cfg(feature = "planted")]
    ReuseAfterProtocolError,
    /// A reload forgets the times of retries
    #[cfg(feature = "planted")]
    DropTimersAtReload,
    /// Recovery accepts a torn batch at the end of the log as complete
    #[cfg(feature = "planted")]
    TrustTornTail,
    /// A connection slot is released twice
    #[cfg(feature = "planted")]
    ReleaseSlotTwice,
    /// A log without a free descriptor stops accepting writes for good
    #[cfg(feature = "planted")]
    PoisonWhenScarce,
    /// Each recipient gets a separate DSN
    #[cfg(feature = "planted")]
    ReportEach,
    /// Content is sent with CHUNKING before a recipient is accepted
    #[cfg(feature = "planted")]
    UnaskedContent,
    /// A next hop that refuses everything is not suspended
    #[cfg(feature = "planted")]
    NeverSuspend,
    /// Mail is sent in clear after TLS failed, whatever the policy requires
    #[cfg(feature = "planted")]
    InClearAnyway,
    /// Domains with the same hosts share a queue, whatever their TLS policies
    #[cfg(feature = "planted")]
    PolicyOfAnother,
    /// REQUIRETLS of a message has no effect on its delivery
    #[cfg(feature = "planted")]
    ForgetRequireTls,
    /// A next hop that was reached is still treated as unknown when connections wait
    #[cfg(feature = "planted")]
    KeepToItself,
    /// Leases of a limit are not returned to other shards
    #[cfg(feature = "planted")]
    LoseLease,
    /// An X.400 APDU is acknowledged before it is durable
    #[cfg(feature = "planted")]
    AcknowledgeApduEarly,
    /// A message that an X.400 peer resends after a lost acknowledgement is accepted as a new message
    #[cfg(feature = "planted")]
    StoreResends,
    /// Each next X.400 MTA gets responsibility for all recipients, even for those of other MTAs
    #[cfg(feature = "planted")]
    KeepResponsibility,
    /// The first acknowledgement on an X.400 association counts as a refusal
    #[cfg(feature = "planted")]
    DoubtAcknowledgement,
    /// A host that broke a transaction is tried again like any other host
    #[cfg(feature = "planted")]
    StayAtHost,
    /// Shaping rules match the text that a next hop repeats from our commands
    #[cfg(feature = "planted")]
    HearEchoes,
    /// Lookups wait in one line without shares
    #[cfg(feature = "planted")]
    OneLine,
    /// Memory for a silent peer is held until its timeout
    #[cfg(feature = "planted")]
    HoldOn,
    /// A stop waits for the disk without a time limit
    #[cfg(feature = "planted")]
    WaitForDisk,
}

#[cfg(feature = "planted")]
impl Plant {
    /// The fault as shards know it, if it is in one.
    #[must_use]
    pub fn of_shard(self) -> Option<Planted> {
        match self {
            Plant::ReuseAfterProtocolError => Some(Planted::ReuseAfterProtocolError),
            Plant::DropTimersAtReload => Some(Planted::DropTimersAtReload),
            Plant::ReleaseSlotTwice => Some(Planted::ReleaseSlotTwice),
            Plant::ReportEach => Some(Planted::ReportEach),
            Plant::UnaskedContent => Some(Planted::UnaskedContent),
            Plant::NeverSuspend => Some(Planted::NeverSuspend),
            Plant::InClearAnyway => Some(Planted::InClearAnyway),
            Plant::PolicyOfAnother => Some(Planted::PolicyOfAnother),
            Plant::ForgetRequireTls => Some(Planted::ForgetRequireTls),
            Plant::KeepToItself => Some(Planted::KeepToItself),
            Plant::LoseLease => Some(Planted::LoseLease),
            Plant::AcknowledgeApduEarly => Some(Planted::AcknowledgeApduEarly),
            Plant::StoreResends => Some(Planted::StoreResends),
            Plant::KeepResponsibility => Some(Planted::KeepResponsibility),
            Plant::DoubtAcknowledgement => Some(Planted::DoubtAcknowledgement),
            Plant::StayAtHost => Some(Planted::StayAtHost),
            Plant::HearEchoes => Some(Planted::HearEchoes),
            Plant::OneLine => Some(Planted::OneLine),
            Plant::HoldOn => Some(Planted::HoldOn),
            Plant::WaitForDisk => Some(Planted::WaitForDisk),
            _ => None,
        }
    }
}
