//! Who waits in a line, to whom they belong, and what is known of them.

use crate::clients::{group_of, network_of};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Levels at which turns are taken: owners of owners, owners, holders.
pub(super) const LEVELS: usize = 3;

/// Those who take turns together, whatever the number of names that one of them makes up: a client's
/// network, a zone of the DNS, a tenant, a listener, a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    /// Of this kind, with this name.
    #[must_use]
    pub fn named(kind: &str, name: &str) -> Owner {
        Owner::hashed(kind, name)
    }

    /// The network of a client or a host: an IPv4 address or an IPv6 /64.
    #[must_use]
    pub fn network(ip: IpAddr) -> Owner {
        Owner::hashed("network", network_of(ip))
    }

    /// The networks that one customer may have all of: an IPv4 /24, an IPv6 /48.
    #[must_use]
    pub fn site(ip: IpAddr) -> Owner {
        Owner::hashed("site", group_of(ip))
    }

    /// The zone in which a name of the DNS was registered, as far as the name shows it.
    #[must_use]
    pub fn zone(name: &str) -> Owner {
        match name.parse() {
            Ok(ip) => Owner::network(ip),
            Err(_) => Owner::hashed("zone", zone_of(name).to_ascii_lowercase()),
        }
    }

    fn hashed(kind: &str, name: impl Hash) -> Owner {
        let mut hasher = DefaultHasher::new();
        (kind, name).hash(&mut hasher);
        Owner(hasher.finish())
    }
}

/// The last two labels of a name; three where those are what a country's registry has names below
/// (`co.uk`, `com.br`), which are short. Whoever guesses wrong shares with neighbours.
#[must_use]
pub fn zone_of(name: &str) -> &str {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut ends = name.rmatch_indices('.').map(|(at, _)| at);
    let (Some(last), Some(second)) = (ends.next(), ends.next()) else { return name };
    let is_registry = name.len() - last == 3 && last - second <= 4;
    let begin = if is_registry { ends.next().map_or(0, |at| at + 1) } else { second + 1 };
    name.get(begin..).unwrap_or(name)
}

/// Who waits or holds: those of one name take turns with others, whatever their number, and so do
/// those of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who(pub(super) [u64; LEVELS]);

impl Who {
    /// Number `number` of a shard, who belongs to nobody else.
    #[must_use]
    pub fn new(shard: u16, number: u32) -> Who {
        Who::alone(u64::from(shard) << 32 | u64::from(number))
    }

    /// A next hop, on whatever shard.
    #[must_use]
    pub fn hop(number: u32) -> Who {
        Who::alone(1 << 62 | u64::from(number))
    }

    /// Another than [`Who::new`] of the same numbers.
    #[must_use]
    pub fn other(shard: u16, number: u32) -> Who {
        Who::alone(1 << 63 | Who::new(shard, number).0[LEVELS - 1])
    }

    /// Who belongs to nobody but himself.
    fn alone(number: u64) -> Who {
        Who([number; LEVELS])
    }

    /// The same, who belongs to `owner`.
    #[must_use]
    pub fn of(self, owner: Owner) -> Who {
        let [_, _, holder] = self.0;
        Who([owner.0, owner.0, holder])
    }

    /// The same, whose owner belongs to `owner`.
    #[must_use]
    pub fn within(self, owner: Owner) -> Who {
        let [_, narrow, holder] = self.0;
        Who([owner.0, narrow, holder])
    }
}

/// What is known of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It was well the last time.
    Good,
    Unknown,
    /// The last time was in vain.
    Doubtful,
}
