//! Faults that are planted to see whether the laws notice.

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
}
