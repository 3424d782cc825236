//! Drivers for tests and fuzz targets: they do with an association what a real driver does, and check what
//! must hold of any, whoever the peer is. They panic where it does not.

pub mod driver;
pub mod said;
pub mod talk;
