//! Checks of who sends: the library against other people's suites and signers, and listeners that
//! check.

mod command;
mod judges;
mod dmarc_reports;
mod listeners;
mod openspf;
mod sealing;
mod signers;
mod strangers;
mod zone;
