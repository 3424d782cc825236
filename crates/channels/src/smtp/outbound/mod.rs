//! Sending over SMTP and LMTP: connections to the hosts of a next hop.

mod bearing;
mod connection;
mod content;
mod dialogue;
mod encoding;
mod encrypting;
mod failed_addresses;
mod held;
mod lacking;
mod lesser;
mod lessons;
mod login;
mod moves;
mod opening;
mod patience;
mod refusals;
mod seat;
mod source;
mod tls_lessons;
mod tls_result;
mod transcript;

use super::settings::{LmtpText, MxText, Relay, SmtpText};
use config::ChannelSection;
use mta::delivery::{Channel, Slot, Task};
use mta::routing::hop::NextHop;
use mta::seams::World;

/// The SMTP and LMTP channels.
pub(crate) struct Outbound {
    key: &'static str,
}

impl Outbound {
    /// To hosts named in the configuration.
    pub(crate) const SMTP: Outbound = Outbound { key: SmtpText::KEY };
    /// To the MX hosts of the domain.
    pub(crate) const MX: Outbound = Outbound { key: MxText::KEY };
    /// To mailboxes, over LMTP.
    pub(crate) const LMTP: Outbound = Outbound { key: LmtpText::KEY };
}

impl<W: World> Channel<W> for Outbound {
    fn key(&self) -> &'static str {
        self.key
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(connection::run(slot))
    }
}

/// Settings of this hop's route.
fn relay_of(hop: &NextHop) -> &Relay {
    match hop.channel.of() {
        Some(relay) => relay,
        // // The channel of a hop is selected by the key of its settings.
        None => unreachable!("the settings of {} are another channel's", hop.channel.key()),
    }
}
