//! Mail authentication: a module for each scheme. Time, file contents and DNS answers are arguments.

pub mod arc;
pub mod authors;
pub mod checks;
mod der;
pub mod digest;
pub mod dkim;
pub mod dmarc;
pub mod dnsbl;
pub mod dovecot;
pub mod fingerprint;
pub mod forged;
pub mod greylist;
pub mod iprev;
pub mod judgement;
pub mod mta_sts;
pub mod password;
pub mod records;
pub mod results;
pub mod return_path;
pub mod sasl;
pub mod scan;
pub mod spf;
pub mod srs;
mod tags;
#[cfg(test)]
mod testing;
pub mod tls_report;
pub mod tlsa;
pub mod together;
