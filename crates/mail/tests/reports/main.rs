//! Reports as others read them.

mod dsn_python;
mod dsn_readers;
