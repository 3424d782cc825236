//! Faults that a simulation plants, to see that it catches them.

/// A fault in the message's way, for the simulator to catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A connection is used again after a reply that breaks the protocol.
    ReuseAfterProtocolError,
    /// A reload forgets when retries are due.
    DropTimersAtReload,
    /// A connection slot is given back twice.
    ReleaseSlotTwice,
    /// Each recipient is reported by itself.
    ReportEach,
    /// Content is sent before a recipient was accepted, whatever the route says.
    UnaskedContent,
    /// A next hop that refuses everything is not left alone.
    NeverSuspend,
    /// Where TLS is asked for and fails, mail goes in clear, whatever the policy.
    InClearAnyway,
    /// Domains with the same hosts have one queue, whatever they promise.
    PolicyOfAnother,
    /// What a message asks of TLS (REQUIRETLS) decides nothing about its way.
    ForgetRequireTls,
    /// A connection keeps to itself that its next hop is well.
    KeepToItself,
    /// What other shards have lent of a limit is not given back.
    LoseLease,
    /// An APDU of X.400 is acknowledged before it is durable.
    AcknowledgeApduEarly,
    /// What a peer of X.400 sends again, because it has heard no acknowledgement, is taken for another message.
    StoreResends,
    /// The next MTA of X.400 is told that it answers for all recipients, whoever else gets some of them.
    KeepResponsibility,
    /// What a peer of X.400 acknowledges first on an association is taken for refused.
    DoubtAcknowledgement,
    /// A host that ended a transaction without a verdict is asked again like any other.
    StayAtHost,
    /// Rules of shaping hear what a peer repeats of our own words.
    HearEchoes,
    /// Lookups have one line, in which nobody has a share.
    OneLine,
    /// What is held for a silent peer is held until its time is over.
    HoldOn,
    /// A stop waits for the disk, however long that takes.
    WaitForDisk,
}
