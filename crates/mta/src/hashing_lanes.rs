//! Queues of password checks, in lanes: one for known clients, one for unknown clients, one for clients and users that
//! failed lately.
//!
//! The latter two are paced. A wrong password is paid for by a rest of its lane: in each lane, all wrong passwords
//! together take at most [`WASTE_SHARE`] of the processors' time. This does not depend on the number and the origin of
//! the guesses. A correct password costs no rest, so that any number of users may log in from new addresses. A guess at
//! a nonexistent user takes a turn and no time.
//!
//! Within a lane client networks take turns, and so do the IPv4 /24s and IPv6 /48s above them. In a full lane, the
//! latest entry of the network with the most entries is dropped.

use crate::pressure::Level;
use crate::seams::{Lane, Overloaded};
use lookup::Requester;
use lookup::turns::{Holders, QuestionQueue};
use mail::Mono;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Waiting time from which an entry counts as pressure.
const SOON: Duration = Duration::from_millis(250);

/// Maximum number of entries in each lane, and of guesses at nonexistent users beside it; beyond it clients get a
/// temporary failure.
const WAITING_MAX: usize = 256;
/// Maximum waiting time in a paced lane; then the client gets a temporary failure, so that a served client is still
/// waiting for its result.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Share of all processors' time for wrong passwords in each paced lane: one part in this number.
const WASTE_SHARE: u64 = 20;
/// Rest that may be owed before a lane rests: a few typing errors delay no user, nor do the first guesses of a hundred
/// networks.
const OWED_MAX: Duration = Duration::from_secs(60);
/// One turn in this number is for clients and users that failed lately, even if unknown clients wait.
const SUSPECTS_TURN: u32 = 4;

/// The workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crew {
    /// For known clients.
    Prompt,
    /// For all other clients.
    Paced,
}

impl Crew {
    #[must_use]
    pub fn of(lane: Lane) -> Crew {
        match lane {
            Lane::Known => Crew::Prompt,
            Lane::Stranger | Lane::Suspect => Crew::Paced,
        }
    }
}

/// The next step of a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkerStep<J> {
    /// The lane is the last one in which the job waited; it pays for the job.
    Do(J, Lane),
    /// Look again at this time.
    Rest(Mono),
    /// No job.
    Nothing,
}

fn do_next<J>(job: Option<J>, lane: Lane) -> WorkerStep<J> {
    job.map_or(WorkerStep::Nothing, |job| WorkerStep::Do(job, lane))
}

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// As in [`Hashed`](crate::seams::Hashed).
    pub is_wasted: bool,
    pub has_failed: bool,
    /// Processor time used.
    pub took: Duration,
}

/// All lanes.
#[derive(Debug)]
pub struct Lanes<J> {
    known: LaneQueue<J>,
    strangers: PacedLane<J>,
    suspects: PacedLane<J>,
    processors: u64,
    turns: u32,
}

#[derive(Debug)]
struct Queued<J> {
    since: Mono,
    job: J,
    asker: Requester,
    /// It only waits for its turn, without work.
    is_idle: bool,
}

/// The entries of one lane, by number, in order of arrival.
#[derive(Debug)]
struct LaneQueue<J> {
    queued: BTreeMap<u64, Queued<J>>,
    turns: QuestionQueue,
    /// Indexed by `is_idle`.
    holders: [Holders<u64>; 2],
    idle: usize,
    next: u64,
}

impl<J> LaneQueue<J> {
    fn new() -> LaneQueue<J> {
        let (queued, turns, holders) = Default::default();
        LaneQueue { queued, turns, holders, idle: 0, next: 0 }
    }

    /// Arrival of the oldest entry; `None` if the lane is empty.
    fn oldest(&self) -> Option<Mono> {
        self.queued.first_key_value().map(|(_, first)| first.since)
    }

    /// Adds an entry. If another is dropped for it, its client is notified by the drop of its job.
    fn push(&mut self, queued: Queued<J>) -> Result<(), Overloaded> {
        let Queued { is_idle, asker, .. } = queued;
        let of_kind = if is_idle { self.idle } else { self.queued.len() - self.idle };
        if of_kind >= WAITING_MAX {
            let last = self.holders[usize::from(is_idle)].gives_way_to(asker);
            self.take_out(last.ok_or(Overloaded)?);
        }
        let number = self.next;
        self.next += 1;
        self.turns.insert(asker, number);
        self.holders[usize::from(is_idle)].insert(asker, number);
        self.idle += usize::from(is_idle);
        self.queued.insert(number, queued);
        Ok(())
    }

    /// Takes the next entry in turn.
    fn pop(&mut self) -> Option<J> {
        let number = self.turns.take_turn()?;
        self.take_out(number)
    }

    fn take_out(&mut self, number: u64) -> Option<J> {
        self.take(number).map(|queued| queued.job)
    }

    fn take(&mut self, number: u64) -> Option<Queued<J>> {
        let queued = self.queued.remove(&number)?;
        let Queued { asker, is_idle, .. } = queued;
        self.turns.remove(asker, number);
        self.holders[usize::from(is_idle)].remove(asker, number);
        self.idle -= usize::from(is_idle);
        Some(queued)
    }
}

#[derive(Debug)]
struct PacedLane<J> {
    line: LaneQueue<J>,
    /// Time at which all wrong passwords so far are paid for.
    paid: Mono,
}

impl<J> PacedLane<J> {
    fn new() -> PacedLane<J> {
        PacedLane { line: LaneQueue::new(), paid: Mono(0) }
    }

    /// Time at which the next entry may be served; `None` if the lane is empty.
    fn served_at(&self) -> Option<Mono> {
        let first = self.line.oldest()?;
        let rested = Mono(self.paid.0.saturating_sub(OWED_MAX.as_micros() as u64));
        Some(rested.min(first + WAIT_MAX))
    }

    /// Drops entries that have waited too long; the drop of the job notifies the client.
    fn expire(&mut self, now: Mono) {
        while self.line.oldest().is_some_and(|first| now >= first + WAIT_MAX) {
            let first = self.line.queued.first_key_value().map(|(number, _)| *number);
            first.and_then(|number| self.line.take_out(number));
        }
    }
}

impl<J> Lanes<J> {
    /// Empty lanes, for this number of processors.
    #[must_use]
    pub fn new(processors: usize) -> Lanes<J> {
        Lanes {
            known: LaneQueue::new(),
            strangers: PacedLane::new(),
            suspects: PacedLane::new(),
            processors: u64::try_from(processors).unwrap_or(u64::MAX).max(1),
            turns: 0,
        }
    }

    /// `is_idle`: it takes a turn and no time. These entries do not use up the places of other entries.
    ///
    /// # Errors
    /// The lane is full.
    pub fn push(
        &mut self,
        (lane, asker): (Lane, Requester),
        job: J,
        is_idle: bool,
        now: Mono,
    ) -> Result<(), Overloaded> {
        let line = match lane {
            Lane::Known => &mut self.known,
            Lane::Stranger | Lane::Suspect => {
                let paced = self.paced(lane);
                // Expired entries free places.
                paced.expire(now);
                &mut paced.line
            }
        };
        line.push(Queued { since: now, job, asker, is_idle })
    }

    fn paced(&mut self, lane: Lane) -> &mut PacedLane<J> {
        if lane == Lane::Suspect { &mut self.suspects } else { &mut self.strangers }
    }

    /// Number of entries for these workers.
    #[must_use]
    pub fn waiting(&self, crew: Crew) -> usize {
        match crew {
            Crew::Prompt => self.known.queued.len(),
            Crew::Paced => self.strangers.line.queued.len() + self.suspects.line.queued.len(),
        }
    }

    /// The entries, and their limit; and the site with the most entries, and their number.
    #[must_use]
    pub fn level(&self, now: Mono) -> (Level, Option<(IpAddr, u64)>) {
        let lines = [&self.known, &self.strangers.line, &self.suspects.line];
        let used: usize = lines.iter().map(|line| line.queued.len()).sum();
        // A check that starts soon does not count as waiting.
        let waits = |queued: &&Queued<J>| queued.since + SOON <= now;
        let waiting: usize =
            lines.iter().map(|line| line.queued.values().take_while(waits).count()).sum();
        let most = |line: &&LaneQueue<J>| {
            let most = line.holders.iter().filter_map(Holders::most);
            most.max_by_key(|(_, count)| *count)
        };
        let most = lines.iter().filter_map(most).max_by_key(|(_, count)| *count);
        let max = (lines.len() * WAITING_MAX) as u64;
        let level = Level { used: used as u64, max, waiting: waiting as u64, is_full: false };
        (level, most.and_then(|(site, count)| Some((site?, count as u64))))
    }

    /// The next step of a worker.
    pub fn next(&mut self, crew: Crew, now: Mono) -> WorkerStep<J> {
        match crew {
            Crew::Prompt => do_next(self.known.pop(), Lane::Known),
            Crew::Paced => self.next_paced(now),
        }
    }

    fn next_paced(&mut self, now: Mono) -> WorkerStep<J> {
        self.strangers.expire(now);
        self.suspects.expire(now);
        let ready = [self.strangers.served_at(), self.suspects.served_at()];
        let Some(first) = ready.into_iter().flatten().min() else { return WorkerStep::Nothing };
        if first > now {
            return WorkerStep::Rest(first);
        }
        let is_ready = ready.map(|at| at.is_some_and(|at| at <= now));
        self.turns = (self.turns + 1) % SUSPECTS_TURN;
        let lane = match (is_ready, self.turns) {
            ([true, false], _) => Lane::Stranger,
            ([false, _], _) | (_, 0) => Lane::Suspect,
            _ => Lane::Stranger,
        };
        do_next(self.paced(lane).line.pop(), lane)
    }

    /// A worker has finished a job of this lane that began at `began`. `None`: there was no work to do; the usual
    /// duration is `usual`.
    pub fn note_done(
        &mut self,
        (lane, asker): (Lane, Requester),
        began: Mono,
        spent: Option<Spent>,
        usual: Duration,
    ) {
        // A guess at a nonexistent user has failed as well, and so has a client that did not wait for the answer.
        if lane == Lane::Stranger && spent.is_none_or(|spent| spent.has_failed) {
            self.demote(asker);
        }
        match spent {
            Some(spent) if spent.is_wasted && lane != Lane::Known => {
                self.note_waste(lane, began, spent.took);
            }
            // Repeated guesses at one name must not show by the pace of this lane whether the user exists.
            None if lane == Lane::Suspect => self.note_waste(lane, began, usual),
            _ => {}
        }
    }

    /// A client has failed: further entries of its network move from the lane of unknown clients to that of failed
    /// ones. If many networks guess for the first time, only one guess of each is thus served first.
    fn demote(&mut self, asker: Requester) {
        if asker == Requester::Ours {
            return;
        }
        let line = &mut self.strangers.line;
        let its = line.queued.iter().filter(|(_, queued)| queued.asker == asker);
        let its: Vec<u64> = its.map(|(number, _)| *number).collect();
        for number in its {
            let Some(queued) = self.strangers.line.take(number) else { continue };
            // If that lane is full, the drop of the job notifies the client.
            let _ = self.suspects.line.push(queued);
        }
    }

    /// Notes that a job of the paced workers that began at `began` was wasted, and its processor time.
    fn note_waste(&mut self, lane: Lane, began: Mono, took: Duration) {
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

    /// Runs a worker as long as there is a job before `until`, with hashes of 10 ms that are correct if `is_right`.
    /// Returns the finished jobs.
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
                WorkerStep::Do(job, _) => {
                    let began = now;
                    now = now + MS * 10;
                    if !is_right(job) {
                        lanes.note_waste(Lane::Stranger, began, MS * 10);
                    }
                    done.push(job);
                }
                WorkerStep::Rest(then) => now = then,
                WorkerStep::Nothing => break,
            }
        }
        done
    }

    #[test]
    fn wrong_passwords_take_a_twentieth_of_the_processors() {
        for (processors, at_least, at_most) in [(1, 800, 805), (2, 1_600, 1_610), (4, 3_200, 3_220)]
        {
            let mut lanes = Lanes::new(processors);
            let refill = |lanes: &mut Lanes<u32>, now| {
                while lanes.push((Lane::Stranger, Requester::Ours), 0, false, now).is_ok() {}
            };
            // 100 s of 10 ms each, and the owed rest.
            let done = work(&mut lanes, at(100_000), refill, |_| false).len();
            assert!((at_least..=at_most).contains(&done), "{processors}: {done}");
        }
    }

    #[test]
    fn right_passwords_are_not_paced() {
        let mut lanes = Lanes::new(2);
        let refill = |lanes: &mut Lanes<u32>, now| {
            while lanes.push((Lane::Stranger, Requester::Ours), 0, false, now).is_ok() {}
        };
        assert_eq!(work(&mut lanes, at(10_000), refill, |_| true).len(), 1_000);
    }

    #[test]
    fn few_mistakes_delay_nobody() {
        let mut lanes = Lanes::new(2);
        for _ in 0..600 {
            lanes.push((Lane::Stranger, Requester::Ours), 1, false, START).unwrap();
            assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Do(1, Lane::Stranger));
            lanes.note_waste(Lane::Stranger, START, MS * 10);
        }
        lanes.push((Lane::Stranger, Requester::Ours), 2, false, START).unwrap();
        assert_eq!(
            lanes.next(Crew::Paced, START),
            WorkerStep::Do(2, Lane::Stranger),
            "60 s are owed, as may be"
        );
        lanes.note_waste(Lane::Stranger, START, MS * 10);
        lanes.push((Lane::Stranger, Requester::Ours), 3, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Rest(at(100)));
        assert_eq!(lanes.next(Crew::Paced, at(100)), WorkerStep::Do(3, Lane::Stranger));
    }

    #[test]
    fn known_clients_wait_for_nobody() {
        let mut lanes = Lanes::new(1);
        while lanes.push((Lane::Stranger, Requester::Ours), 0, false, START).is_ok() {}
        while lanes.push((Lane::Suspect, Requester::Ours), 1, false, START).is_ok() {}
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        assert!(matches!(lanes.next(Crew::Paced, START), WorkerStep::Rest(_)));
        lanes.push((Lane::Known, Requester::Ours), 2, false, START).unwrap();
        assert_eq!(lanes.waiting(Crew::Prompt), 1);
        assert_eq!(lanes.next(Crew::Prompt, START), WorkerStep::Do(2, Lane::Known));
        assert_eq!(lanes.next(Crew::Prompt, START), WorkerStep::Nothing);
    }

    #[test]
    fn strangers_go_before_those_who_failed_who_get_a_turn_all_the_same() {
        let mut lanes = Lanes::new(1);
        for n in 0..6 {
            lanes.push((Lane::Suspect, Requester::Ours), 100 + n, false, START).unwrap();
            lanes.push((Lane::Stranger, Requester::Ours), n, false, START).unwrap();
        }
        let done = work(&mut lanes, at(1_000), |_, _| {}, |_| true);
        assert_eq!(done, [0, 1, 2, 100, 3, 4, 5, 101, 102, 103, 104, 105]);
    }

    #[test]
    fn each_lane_takes_so_much_and_keeps_nothing_for_long() {
        let mut lanes = Lanes::new(1);
        for lane in [Lane::Known, Lane::Stranger, Lane::Suspect] {
            let taken = (0..1_000)
                .filter(|n| lanes.push((lane, Requester::Ours), *n, false, START).is_ok())
                .count();
            assert_eq!(taken, WAITING_MAX, "{lane:?}");
        }
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        let just_before = Mono((START + WAIT_MAX).0 - 1);
        assert_eq!(lanes.next(Crew::Paced, just_before), WorkerStep::Rest(START + WAIT_MAX));
        assert_eq!(
            lanes.push((Lane::Stranger, Requester::Ours), 0, false, just_before),
            Err(Overloaded)
        );
        assert_eq!(
            lanes.push((Lane::Stranger, Requester::Ours), 7, false, START + WAIT_MAX),
            Ok(())
        );
        assert!(matches!(lanes.next(Crew::Paced, START + WAIT_MAX), WorkerStep::Rest(_)));
        assert_eq!(lanes.waiting(Crew::Paced), 1, "the others have been told");
        assert_eq!(lanes.waiting(Crew::Prompt), WAITING_MAX, "these are not paced");
    }

    #[test]
    fn suspects_wrong_passwords_leave_strangers_their_own_time() {
        let mut lanes = Lanes::new(1);
        lanes.note_waste(Lane::Suspect, START, Duration::from_secs(100));
        lanes.push((Lane::Suspect, Requester::Ours), 1, false, START).unwrap();
        lanes.push((Lane::Stranger, Requester::Ours), 2, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Do(2, Lane::Stranger));
        assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Rest(START + WAIT_MAX));
        // And in the other lane.
        let mut lanes = Lanes::new(1);
        lanes.note_waste(Lane::Stranger, START, Duration::from_secs(100));
        lanes.push((Lane::Suspect, Requester::Ours), 1, false, START).unwrap();
        lanes.push((Lane::Stranger, Requester::Ours), 2, false, START).unwrap();
        assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Do(1, Lane::Suspect));
    }

    fn client(site: u8, last: u8) -> Requester {
        let ip = |last| IpAddr::from([198, 18, site, last]);
        Requester::Client { site: ip(0), network: ip(last) }
    }

    /// Each of a hundred networks guesses as often as it can; another client comes with a correct password each second.
    fn waits_beside_guesses(lane: Lane, hundred: impl Fn(u8) -> Requester) -> Vec<Duration> {
        const MINE: u32 = 1_000_000;
        let mut lanes = Lanes::new(2);
        let (mut now, mut waits, mut since) = (START, Vec::new(), None);
        let mut comes = START + MS * 20_000;
        for step in 0.. {
            if waits.len() == 100 {
                break;
            }
            // As soon as the lane is not full.
            for n in (0..100).filter(|_| step % 50 == 0) {
                while lanes.push((lane, hundred(n)), u32::from(n), false, now).is_ok() {}
            }
            if since.is_none() && now >= comes {
                lanes.push((lane, client(250, 1)), MINE, false, now).expect("others give way");
                since = Some(now);
            }
            match lanes.next(Crew::Paced, now) {
                WorkerStep::Do(job, _) => {
                    let began = now;
                    now = now + MS * 5;
                    if job == MINE {
                        waits.extend(since.take().map(|since| now.since(since)));
                        comes = now + MS * 1_000;
                    } else {
                        lanes.note_waste(lane, began, MS * 5);
                    }
                }
                WorkerStep::Rest(then) => now = then.min(now + MS * 10),
                WorkerStep::Nothing => now = now + MS,
            }
            let lost = since.is_some_and(|since| now.since(since) > WAIT_MAX);
            assert!(!lost, "it was told to come again");
        }
        waits
    }

    #[test]
    fn a_hundred_networks_that_guess_leave_turns_to_others() {
        for lane in [Lane::Stranger, Lane::Suspect] {
            // Networks of one customer: the next turn but one is another customer's.
            let waits = waits_beside_guesses(lane, |n| client(1, n));
            let soon = waits.iter().filter(|wait| wait.as_millis() <= 1_000).count();
            assert!(soon >= 95, "{lane:?}: {waits:?}");
            // A hundred customers: one round of theirs.
            let waits = waits_beside_guesses(lane, |n| client(n, 1));
            assert!(waits.iter().all(|wait| *wait <= WAIT_MAX), "{lane:?}: {waits:?}");
        }
        let mut lanes = Lanes::new(1);
        while lanes.push((Lane::Stranger, client(1, 1)), 0, false, START).is_ok() {}
        let (level, most) = lanes.level(START + SOON);
        assert_eq!((level.used, level.waiting), (WAITING_MAX as u64, WAITING_MAX as u64));
        assert_eq!(most, Some(([198, 18, 1, 0].into(), WAITING_MAX as u64)));
        assert_eq!(lanes.level(START).0.waiting, 0, "it has come just now");
    }

    #[test]
    fn who_fails_waits_with_all_it_asked_for_among_those_who_failed() {
        let mut lanes = Lanes::new(1);
        // Each of a hundred networks guesses for the first time, at three names at once, one nonexistent.
        for round in 0..3 {
            for n in 0..100 {
                let job = (Lane::Stranger, client(n, 1));
                lanes.push(job, u32::from(n), round == 1, START).expect("there is room");
            }
        }
        lanes.push((Lane::Stranger, client(200, 1)), 200, false, START).expect("there is room");
        let mut before = 0;
        while let WorkerStep::Do(job, _) = lanes.next(Crew::Paced, START) {
            if job == 200 {
                break;
            }
            lanes.demote(client(job as u8, 1));
            before += 1;
        }
        // One of each network, and one in three turns of the failed ones.
        assert!(before <= 140, "{before}");
        assert_eq!(lanes.waiting(Crew::Paced), 300 - before, "nothing is lost");
        // Further guesses are paid for by the lane in which they wait.
        let WorkerStep::Do(_, lane) = lanes.next(Crew::Paced, START) else { panic!("they wait") };
        assert_eq!(lane, Lane::Suspect);
        assert!(lanes.strangers.line.queued.is_empty());
        lanes.demote(Requester::Ours);
    }

    #[test]
    fn guesses_at_nobody_take_turns_and_no_places() {
        let mut lanes = Lanes::new(1);
        let idle = (0..1_000)
            .filter(|n| lanes.push((Lane::Stranger, Requester::Ours), *n, true, START).is_ok());
        assert_eq!(idle.count(), WAITING_MAX);
        assert_eq!(lanes.push((Lane::Stranger, Requester::Ours), 2_000, false, START), Ok(()));
        // The first entry is served first: its turn does not show if the user exists.
        assert_eq!(lanes.next(Crew::Paced, START), WorkerStep::Do(0, Lane::Stranger));
    }
}
