//! Faults that a simulation plants, to see that it catches them.

/// A fault in mail processing that the simulator must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A connection is used again after a reply that breaks the protocol.
    ReuseAfterProtocolError,
    /// A reload forgets when retries are due.
    DropTimersAtReload,
    /// A connection slot is released twice.
    ReleaseSlotTwice,
    /// Each recipient is reported by itself.
    ReportEach,
    /// Content is sent before a recipient was accepted, whatever the route's settings are.
    UnaskedContent,
    /// A next hop that refuses everything is not left alone.
    NeverSuspend,
    /// If TLS fails, mail is sent in clear, whatever the policy is.
    InClearAnyway,
    /// Domains with the same hosts have one queue, whatever they promise.
    PolicyOfAnother,
    /// REQUIRETLS has no effect on delivery.
    ForgetRequireTls,
    /// A connection keeps to itself that its next hop is well.
    KeepToItself,
    /// Shares of a limit that were leased from other shards are not returned.
    LoseLease,
    /// An APDU of X.400 is acknowledged before it is durable.
    AcknowledgeApduEarly,
    /// An APDU that an X.400 peer resends, after it got no acknowledgement, is taken as another message.
    StoreResends,
    /// The next X.400 MTA gets responsibility for all recipients, even if some go to another MTA.
    KeepResponsibility,
    /// The first acknowledgement of an X.400 peer on an association is taken as a rejection.
    DoubtAcknowledgement,
    /// A host that ended a transaction without a verdict is asked again like any other.
    StayAtHost,
    /// Shaping rules match our own strings in peers' replies.
    HearEchoes,
    /// Lookups have one queue without shares.
    OneLine,
    /// Resources held for a silent peer are held until the timeout.
    HoldOn,
    /// A stop waits for the disk, however long that takes.
    WaitForDisk,
}
