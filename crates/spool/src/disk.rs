//! The seam to the disk.

/// Stub.
pub trait Disk {}
/// Stub.
pub struct Io;
/// Stub.
pub struct IoDone;
/// Stub.
pub struct IoTicket;
