//! Connections of a route that goes elsewhere by now. What it has begun to send it sends to the end, however slowly
//! that is read, and the routes that still lead there have all of theirs beside it.

use super::Network;
use super::connection::{Carried, Connection};
use super::watch::Watch;

/// When its last transaction is over a connection ends within this time.
const ENDS_US: u64 = 60_000_000;

/// Whether this was begun by then for one of these domains, and may have its connection still.
fn is_left(carried: &Carried, (since_us, domains): &(u64, Vec<String>), now_us: u64) -> bool {
    carried.begun_us <= *since_us
        && domains.contains(&carried.domain)
        && carried.over_us.is_none_or(|over_us| now_us < over_us + ENDS_US)
}

impl Network {
    /// A transaction began.
    pub fn note_mail(&self, connection: u64, at_us: u64) {
        self.note_carried(connection, |carried| {
            *carried = Carried { begun_us: at_us, ..Carried::default() };
        });
    }

    /// It has a recipient of this domain.
    pub fn note_domain(&self, connection: u64, domain: &str) {
        self.note_carried(connection, |carried| domain.clone_into(&mut carried.domain));
    }

    /// Its content is being answered.
    pub fn note_content(&self, connection: u64) {
        let now_us = self.0.executor.now_us();
        self.note_carried(connection, |carried| carried.over_us = Some(now_us));
    }

    fn note_carried(&self, connection: u64, note: impl FnOnce(&mut Carried)) {
        let mut state = self.0.state.borrow_mut();
        if let Some(connection) = state.connections.get_mut(&connection) {
            note(&mut connection.carried);
        }
    }
}

/// How many of these connections count towards a limit no more.
pub(super) fn count<'a>(
    watch: &Watch,
    connections: impl Iterator<Item = &'a Connection>,
    now_us: u64,
) -> u32 {
    if watch.left.is_empty() {
        return 0;
    }
    let left = connections.filter(|connection| {
        let is_left = |left| is_left(&connection.carried, left, now_us);
        connection.is_open_at_client()
            && watch.counts(connection.from, &connection.to)
            && watch.left.iter().any(is_left)
    });
    left.count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_for_a_route_that_has_left_is_not_counted_until_it_is_over() {
        let left = (5_000, vec!["d3.test".to_owned()]);
        let carried = |begun_us, domain: &str, over_us| Carried {
            begun_us,
            domain: domain.to_owned(),
            over_us,
        };
        let late_us = 10 * ENDS_US;
        assert!(is_left(&carried(4_000, "d3.test", None), &left, late_us));
        assert!(
            !is_left(&carried(4_000, "d1.test", None), &left, late_us),
            "of a route that is there"
        );
        assert!(!is_left(&carried(6_000, "d3.test", None), &left, late_us), "begun too late");
        assert!(!is_left(&carried(4_000, "d3.test", Some(9_000)), &left, late_us), "it has no use");
        assert!(is_left(&carried(4_000, "d3.test", Some(9_000)), &left, ENDS_US), "it is ending");
    }
}
