//! Faults that a simulation plants, to check that it detects them.

/// A fault in mail processing that the simulator must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A connection is reused after a reply that violates the protocol.
    ReuseAfterProtocolError,
    /// A reload drops the retry timers.
    DropTimersAtReload,
    /// A connection slot is released twice.
    ReleaseSlotTwice,
    /// Each recipient is reported separately.
    ReportEach,
    /// Content is sent before a recipient was accepted, whatever the route's settings are.
    UnaskedContent,
    /// A next hop that rejects everything is not suspended.
    NeverSuspend,
    /// If TLS fails, mail is sent in clear, whatever the policy is.
    InClearAnyway,
    /// Domains with the same hosts share a queue, whatever their TLS policies are.
    PolicyOfAnother,
    /// REQUIRETLS has no effect on delivery.
    ForgetRequireTls,
    /// A proven next hop is not shared with other connections.
    KeepToItself,
    /// Shares of a limit that were leased from other shards are not returned.
    LoseLease,
    /// An X.400 APDU is acknowledged before it is durable.
    AcknowledgeApduEarly,
    /// An APDU that an X.400 peer resends, after it got no acknowledgement, is taken as another message.
    StoreResends,
    /// The next X.400 MTA gets responsibility for all recipients, even if some go to another MTA.
    KeepResponsibility,
    /// The first acknowledgement of an X.400 peer on an association is taken as a rejection.
    DoubtAcknowledgement,
    /// A host that ended a transaction without a verdict is tried again like any other.
    StayAtHost,
    /// Shaping rules match our own strings in peers' replies.
    HearEchoes,
    /// Lookups have one queue without shares.
    OneLine,
    /// Resources held for a silent peer are held until the timeout.
    HoldOn,
    /// Shutdown waits for the disk without limit.
    WaitForDisk,
}
