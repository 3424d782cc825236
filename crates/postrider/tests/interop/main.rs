//! Mail through other people's servers: from a client by one Postrider to Postfix, Exim, OpenSMTPD
//! or aiosmtpd, from there to another Postrider, and from that to a peer that keeps every octet.
//! So each of them is a next hop and a client of ours, and one table of cases is played over all.
//!
//! Each test starts its servers once. They need root: on a machine of one's own, others skip.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod aiosmtpd;
mod cases;
mod chain;
mod contents;
mod exim;
mod opensmtpd;
mod place;
mod postfix;
#[path = "../support/mod.rs"]
mod support;

use cases::play;
use chain::Chain;
use place::is_possible;

#[test]
fn postfix_takes_and_passes_on() {
    if is_possible(&["postgrey"]) {
        play(&Chain::start(postfix::start));
    }
}

#[test]
fn exim_takes_and_passes_on() {
    if is_possible(&["exim4-daemon-light"]) {
        play(&Chain::start(exim::start));
    }
}

#[test]
fn opensmtpd_takes_and_passes_on() {
    if is_possible(&["opensmtpd"]) {
        play(&Chain::start(opensmtpd::start));
    }
}

#[test]
fn aiosmtpd_takes_and_smtplib_passes_on() {
    play(&Chain::start(aiosmtpd::start));
}
