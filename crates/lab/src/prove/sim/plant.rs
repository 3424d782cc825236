//! Faults that are planted to see whether the laws notice.
//!
//! Those inside the production code exist only with the feature `planted`, which no build of the
//! program has.

#[cfg(feature = "planted")]
use mta::planted::Planted;

/// A fault of the node or of its judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The disk says that it synced and does nothing: messages are acknowledged before they are
    /// durable
    AcknowledgeBeforeSync,
    /// One settle in four is written as if the delivery had failed
    ForgetSettle,
    /// A peer now and then takes a message twice
    CountTwice,
    /// The node opens one connection more to each next hop than the law allows
    OneConnectionMore,
    /// The node may begin twice as many transactions per second as the law allows
    RateDoubled,
    /// The node asks the resolver one question more at once than the law allows
    OneLookupMore,
    /// A reload does not bring what is shared (a provider's limits, tenants' rates, rules)
    KeepOldPace,
    /// What rules have set in force is forgotten with the process
    ForgetRules,
    /// What a source that warms up has sent is written when the process stops, and not before it is sent
    CountAfterUse,
    /// Next hops that are not known to be well may take all connections of the process
    NoParts,
    /// A peer says 554 now and then where the judge knows of nothing final
    RefuseForGood,
    /// A directory that gives no answer is taken to have nobody
    SilenceIsNo,
    /// A directory that gives no answer is taken to have everybody
    SilenceIsYes,
    /// The directory is asked for recipients of other routes, too
    AskForAll,
    /// A directory that was given up is never found well again
    IgnoreProbes,
    /// What the directory says of one user is taken for another's
    AnothersEntry,
    /// A connection is used again after a reply that breaks the protocol
    #[cfg(feature = "planted")]
    ReuseAfterProtocolError,
    /// A reload forgets when retries are due
    #[cfg(feature = "planted")]
    DropTimersAtReload,
    /// Recovery takes a torn batch at the end of the log for a whole one
    #[cfg(feature = "planted")]
    TrustTornTail,
    /// A connection slot is given back twice
    #[cfg(feature = "planted")]
    ReleaseSlotTwice,
    /// A log that lacks a descriptor says that it can't write any more
    #[cfg(feature = "planted")]
    PoisonWhenScarce,
    /// Each recipient is reported by itself
    #[cfg(feature = "planted")]
    ReportEach,
    /// Content is sent to everybody who offers CHUNKING, accepted recipient or not
    #[cfg(feature = "planted")]
    UnaskedContent,
    /// A next hop that refuses everything is not left alone
    #[cfg(feature = "planted")]
    NeverSuspend,
    /// Where TLS is asked for and fails, mail goes in clear, whatever the policy
    #[cfg(feature = "planted")]
    InClearAnyway,
    /// Domains with the same hosts have one queue, whatever they promise
    #[cfg(feature = "planted")]
    PolicyOfAnother,
    /// What a message asks of TLS (REQUIRETLS) decides nothing about its way
    #[cfg(feature = "planted")]
    ForgetRequireTls,
    /// A connection keeps to itself that its next hop is well
    #[cfg(feature = "planted")]
    KeepToItself,
    /// What other shards have lent of a limit is not given back
    #[cfg(feature = "planted")]
    LoseLease,
    /// An APDU of X.400 is acknowledged before it is durable
    #[cfg(feature = "planted")]
    AcknowledgeApduEarly,
    /// What a peer of X.400 sends again, because it has heard no acknowledgement, is taken for another message
    #[cfg(feature = "planted")]
    StoreResends,
    /// The next MTA of X.400 is told that it answers for all recipients, whoever else gets some of them
    #[cfg(feature = "planted")]
    KeepResponsibility,
    /// What a peer of X.400 acknowledges first on an association is taken for refused
    #[cfg(feature = "planted")]
    DoubtAcknowledgement,
    /// A host that ended a transaction without a verdict is asked again like any other
    #[cfg(feature = "planted")]
    StayAtHost,
    /// Rules of shaping hear what a peer repeats of our own words
    #[cfg(feature = "planted")]
    HearEchoes,
    /// Lookups have one line, in which nobody has a share
    #[cfg(feature = "planted")]
    OneLine,
    /// Memory that is held for a silent peer is held until its time is over
    #[cfg(feature = "planted")]
    HoldOn,
    /// A stop waits for the disk, however long that takes
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
