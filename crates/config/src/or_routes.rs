//! Routing of O/R addresses.

use mail::map::FixedMap;
use mail::{Domain, OrAddress};

/// Finds the route of an O/R address: among routes with all attributes in the address, the one with the most. The time
/// depends on the number of different sets of keys, not of routes.
#[derive(Clone, Debug, Default)]
pub struct OrRoutes {
    /// Sets of keys, those with most keys first; of equal ones, the first in the file.
    shapes: Vec<Vec<Box<str>>>,
    routes: FixedMap<Box<str>, u32>,
}

impl OrRoutes {
    /// Adds a route's attributes. Returns the route that had the same attributes already.
    pub(super) fn insert(&mut self, taken: &OrAddress, route: u32) -> Option<u32> {
        let keys: Vec<Box<str>> =
            taken.attributes().iter().map(|attribute| attribute.key().into()).collect();
        let name = name_of(taken, &keys)?;
        match self.routes.entry(name) {
            std::collections::hash_map::Entry::Occupied(entry) => return Some(*entry.get()),
            std::collections::hash_map::Entry::Vacant(entry) => _ = entry.insert(route),
        }
        if !self.shapes.contains(&keys) {
            let at = self.shapes.partition_point(|shape| shape.len() >= keys.len());
            self.shapes.insert(at, keys);
        }
        None
    }

    /// The route that takes addresses of this domain ([`Domain::is_or_domain`]).
    #[must_use]
    pub fn find(&self, domain: &Domain) -> Option<usize> {
        if self.shapes.is_empty() {
            return None;
        }
        let address = domain.or_attributes()?;
        let mut names = self.shapes.iter().filter_map(|shape| name_of(&address, shape));
        names.find_map(|name| self.routes.get(&name)).map(|route| *route as usize)
    }
}

/// The attributes of an address with these keys, in their form for comparison; `None` if one is missing.
fn name_of(address: &OrAddress, keys: &[Box<str>]) -> Option<Box<str>> {
    let mut name = String::new();
    for key in keys {
        let found = address.attributes().iter().find(|attribute| attribute.key() == &**key)?;
        name.push_str(key);
        name.push('=');
        name.push_str(&found.compared());
        // In no value.
        name.push('\0');
    }
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Mailbox;

    fn table(routes: &[&str]) -> OrRoutes {
        let mut table = OrRoutes::default();
        for (index, text) in (0..).zip(routes) {
            assert_eq!(table.insert(&OrAddress::parse_part(text).unwrap(), index), None, "{text}");
        }
        table
    }

    fn found(table: &OrRoutes, address: &str) -> Option<usize> {
        table.find(&Mailbox::parse_any(address).unwrap().domain())
    }

    #[test]
    fn the_route_with_most_attributes_wins_wherever_it_stands() {
        let table = table(&[
            "/PRMD=TestB/ADMD= /C=GB/",
            "/O=Beta/PRMD=TestB/ADMD= /C=GB/",
            "/C=FR/",
            "/OU1=Sales/O=Beta/PRMD=TestB/ADMD= /C=GB/",
        ]);
        assert_eq!(found(&table, "/S=a/O=Beta/PRMD=TestB/ADMD= /C=GB/"), Some(1));
        assert_eq!(found(&table, "/S=a/OU1=sales/O=BETA/PRMD=testb/C=gb/"), Some(3));
        assert_eq!(found(&table, "/S=a/OU2=x/OU1=other/O=Beta/PRMD=TestB/C=GB/"), Some(1));
        assert_eq!(found(&table, "/S=a/O=Gamma/PRMD=TestB/C=GB/"), Some(0));
        assert_eq!(found(&table, "/S=a/O=Beta/ADMD=atlas/C=FR/"), Some(2));
        assert_eq!(found(&table, "/S=a/O=Beta/ADMD=x/PRMD=TestB/C=GB/"), None, "another ADMD");
        assert_eq!(found(&table, "/S=a/O=Beta/C=DE/"), None);
    }

    #[test]
    fn equal_attributes_are_one_route_s() {
        let mut table = table(&["/O=Beta/PRMD=TestB/ADMD=/C=GB/"]);
        let same = OrAddress::parse_part("C=gb; A= ; P=testb; O=beta").unwrap();
        assert_eq!(table.insert(&same, 7), Some(0));
        let other = OrAddress::parse_part("C=gb; P=testb; O=beta").unwrap();
        assert_eq!(table.insert(&other, 7), None, "any ADMD");
        assert_eq!(found(&table, "/O=beta/PRMD=testb/ADMD=x/C=gb/"), Some(7));
    }
}
