//! What waits to be hashed, in lanes: known clients in one, strangers and those who failed lately in
//! two others, which are paced. There a wrong password is paid for with a rest of its lane: all that wrong
//! ones take is [`WASTE_SHARE`] of the processors' time at most in each, however many guess and wherever
//! from. A right one costs no rest, so that any number of users may come from new places. A guess at a user
//! who does not exist takes a turn and no time.

use mail::Mono;
use mta::seams::{Lane, Overloaded};
use std::collections::VecDeque;
use std::time::Duration;

/// What waits in each lane, and guesses at nobody beside it; beyond it clients are told to come again.
const WAITING_MAX: usize = 256;
/// Who has waited so long where it is paced is told to come again, in order that those who are served
/// still wait for it.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// One part in so many of all processors' time may go into wrong passwords of each paced lane.
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
    known: VecDeque<Waiting<J>>,
    strangers: PacedLane<J>,
    suspects: PacedLane<J>,
    processors: u64,
    turns: u32,
}

#[derive(Debug)]
struct Waiting<J> {
    since: Mono,
    job: J,
    /// There is nothing to be done: it only waits like others.
    is_idle: bool,
}

#[derive(Debug)]
struct PacedLane<J> {
    line: VecDeque<Waiting<J>>,
    /// When all is paid that wrong passwords took.
    paid: Mono,
}

impl<J> PacedLane<J> {
    fn new() -> PacedLane<J> {
        PacedLane { line: VecDeque::new(), paid: Mono(0) }
    }

    /// When the first in it may be served; `None`: nobody waits.
    fn served_at(&self) -> Option<Mono> {
        let first = self.line.front()?.since;
        let rested = Mono(self.paid.0.saturating_sub(OWED_MAX.as_micros() as u64));
        Some(rested.min(first + WAIT_MAX))
    }

    /// Whoever has waited too long is told so, as his job is dropped.
    fn expire(&mut self, now: Mono) {
        while self.line.front().is_some_and(|first| now >= first.since + WAIT_MAX) {
            self.line.pop_front();
        }
    }
}

impl<J> Lanes<J> {
    pub(super) fn new(processors: usize) -> Lanes<J> {
        Lanes {
            known: VecDeque::new(),
            strangers: PacedLane::new(),
            suspects: PacedLane::new(),
            processors: u64::try_from(processors).unwrap_or(u64::MAX).max(1),
            turns: 0,
        }
    }

    /// `is_idle`: it takes its turn and no time. Such leave the places of others to them.
    ///
    /// # Errors
    /// Too much waits there already.
    pub(super) fn push(
        &mut self,
        lane: Lane,
        job: J,
        is_idle: bool,
        now: Mono,
    ) -> Result<(), Overloaded> {
        let line = match lane {
            Lane::Known => &mut self.known,
            Lane::Stranger | Lane::Suspect => {
                let paced = self.paced(lane);
                // Whose time is over leaves room.
                paced.expire(now);
                &mut paced.line
            }
        };
        if line.iter().filter(|waiting| waiting.is_idle == is_idle).count() >= WAITING_MAX {
            return Err(Overloaded);
        }
        line.push_back(Waiting { since: now, job, is_idle });
        Ok(())
    }

    fn paced(&mut self, lane: Lane) -> &mut PacedLane<J> {
        if lane == Lane::Suspect { &mut self.suspects } else { &mut self.strangers }
    }

    /// How much waits for a crew.
    pub(super) fn waiting(&self, crew: Crew) -> usize {
        match crew {
            Crew::Prompt => self.known.len(),
            Crew::Paced => self.strangers.line.len() + self.suspects.line.len(),
        }
    }

    pub(super) fn next(&mut self, crew: Crew, now: Mono) -> Next<J> {
        match crew {
            Crew::Prompt => {
                self.known.pop_front().map_or(Next::Nothing, |waiting| Next::Do(waiting.job))
            }
            Crew::Paced => self.next_paced(now),
        }
    }

    fn next_paced(&mut self, now: Mono) -> Next<J> {
        self.strangers.expire(now);
        self.suspects.expire(now);
        let ready = [self.strangers.served_at(), self.suspects.served_at()];
        let Some(first) = ready.into_iter().flatten().min() else { return Next::Nothing };
        if first > now {
            return Next::Rest(first);
        }
        let is_ready = ready.map(|at| at.is_some_and(|at| at <= now));
        self.turns = (self.turns + 1) % SUSPECTS_TURN;
        let lane = match (is_ready, self.turns) {
            ([true, false], _) => Lane::Stranger,
            ([false, _], _) | (_, 0) => Lane::Suspect,
            _ => Lane::Stranger,
        };
        let first = self.paced(lane).line.pop_front();
        first.map_or(Next::Nothing, |waiting| Next::Do(waiting.job))
    }

    /// A job that the paced crew began at `began` was for nothing, and took so much of a processor.
    pub(super) fn note_waste(&mut self, lane: Lane, began: Mono, took: Duration) {
        let share = took.saturating_mul(WASTE_SHARE as u32) / self.processors as u32;
        let paced = self.paced(lane);
        paced.paid = paced.paid.max(began) + share;
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
                        lanes.note_waste(Lane::Stranger, began, MS * 10);
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
                while lanes.push(Lane::Stranger, 0, false, now).is_ok() {}
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
            while lanes.push(Lane::Stranger, 0, false, now).is_ok() {}
        };
        assert_eq!(work(&mut lanes, at(10_000), refill, |_| true).len(), 1_000);
    }

    #[test]
    fn few_mistakes_delay_nobody() {
        let mut lanes = Lanes::new(2);
        for _ in 0..50 {
            lanes.push(Lane::Stranger, 1, false, START).unwrap();
            assert_eq!(lanes.next(Crew::Paced, START), Next::Do(1));
            lanes.note_waste(Lane::Stranger, START, MS * 10);
        }
        lanes.push(Lane::Stranger, 2, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Do(2), "5 s are owed, as may be");
        lanes.note_waste(Lane::Stranger, START, MS * 10);
        lanes.push(Lane::Stranger, 3, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Rest(at(100)));
        assert_eq!(lanes.next(Crew::Paced, at(100)), Next::Do(3));
    }

    #[test]
    fn known_clients_wait_for_nobody() {
        let mut lanes = Lanes::new(1);
        while lanes.push(Lane::Stranger, 0, false, START).is_ok() {}
        while lanes.push(Lane::Suspect, 1, false, START).is_ok() {}
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        assert!(matches!(lanes.next(Crew::Paced, START), Next::Rest(_)));
        lanes.push(Lane::Known, 2, false, START).unwrap();
        assert_eq!(lanes.waiting(Crew::Prompt), 1);
        assert_eq!(lanes.next(Crew::Prompt, START), Next::Do(2));
        assert_eq!(lanes.next(Crew::Prompt, START), Next::Nothing);
    }

    #[test]
    fn strangers_go_before_those_who_failed_who_get_a_turn_all_the_same() {
        let mut lanes = Lanes::new(1);
        for n in 0..6 {
            lanes.push(Lane::Suspect, 100 + n, false, START).unwrap();
            lanes.push(Lane::Stranger, n, false, START).unwrap();
        }
        let done = work(&mut lanes, at(1_000), |_, _| {}, |_| true);
        assert_eq!(done, [0, 1, 2, 100, 3, 4, 5, 101, 102, 103, 104, 105]);
    }

    #[test]
    fn each_lane_takes_so_much_and_keeps_nothing_for_long() {
        let mut lanes = Lanes::new(1);
        for lane in [Lane::Known, Lane::Stranger, Lane::Suspect] {
            let taken = (0..1_000).filter(|n| lanes.push(lane, *n, false, START).is_ok()).count();
            assert_eq!(taken, WAITING_MAX, "{lane:?}");
        }
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        let just_before = Mono((START + WAIT_MAX).0 - 1);
        assert_eq!(lanes.next(Crew::Paced, just_before), Next::Rest(START + WAIT_MAX));
        assert_eq!(lanes.push(Lane::Stranger, 0, false, just_before), Err(Overloaded));
        assert_eq!(lanes.push(Lane::Stranger, 7, false, START + WAIT_MAX), Ok(()));
        assert!(matches!(lanes.next(Crew::Paced, START + WAIT_MAX), Next::Rest(_)));
        assert_eq!(lanes.waiting(Crew::Paced), 1, "the others have been told");
        assert_eq!(lanes.waiting(Crew::Prompt), WAITING_MAX, "these are not paced");
    }

    #[test]
    fn suspects_wrong_passwords_leave_strangers_their_own_time() {
        let mut lanes = Lanes::new(1);
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        lanes.push(Lane::Suspect, 1, false, START).unwrap();
        lanes.push(Lane::Stranger, 2, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Do(2));
        assert_eq!(lanes.next(Crew::Paced, START), Next::Rest(START + WAIT_MAX));
        // And the other way round.
        let mut lanes = Lanes::new(1);
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.push(Lane::Suspect, 1, false, START).unwrap();
        lanes.push(Lane::Stranger, 2, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), Next::Do(1));
    }

    #[test]
    fn guesses_at_nobody_take_turns_and_no_places() {
        let mut lanes = Lanes::new(1);
        let idle = (0..1_000).filter(|n| lanes.push(Lane::Stranger, *n, true, START).is_ok());
        assert_eq!(idle.count(), WAITING_MAX);
        assert_eq!(lanes.push(Lane::Stranger, 2_000, false, START), Ok(()));
        // The first of them is the first to be served: by its turn nobody can tell what it is.
        assert_eq!(lanes.next(Crew::Paced, START), Next::Do(0));
    }
}
