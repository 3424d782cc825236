//! Hosts that can't accept a transaction which another host may accept. The refusal is final only if all hosts of the
//! next hop are known not to accept it.

use super::moves::TransactionId;
use mail::Mono;
use mta::routing::hosts::Host;
use std::cell::RefCell;
use std::time::Duration;

/// Time for which a host's reply is remembered. Most retry policies have a further attempt within it.
const SAID_FOR: Duration = Duration::from_secs(86_400);

/// The same for a conclusion from the host's EHLO reply.
const SHOWN_FOR: Duration = Duration::from_secs(3_600);

/// Maximum number of transactions remembered for a next hop. The oldest is dropped first, and its hosts are tried
/// again.
const TRANSACTIONS_MAX: usize = 1_024;

/// Maximum number of hosts remembered for each.
const HOSTS_MAX: usize = 64;

/// Evidence that a host can't accept a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// A reply to the transaction.
    Said,
    /// A missing extension.
    Shown,
}

#[derive(Debug)]
struct IncapableHosts {
    of: TransactionId,
    by: Vec<(Host, Mono)>,
}

/// Transactions that hosts of one next hop can't accept.
#[derive(Debug, Default)]
pub(super) struct Lacking(RefCell<Vec<IncapableHosts>>);

impl Lacking {
    /// Records that a host can't accept a transaction.
    pub(super) fn note(&self, now: Mono, of: TransactionId, (host, made): (&Host, Made)) {
        let mut all = self.0.borrow_mut();
        let until = now
            + match made {
                Made::Said => SAID_FOR,
                Made::Shown => SHOWN_FOR,
            };
        all.retain(|known| known.by.iter().any(|(_, until)| now < *until));
        if let Some(known) = all.iter_mut().find(|known| known.of == of) {
            known.by.retain(|(known, until)| known != host && now < *until);
            if known.by.len() < HOSTS_MAX {
                known.by.push((host.clone(), until));
            }
            return;
        }
        if all.len() == TRANSACTIONS_MAX {
            all.remove(0);
        }
        all.push(IncapableHosts { of, by: vec![(host.clone(), until)] });
    }

    /// Returns true if a host was recently found unable to accept the transaction.
    pub(super) fn is_known(&self, now: Mono, of: TransactionId, host: &Host) -> bool {
        let all = self.0.borrow();
        let known = all.iter().find(|known| known.of == of);
        known.is_some_and(|known| known.by.iter().any(|(by, until)| by == host && now < *until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::MessageId;

    #[test]
    fn it_is_remembered_by_transaction_and_host_for_a_while() {
        let (lacking, of) = (Lacking::default(), |n: u64| (MessageId(n), 0));
        let host = |name: &str| Host { name: name.into(), port: 25 };
        let said = |now: Mono, n: u64, name: &str| {
            lacking.note(now, of(n), (&host(name), Made::Said));
        };
        let is_known = |now: Mono, n: u64, name: &str| lacking.is_known(now, of(n), &host(name));
        said(Mono(1), 1, "a");
        lacking.note(Mono(2), of(1), (&host("b"), Made::Shown));
        assert!(is_known(Mono(3), 1, "a") && is_known(Mono(3), 1, "b"));
        assert!(!is_known(Mono(3), 1, "c") && !is_known(Mono(3), 2, "a"));
        assert!(!is_known(Mono(2) + SHOWN_FOR, 1, "b"));
        assert!(is_known(Mono(0) + SAID_FOR, 1, "a") && !is_known(Mono(1) + SAID_FOR, 1, "a"));
        for n in 0..=TRANSACTIONS_MAX as u64 {
            said(Mono(9), n + 7, "a");
        }
        assert!(!is_known(Mono(9), 7, "a"), "there is no room for more");
        assert!(is_known(Mono(9), 8, "a"));
        for n in 0..=HOSTS_MAX {
            said(Mono(9), 8, &format!("h{n}"));
        }
        assert!(is_known(Mono(9), 8, "h0"));
        assert!(!is_known(Mono(9), 8, &format!("h{HOSTS_MAX}")));
    }
}
