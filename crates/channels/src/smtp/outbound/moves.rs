//! Failover of transactions that one host deferred: at once to another host, or to another host first at the next
//! attempt.

use mail::{MessageId, Mono};
use mta::routing::hosts::Others;
use mta::seams::Endpoint;
use std::cell::RefCell;
use std::time::Duration;

/// Period in which a transaction moves to each other host at most once. After that it waits for its next attempt,
/// whatever the state of the hosts.
const COUNTED_FOR: Duration = Duration::from_secs(300);

/// Moves remembered for one next hop. A transaction that can't be remembered is not moved.
const MOVES_MAX: usize = 1_024;

/// Message, and index of the transaction's first recipient.
pub(super) type TransactionId = (MessageId, u32);

#[derive(Debug)]
struct FailoverCount {
    of: TransactionId,
    times: usize,
    until: Mono,
}

/// Recent moves.
#[derive(Debug, Default)]
pub(super) struct Failovers(RefCell<Vec<FailoverCount>>);

impl Failovers {
    /// Returns true if a transaction may move to another host at once, and counts the move. `others` is the number of
    /// hosts besides the one that deferred it.
    pub(super) fn allow(&self, now: Mono, of: TransactionId, others: usize) -> bool {
        let mut moves = self.0.borrow_mut();
        moves.retain(|moved| now < moved.until);
        if let Some(moved) = moves.iter_mut().find(|moved| moved.of == of) {
            moved.times += 1;
            return moved.times <= others;
        }
        if others == 0 || moves.len() == MOVES_MAX {
            return false;
        }
        moves.push(FailoverCount { of, times: 1, until: now + COUNTED_FOR });
        true
    }
}

/// Time for which the end of an attempt without a verdict is remembered. Most retry policies have a further attempt
/// within it.
const AVOIDED_FOR: Duration = Duration::from_secs(86_400);

/// Maximum number of transactions remembered. The oldest is dropped first.
const AVOIDED_MAX: usize = 1_024;

/// Number of connections to the endpoint that skip the transaction. After that there seems to be no alternative.
const AVOIDED_TIMES: u8 = 3;

/// Endpoints where transactions ended without a verdict. The next attempt begins with another host (RFC 5321 §5.1), at
/// any later time, and even if the host accepts other mail.
#[derive(Debug, Default)]
pub(super) struct Avoided(RefCell<Vec<Ended>>);

#[derive(Debug)]
struct Ended {
    of: TransactionId,
    at: Endpoint,
    /// The hosts to try before it.
    others: Others,
    left: u8,
    until: Mono,
}

impl Avoided {
    /// Records the end of an attempt; the given hosts are tried before this one.
    pub(super) fn avoid(&self, now: Mono, of: TransactionId, (peer, others): (&Endpoint, Others)) {
        let mut all = self.0.borrow_mut();
        all.retain(|ended| ended.of != of && now < ended.until);
        if all.len() == AVOIDED_MAX {
            all.remove(0);
        }
        let until = now + AVOIDED_FOR;
        all.push(Ended { of, at: peer.clone(), others, left: AVOIDED_TIMES, until });
    }

    /// The hosts to try first, if the last attempt ended here. An attempt at another endpoint clears the record.
    pub(super) fn avoided_for(
        &self,
        now: Mono,
        of: TransactionId,
        peer: &Endpoint,
    ) -> Option<Others> {
        let mut all = self.0.borrow_mut();
        let at = all.iter().position(|ended| ended.of == of)?;
        let ended = &mut all[at];
        if now < ended.until && ended.at == *peer && ended.left > 0 {
            ended.left -= 1;
            return Some(ended.others);
        }
        all.remove(at);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: u64, recipient: u32) -> TransactionId {
        (MessageId(message), recipient)
    }

    #[test]
    fn each_other_host_is_asked_once_in_a_while() {
        let moves = Failovers::default();
        assert!(!moves.allow(Mono(1), of(1, 0), 0), "there is no other");
        assert!(moves.allow(Mono(1), of(1, 0), 2));
        assert!(moves.allow(Mono(2), of(1, 0), 2));
        assert!(!moves.allow(Mono(3), of(1, 0), 2));
        assert!(moves.allow(Mono(3), of(1, 7), 2), "another transaction of the message");
        assert!(moves.allow(Mono(1) + COUNTED_FOR, of(1, 0), 2), "that was long ago");
    }

    #[test]
    fn the_place_of_an_attempt_without_a_verdict_is_avoided() {
        let peer = |n: u16| Endpoint::Tcp(std::net::SocketAddr::from(([192, 0, 2, 1], n)));
        let avoided = Avoided::default();
        let avoid = |now: Mono, message: u64| {
            avoided.avoid(now, of(message, 0), (&peer(1), Others::Well));
        };
        let is_avoided = |now: Mono, of: TransactionId, n: u16| {
            avoided.avoided_for(now, of, &peer(n)) == Some(Others::Well)
        };
        avoid(Mono(1), 1);
        assert!(!is_avoided(Mono(2), of(2, 0), 1));
        for _ in 0..AVOIDED_TIMES {
            assert!(is_avoided(Mono(2), of(1, 0), 1));
        }
        assert!(!is_avoided(Mono(2), of(1, 0), 1), "there is no other");
        avoid(Mono(1), 1);
        assert!(!is_avoided(Mono(3), of(1, 0), 2), "it is made elsewhere");
        assert!(!is_avoided(Mono(3), of(1, 0), 1));
        avoid(Mono(1), 1);
        assert!(!is_avoided(Mono(1) + AVOIDED_FOR, of(1, 0), 1));
        for message in 0..=AVOIDED_MAX as u64 {
            avoid(Mono(9), message);
        }
        assert!(!is_avoided(Mono(9), of(0, 0), 1), "there is no room for more");
        assert!(is_avoided(Mono(9), of(1, 0), 1));
    }

    #[test]
    fn what_there_is_no_room_for_is_not_moved() {
        let moves = Failovers::default();
        for message in 0..MOVES_MAX as u64 {
            assert!(moves.allow(Mono(1), of(message, 0), 1));
        }
        assert!(!moves.allow(Mono(2), of(9_999, 0), 1));
        assert!(moves.allow(Mono(1) + COUNTED_FOR, of(9_999, 0), 1));
        assert_eq!(moves.0.borrow().len(), 1);
    }
}
