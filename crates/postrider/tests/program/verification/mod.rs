//! Checks of who sends: the library against other people's suites and signers, and listeners that
//! check.

mod chains;
mod command;
mod dmarc_reports;
mod encoded;
mod judges;
mod listeners;
mod openspf;
mod rewritten;
mod rspamd;
mod sealing;
mod signers;
mod signing;
mod signing_rules;
mod strangers;
mod suites;
mod zone;
