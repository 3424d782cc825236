//! Strangers at full effort: how long others wait.

use super::*;
use std::net::{IpAddr, Ipv6Addr};

fn client(site: u16, network: u16) -> Requester {
    let ip = |network| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 0));
    Requester::Client { site: ip(0), network: ip(network) }
}

/// A server that answers so many requests in a turn, and strangers who ask for as much as they can.
struct Pressed {
    desk: Coalescer,
    now: Mono,
    next: u64,
    strangers: Vec<Requester>,
    answered: BTreeSet<Ticket>,
    refused: BTreeSet<Ticket>,
}

impl Pressed {
    fn new(strangers: Vec<Requester>) -> Pressed {
        let (answered, refused) = Default::default();
        Pressed { desk: desk(4, 1, 1_000), now: Mono(0), next: 0, strangers, answered, refused }
    }

    fn ask(&mut self, asker: Requester) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let key = format!("k{}", self.next);
        if self.desk.handle_question(self.now, &key, (ticket, asker)).is_err() {
            self.refused.insert(ticket);
        }
        ticket
    }

    fn turn(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        for round in 0..20 {
            for n in 0..self.strangers.len() {
                // Each network has twenty questions, and comes again with those that were answered.
                if self.desk.waiting_count() < 1_000 || round == 0 {
                    self.ask(self.strangers[n]);
                }
            }
        }
        let requests: Vec<LookupRequest> =
            std::iter::from_fn(|| self.desk.poll_request(self.now)).collect();
        for request in requests {
            let answers: Answers = request.keys.iter().map(|_| Ok(None)).collect();
            self.desk.handle_answers(self.now, request.id, answers);
        }
        while let Some(answered) = self.desk.poll_answered() {
            match answered.answer {
                Ok(_) => self.answered.extend(answered.tickets),
                Err(_) => self.refused.extend(answered.tickets),
            }
        }
    }

    /// How many turns each of a hundred questions of somebody else waits.
    fn waits_of(&mut self, asker: Requester) -> Vec<u64> {
        (0..5).for_each(|_| self.turn());
        let mut waits = Vec::new();
        for _ in 0..100 {
            let ticket = self.ask(asker);
            let mut turns = 0;
            while !self.answered.contains(&ticket) {
                assert!(!self.refused.contains(&ticket), "after {turns} turns");
                self.turn();
                turns += 1;
            }
            waits.push(turns);
        }
        assert!(self.desk.crowd_count() > 0 && !self.refused.is_empty());
        waits
    }
}

#[test]
fn a_hundred_networks_leave_turns_to_others() {
    // Of one customer, then of a hundred, who are four in a turn.
    let of_one: Vec<Requester> = (0..100).map(|n| client(1, n)).collect();
    let of_many: Vec<Requester> = (0..100).map(|n| client(n, 1)).collect();
    for (strangers, most) in [(of_one, 1), (of_many, 26)] {
        for asker in [client(500, 1), Requester::Ours] {
            let waits = Pressed::new(strangers.clone()).waits_of(asker);
            assert!(waits.iter().all(|turns| *turns <= most), "{most}: {waits:?}");
        }
    }
}

#[test]
fn the_last_question_of_whoever_has_most_gives_way() {
    let mut desk = desk(1, 1, 4);
    let ask = |desk: &mut Coalescer, n: u64, asker| {
        desk.handle_question(Mono(0), &format!("k{n}"), (Ticket(n), asker)).is_ok()
    };
    for n in 0..3 {
        assert!(ask(&mut desk, n, client(1, 1)));
    }
    assert!(ask(&mut desk, 3, client(1, 2)));
    assert_eq!(desk.most().map(|(_, count)| count), Some(4));
    assert!(!ask(&mut desk, 4, client(1, 1)), "it has most itself");
    assert!(ask(&mut desk, 5, client(2, 1)));
    let gone = desk.poll_answered().unwrap();
    assert_eq!(
        (gone.tickets, gone.answer.unwrap_err().kind),
        (vec![Ticket(2)], LookupErrorKind::Busy)
    );
    assert!(!ask(&mut desk, 6, client(1, 2)), "the other of its site has as much");
    assert!(ask(&mut desk, 7, client(3, 1)));
    assert_eq!(desk.poll_answered().unwrap().tickets, [Ticket(1)]);
    assert!(ask(&mut desk, 8, client(4, 1)));
    assert!(!ask(&mut desk, 9, client(5, 1)), "nobody has two more");
}

#[test]
fn whoever_joins_a_question_has_it_asked_in_its_own_turn() {
    let mut desk = desk(1, 1, 100);
    for n in 0..10 {
        let key = format!("k{n}");
        desk.handle_question(Mono(0), &key, (Ticket(n), client(1, 1))).unwrap();
    }
    desk.handle_question(Mono(0), "k9", (Ticket(20), client(2, 1))).unwrap();
    let mut keys = Vec::new();
    while let Some(request) = desk.poll_request(Mono(1)) {
        keys.push(request.keys[0].to_string());
        desk.handle_answers(Mono(1), request.id, vec![Ok(None)]);
    }
    assert_eq!(keys[..3], ["k0", "k9", "k1"]);
    assert_eq!((keys.len(), desk.crowd_count(), desk.waiting_count()), (10, 0, 0));
    // One who goes takes its turn along.
    desk.handle_question(Mono(2), "a", (Ticket(30), client(1, 1))).unwrap();
    desk.handle_question(Mono(2), "a", (Ticket(31), client(2, 1))).unwrap();
    desk.handle_abandoned(Ticket(31));
    assert_eq!(desk.crowd_count(), 1);
    desk.handle_abandoned(Ticket(30));
    assert!(desk.crowd_count() == 0 && desk.most().is_none());
}
