//! The simulator. Its tests compute and all others wait: `make test` runs them beside the others, by this
//! module's name.

mod histories;
