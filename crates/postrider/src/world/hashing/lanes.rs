//! What waits to be hashed, in lanes: known clients in one, strangers and those who failed lately in
//! another, which is paced. There a wrong password is paid for with a rest: all that wrong ones take is
//! [`WASTE_SHARE`] of the processors' time at most, however many guess and wherever from. A right
//! one costs no rest, so that any number of users may come from new places.

use mail::Mono;
use mta::seams::{Lane, Overloaded};
use std::collections::VecDeque;
use std::time::Duration;

/// What waits in each lane; beyond it clients are told to come again.
const WAITING_MAX: usize = 256;
/// Who has waited so long where it is paced is told to come again, in order that those who are served
/// still wait for it.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// One part in so many of all processors' time may go into wrong passwords.
const WASTE_SHARE: u64 = 20;
/// So much rest may be owed before there is any: a few mistakes delay nobody.
const OWED_MAX: Duration = Duration::from_secs(5);
/// Of so many turns one is for those who failed lately, though strangers wait.
const SUSPECTS_TURN: u32 = 4;

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crew {
    /// For known clients.
    Prompt,
    /// For all others.
    Paced,
}

impl Crew {
    pub(super) fn of(lane: Lane) -> Crew {
        match lane {
            Lane::Known => Crew::Prompt,
            Lane::Stranger | Lane::Suspect => Crew::Paced,
        }
    }
}

/// What one of a crew does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<J> {
    Do(J),
    /// Looks again then.
    Rest(Mono),
    /// There is nothing to do.
    Nothing,
}

/// All that waits.
#[derive(Debug)]
pub(super) struct Lanes<J> {
    known: VecDeque<J>,
    strangers: VecDeque<(Mono, J)>,
    suspects: VecDeque<(Mono, J)>,
    processors: u64,
    /// When all is paid that wrong passwords took.
    paid: Mono,
    turns: u32,
}

impl<J> Lanes<J> {
    pub(super) fn new(processors: usize) -> Lanes<J> {
        Lanes {
            known: VecDeque::new(),
            strangers: VecDeque::new(),
            suspects: VecDeque::new(),
            processors: u64::try_from(processors).unwrap_or(u64::MAX).max(1),
            paid: Mono(0),
            turns: 0,
        }
    }

    /// # Errors
    /// Too much waits there already.
    pub(super) fn push(&mut self, lane: Lane, job: J, now: Mono) -> Result<(), Overloaded> {
        let line = match lane {
            Lane::Known => return push(&mut self.known, job),
            Lane::Stranger => &mut self.strangers,
            Lane::Suspect => &mut self.suspects,
        };
        // Whose time is over leaves room.
        expire(line, now);
        push(line, (now, job))
    }

    /// How much waits for a crew.
    pub(super) fn waiting(&self, crew: Crew) -> usize {
        match crew {
            Crew::Prompt => self.known.len(),
            Crew::Paced => self.strangers.len() + self.suspects.len(),
        }
    }

    pub(super) fn next(&mut self, crew: Crew, now: Mono) -> Next<J> {
        match crew {
            Crew::Prompt => self.known.pop_front().map_or(Next::Nothing, Next::Do),
            Crew::Paced => self.next_paced(now),
        }
    }

    fn next_paced(&mut self, now: Mono) -> Next<J> {
        expire(&mut self.strangers, now);
        expire(&mut self.suspects, now);
        let fronts = [self.strangers.front(), self.suspects.front()];
        let Some(oldest) = fronts.into_iter().flatten().map(|(since, _)| *since).min() else {
            return Next::Nothing;
        };
        let rested = Mono(self.paid.0.saturating_sub(OWED_MAX.as_micros() as u64));
        if rested > now {
            return Next::Rest(rested.min(oldest + WAIT_MAX));
        }
        self.turns = (self.turns + 1) % SUSPECTS_TURN;
        let lines = match self.turns {
            0 => [&mut self.suspects, &mut self.strangers],
            _ => [&mut self.strangers, &mut self.suspects],
        };
        let job = lines.into_iter().find_map(VecDeque::pop_front);
        job.map_or(Next::Nothing, |(_, job)| Next::Do(job))
    }

    /// A job that the paced crew began at `began` was for nothing, and took so much of a processor.
    pub(super) fn note_waste(&mut self, began: Mono, took: Duration) {
        let share = took.saturating_mul(WASTE_SHARE as u32) / self.processors as u32;
        self.paid = self.paid.max(began) + share;
    }
}

fn push<T>(line: &mut VecDeque<T>, job: T) -> Result<(), Overloaded> {
    if line.len() >= WAITING_MAX {
        return Err(Overloaded);
    }
    line.push_back(job);
    Ok(())
}

/// Whoever has waited too long is told so, as his job is dropped.
fn expire<J>(line: &mut VecDeque<(Mono, J)>, now: Mono) {
    while line.front().is_some_and(|(since, _)| now >= *since + WAIT_MAX) {
        line.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Mono = Mono(100_000_000);
    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Mono {
        START + MS * millis as u32
    }

    /// Has one of the crew work as long as there is something to do before `until`, on hashes that take
    /// 10 ms each and are right as `is_right` says; how many it did.
    fn work(
        lanes: &mut Lanes<u32>,
        until: Mono,
        mut refill: impl FnMut(&mut Lanes<u32>, Mono),
        is_right: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let (mut now, mut done) = (START, Vec::new());
        while now < until {
            refill(lanes, now);
            match lanes.next(Crew::Paced, now) {
                Next::Do(job) => {
                    let began = now;
                    now = now + MS * 10;
                    if !is_right(job) {
                        lanes.note_waste(began, MS * 10);
                    }
                    done.push(job);
                }
                Next::Rest(then) => now = then,
                Next::Nothing => break,
            }
        }
        done
    }

    #[test]
    fn wrong_passwords_take_a_twentieth_of_the_processors() {
        for (processors, at_least, at_most) in [(1, 525, 530), (2, 1_050, 1_060), (4, 2_100, 2_120)]
        {
            let mut lanes = Lanes::new(processors);
            let refill = |lanes: &mut Lanes<u32>, now| {
                while lanes.push(Lane::Stranger, 0, now).is_ok() {}
            };
            // 100 s of 10 ms each, and what may be owed.
            let done = work(&mut lanes, at(100_000), refill, |_| false).len();
            assert!((at_least..=at_most).contains(&done), "{processors}: {done}");
        }
    }

    #[test]
    fn right_passwords_are_not_paced() {
        let mut lanes = Lanes::new(2);
        let refill = |lanes: &mut Lanes<u32>, now| {
            while lanes.push(Lane::Stranger, 0, now).is_ok() {}
        };
        assert_eq!(work(&mut lanes, at(10_000), refill, |_| true).len(), 1_000);
    }

    #[test]
    fn few_mistakes_delay_nobody() {
        let mut lanes = Lanes::new(2);
        for _ in 0..50 {
            lanes.push(Lane::Stranger, 1, START).unwrap();
            assert_eq!(lanes.next(Crew::Paced, START), Next::Do(1));
            lanes.note_waste(START, MS * 10);
        }
        lanes.push(Lane::Stranger, 2, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Do(2), "5 s are owed, as may be");
        lanes.note_waste(START, MS * 10);
        lanes.push(Lane::Stranger, 3, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Rest(at(100)));
        assert_eq!(lanes.next(Crew::Paced, at(100)), Next::Do(3));
    }

    #[test]
    fn known_clients_wait_for_nobody() {
        let mut lanes = Lanes::new(1);
        while lanes.push(Lane::Stranger, 0, START).is_ok() {}
        while lanes.push(Lane::Suspect, 1, START).is_ok() {}
        lanes.note_waste(START, Duration::from_secs(100));
        assert!(matches!(lanes.next(Crew::Paced, START), Next::Rest(_)));
        lanes.push(Lane::Known, 2, START).unwrap();
        assert_eq!(lanes.waiting(Crew::Prompt), 1);
        assert_eq!(lanes.next(Crew::Prompt, START), Next::Do(2));
        assert_eq!(lanes.next(Crew::Prompt, START), Next::Nothing);
    }

    #[test]
    fn strangers_go_before_those_who_failed_who_get_a_turn_all_the_same() {
        let mut lanes = Lanes::new(1);
        for n in 0..6 {
            lanes.push(Lane::Suspect, 100 + n, START).unwrap();
            lanes.push(Lane::Stranger, n, START).unwrap();
        }
        let done = work(&mut lanes, at(1_000), |_, _| {}, |_| true);
        assert_eq!(done, [0, 1, 2, 100, 3, 4, 5, 101, 102, 103, 104, 105]);
    }

    #[test]
    fn each_lane_takes_so_much_and_keeps_nothing_for_long() {
        let mut lanes = Lanes::new(1);
        for lane in [Lane::Known, Lane::Stranger, Lane::Suspect] {
            let taken = (0..1_000).filter(|n| lanes.push(lane, *n, START).is_ok()).count();
            assert_eq!(taken, WAITING_MAX, "{lane:?}");
        }
        lanes.note_waste(START, Duration::from_secs(100));
        let just_before = Mono((START + WAIT_MAX).0 - 1);
        assert_eq!(lanes.next(Crew::Paced, just_before), Next::Rest(START + WAIT_MAX));
        assert_eq!(lanes.push(Lane::Stranger, 0, just_before), Err(Overloaded));
        assert_eq!(lanes.push(Lane::Stranger, 7, START + WAIT_MAX), Ok(()));
        assert!(matches!(lanes.next(Crew::Paced, START + WAIT_MAX), Next::Rest(_)));
        assert_eq!(lanes.waiting(Crew::Paced), 1, "the others have been told");
        assert_eq!(lanes.waiting(Crew::Prompt), WAITING_MAX, "these are not paced");
    }
}
