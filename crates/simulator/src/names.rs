//! Names and addresses that everybody in the simulated world knows.

use std::net::{IpAddr, Ipv4Addr};

/// Where the node listens.
pub const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// The domain that reports go to.
pub const SENDER_DOMAIN: &str = "back.test";

/// Of senders whose next hop refuses all reports.
pub const DEAF_DOMAIN: &str = "deaf.test";

/// The domain of the next hop that is dead; as a sender's, it can't be told anything either.
pub const DEAD_DOMAIN: &str = "dead.test";

/// The domain of the mailboxes.
pub const BOX_DOMAIN: &str = "box.test";

/// The domain of the next hop that nothing goes wrong with.
pub const WELL_DOMAIN: &str = "well.test";

/// The domain whose users are at several hosts, as the directory says.
pub const SPREAD_DOMAIN: &str = "spread.test";

/// Recipients whose local part ends so exist nowhere.
pub const UNKNOWN_USER: &str = "-nobody";

/// Where MTAs are called, by RFC 1006.
pub const P1_PORT: u16 = 102;

/// The organization that reports of X.400 go to.
pub const OR_BACK: &str = "/O=back/PRMD=Peers/ADMD= /C=GB/";

/// The organization of the MTA that is dead; as an originator's, it can't be told anything either.
pub const OR_DEAD: &str = "/O=dead/PRMD=Peers/ADMD= /C=GB/";

/// An organization that no route takes.
pub const OR_NOWHERE: &str = "/O=nowhere/PRMD=Peers/ADMD= /C=GB/";

/// What the node calls itself.
pub const NODE_NAME: &str = "node.test";

/// Whether a recipient is a user that nobody has.
#[must_use]
pub fn is_unknown(recipient: &[u8]) -> bool {
    let local = recipient.split(|&byte| byte == b'@').next().unwrap_or_default();
    local.ends_with(UNKNOWN_USER.as_bytes())
}
