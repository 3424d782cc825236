//! Keys of holders, their owners, and their trust levels.

use crate::clients::{group_of, network_of};
use queue::Origin;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Levels of fairness: owners of owners, owners, holders.
pub(super) const LEVELS: usize = 3;

/// A group that is served in turn as one, whatever number of names it makes up: a client's network, a DNS zone, a
/// tenant, a listener, a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(u64, Name);

/// Octets of a stored name.
const NAME_BYTES: usize = 39;

/// A name for people, cut if it is long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    len: u8,
}

impl Name {
    /// Unknown name.
    const NONE: Name = Name { bytes: [0; NAME_BYTES], len: 0 };

    fn new(text: fmt::Arguments<'_>) -> Name {
        let mut name = Name::NONE;
        // The rest is cut off.
        let _ = name.write_fmt(text);
        name
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::NONE
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let len = usize::from(self.len);
        let fits = text.floor_char_boundary(NAME_BYTES.saturating_sub(len));
        let after = len.saturating_add(fits);
        let (Some(place), Some(text)) = (self.bytes.get_mut(len..after), text.get(..fits)) else {
            return Err(fmt::Error);
        };
        place.copy_from_slice(text.as_bytes());
        self.len = u8::try_from(after).unwrap_or(u8::MAX);
        Ok(())
    }
}

impl Owner {
    /// An owner of this kind and name.
    #[must_use]
    pub fn named(kind: &str, name: &str) -> Owner {
        Owner(hashed(kind, name), Name::new(format_args!("{kind} {name}")))
    }

    /// The network of a client or a host: an IPv4 address or an IPv6 /64.
    #[must_use]
    pub fn network(ip: IpAddr) -> Owner {
        let network = network_of(ip);
        Owner(hashed("network", network), Name::new(format_args!("{network}")))
    }

    /// The networks that one customer may own as a whole: an IPv4 /24, an IPv6 /48.
    #[must_use]
    pub fn site(ip: IpAddr) -> Owner {
        let (site, bits) = (group_of(ip), if ip.to_canonical().is_ipv4() { 24 } else { 48 });
        Owner(hashed("site", site), Name::new(format_args!("{site}/{bits}")))
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        self.1.as_str()
    }

    /// Its key as a holder without an owner.
    pub(super) fn alone(self) -> Owners {
        [self.0; LEVELS - 1]
    }

    /// The zone in which a DNS name was registered, as far as the name shows it.
    #[must_use]
    pub fn zone(name: &str) -> Owner {
        match name.parse() {
            Ok(ip) => Owner::network(ip),
            Err(_) => {
                let mut zone = Name::new(format_args!("{}", zone_of(name)));
                zone.bytes.make_ascii_lowercase();
                Owner(hashed("zone", zone_of(name).to_ascii_lowercase()), zone)
            }
        }
    }
}

fn hashed(kind: &str, name: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, name).hash(&mut hasher);
    hasher.finish()
}

/// The last two labels of a name; three if the last two look like a country's registry (`co.uk`, `com.br`), which are
/// short. A wrong guess only means a shared limit with neighbours.
#[must_use]
pub fn zone_of(name: &str) -> &str {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut ends = name.rmatch_indices('.').map(|(at, _)| at);
    let (Some(last), Some(second)) = (ends.next(), ends.next()) else { return name };
    let is_registry = name.len() - last == 3 && last - second <= 4;
    let begin = if is_registry { ends.next().map_or(0, |at| at + 1) } else { second + 1 };
    name.get(begin..).unwrap_or(name)
}

/// The key of a holder or waiter. Waiters with the same key take turns with other keys as one, and so do keys with the
/// same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FairKey {
    pub(super) path: Path,
    /// Names of its owners, the widest first.
    pub(super) names: [Name; LEVELS - 1],
}

/// The owners of a holder, widest first.
pub(crate) type Owners = [u64; LEVELS - 1];

/// The owners of a holder, widest first, and its own key.
pub(super) type Path = [u64; LEVELS];

impl FairKey {
    /// Number `number` of a shard, without an owner.
    #[must_use]
    pub fn new(shard: u16, number: u32) -> FairKey {
        FairKey::alone(u64::from(shard) << 32 | u64::from(number))
    }

    /// A next hop, on any shard.
    #[must_use]
    pub fn hop(number: u32) -> FairKey {
        FairKey::alone(1 << 62 | u64::from(number))
    }

    /// Distinct from [`FairKey::new`] with the same numbers.
    #[must_use]
    pub fn other(shard: u16, number: u32) -> FairKey {
        FairKey::alone(1 << 63 | FairKey::new(shard, number).path[LEVELS - 1])
    }

    /// A holder without an owner.
    fn alone(number: u64) -> FairKey {
        FairKey { path: [number; LEVELS], names: [Name::NONE; LEVELS - 1] }
    }

    /// A holder with owners that are already named in the semaphore, or need no name.
    pub(super) fn known(path: Path) -> FairKey {
        FairKey { path, names: [Name::NONE; LEVELS - 1] }
    }

    /// Adds an owner.
    #[must_use]
    pub fn of(self, owner: Owner) -> FairKey {
        let [_, _, holder] = self.path;
        FairKey { path: [owner.0, owner.0, holder], names: [owner.1; LEVELS - 1] }
    }

    /// Adds an owner of its owner.
    #[must_use]
    pub fn within(self, owner: Owner) -> FairKey {
        let [_, narrow, holder] = self.path;
        FairKey { path: [owner.0, narrow, holder], names: [owner.1, self.names[1]] }
    }

    /// For unauthenticated mail, replaces the narrower owner by the mail's origin: these origins take turns within the
    /// wider owner's share.
    #[must_use]
    pub fn for_origin(self, origin: Origin) -> FairKey {
        let [wide, narrow, holder] = self.path;
        let Some((site, _)) = origin.parts() else { return self };
        FairKey { path: [wide, hashed("origin", (narrow, site)), holder], ..self }
    }

    /// The keys of its owners.
    pub(crate) fn owners(&self) -> Owners {
        let [wide, narrow, _] = self.path;
        [wide, narrow]
    }

    /// Sets the name to show if its owners have none.
    #[must_use]
    pub fn called(self, text: &str) -> FairKey {
        let name = Name::new(format_args!("{text}"));
        FairKey {
            names: self.names.map(|known| if known.is_empty() { name } else { known }),
            ..self
        }
    }
}

pub(super) const STANDINGS: [TrustLevel; 3] =
    [TrustLevel::Good, TrustLevel::Unknown, TrustLevel::Doubtful];

/// The result of the last attempt with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLevel {
    /// The last attempt succeeded.
    Good,
    Unknown,
    /// The last attempt failed.
    Doubtful,
}
