//! Origins of messages: mail of unauthenticated clients is served in turns per origin.

/// Origin of a message from an unauthenticated client: its network, and above it the site (the networks that one
/// customer may own), 16 bits each. Networks with equal numbers share a turn; some thousands of numbers exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(u32);

impl Origin {
    /// A client that may relay, a user, or this server itself.
    pub const OURS: Origin = Origin(0);

    /// Origin of mail from an unauthenticated client; a site of 0 counts as 1.
    #[must_use]
    pub fn of(site: u16, network: u16) -> Origin {
        Origin(u32::from(site.max(1)) << 16 | u32::from(network))
    }

    /// Numbers of the site and of the network within it; `None` for [`Origin::OURS`].
    #[must_use]
    pub fn parts(self) -> Option<(u16, u16)> {
        let site = (self.0 >> 16) as u16;
        (site != 0).then_some((site, self.0 as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stranger_is_one_of_ours() {
        assert_eq!(Origin::OURS.parts(), None);
        assert_eq!(Origin::of(0, 0).parts(), Some((1, 0)));
        assert_eq!(Origin::of(u16::MAX, 7).parts(), Some((u16::MAX, 7)));
    }
}
