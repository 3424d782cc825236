//! Transactions that one host of a next hop put off, and that another was asked to take at once.

use mail::{MessageId, Mono};
use std::cell::RefCell;
use std::time::Duration;

/// Within so long a transaction is moved to each other host once: after that it waits for its next
/// attempt, whatever is known of the hosts by then.
const COUNTED_FOR: Duration = Duration::from_secs(300);

/// Moves remembered for one next hop. What could not be remembered is not moved.
const MOVES_MAX: usize = 1_024;

/// A message, and the place of the transaction's first recipient among its recipients.
type Transaction = (MessageId, u32);

#[derive(Debug)]
struct Moved {
    of: Transaction,
    times: usize,
    until: Mono,
}

/// Moves of late.
#[derive(Debug, Default)]
pub(super) struct Moves(RefCell<Vec<Moved>>);

impl Moves {
    /// Whether a transaction may go to another host at once, of so many that there are besides the one
    /// that put it off; if so, that counts.
    pub(super) fn allow(&self, now: Mono, of: Transaction, others: usize) -> bool {
        let mut moves = self.0.borrow_mut();
        moves.retain(|moved| now < moved.until);
        if let Some(moved) = moves.iter_mut().find(|moved| moved.of == of) {
            moved.times += 1;
            return moved.times <= others;
        }
        if others == 0 || moves.len() == MOVES_MAX {
            return false;
        }
        moves.push(Moved { of, times: 1, until: now + COUNTED_FOR });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: u64, recipient: u32) -> Transaction {
        (MessageId(message), recipient)
    }

    #[test]
    fn each_other_host_is_asked_once_in_a_while() {
        let moves = Moves::default();
        assert!(!moves.allow(Mono(1), of(1, 0), 0), "there is no other");
        assert!(moves.allow(Mono(1), of(1, 0), 2));
        assert!(moves.allow(Mono(2), of(1, 0), 2));
        assert!(!moves.allow(Mono(3), of(1, 0), 2));
        assert!(moves.allow(Mono(3), of(1, 7), 2), "another transaction of the message");
        assert!(moves.allow(Mono(1) + COUNTED_FOR, of(1, 0), 2), "that was long ago");
    }

    #[test]
    fn what_there_is_no_room_for_is_not_moved() {
        let moves = Moves::default();
        for message in 0..MOVES_MAX as u64 {
            assert!(moves.allow(Mono(1), of(message, 0), 1));
        }
        assert!(!moves.allow(Mono(2), of(9_999, 0), 1));
        assert!(moves.allow(Mono(1) + COUNTED_FOR, of(9_999, 0), 1));
        assert_eq!(moves.0.borrow().len(), 1);
    }
}
