//! Carries packets from one device to another, late, and not all of them.

use crate::stand::system::run_words;
use load::random::Random;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most packets that are under way in one direction; what comes beyond is lost, as at a full
/// router. With 25 ms one way and 1,500 bytes each this is a link of 7.8 Gbit/s.
pub(super) const HELD_MAX: usize = 16_384;

/// The largest packet of a device with the usual MTU, with room to spare.
const PACKET_BYTES_MAX: usize = 2_048;

/// Packets that are taken in before those that are due go out.
const TURN_PACKETS_MAX: usize = 512;

/// The least time between two turns: a wake-up for each packet would cost more than the packet. A
/// packet is late by at most two of them.
const TURN: Duration = Duration::from_micros(200);

/// How long a turn waits when nothing happens; then it looks whether to end.
const IDLE: Duration = Duration::from_millis(50);

/// Above all that is measured: a real path doesn't slow down when a machine is busy, and the kernel's
/// own emulation would run before any program too. Real-time, in turns, the lowest of its kind; or,
/// where that is forbidden, as nice as this.
const REAL_TIME: [&str; 3] = ["--rr", "--pid", "1"];
const NICE: i32 = -15;

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Traffic {
    /// Packets that arrived.
    pub carried: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that were lost at random, as asked for.
    pub dropped: u64,
    /// Packets that were lost because a queue was full.
    pub overflowed: u64,
    /// The most by which a packet was later than asked for, in microseconds; 0 if nobody counts.
    pub late_max_us: u64,
    /// Processor time of carrying, in microseconds; 0 if nobody counts. What the receiving end of
    /// TCP does happens within it.
    pub cpu_us: u64,
}

#[derive(Debug, Default)]
struct Counters {
    carried: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    overflowed: AtomicU64,
    late_max_us: AtomicU64,
    cpu_us: AtomicU64,
}

/// One direction of a link, carried by a thread of its own until this value goes.
#[derive(Debug)]
pub(super) struct Carrier {
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Carrier {
    /// Begins to carry `from` one device `to` the other, each packet after `delay`, and loses the
    /// share `loss` of them, chosen by `seed`.
    pub(super) fn start(
        from: Arc<File>,
        to: Arc<File>,
        delay: Duration,
        loss: f64,
        seed: u64,
    ) -> std::io::Result<Carrier> {
        let counters = Arc::new(Counters::default());
        let stop = Arc::new(AtomicBool::new(false));
        let way = PathDirection {
            from,
            to,
            delay,
            // A share of all 64-bit numbers; 1.0 is all but one of them.
            loss: (loss.clamp(0.0, 1.0) * u64::MAX as f64) as u64,
            random: Random::new(seed),
            held: VecDeque::new(),
            buffer: Box::new([0; PACKET_BYTES_MAX]),
            counters: Arc::clone(&counters),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("path".into());
        let thread = thread.spawn(move || way.run(&stopped))?;
        Ok(Carrier { counters, stop, thread: Some(thread) })
    }

    /// What went this way until now.
    pub(super) fn traffic(&self) -> Traffic {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            carried: value(&self.counters.carried),
            bytes: value(&self.counters.bytes),
            dropped: value(&self.counters.dropped),
            overflowed: value(&self.counters.overflowed),
            late_max_us: value(&self.counters.late_max_us),
            cpu_us: value(&self.counters.cpu_us),
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("postrider-lab: the emulated path had ended before its end");
        }
    }
}

/// A packet under way.
struct DelayedPacket {
    /// When it arrives.
    due: Instant,
    packet: Box<[u8]>,
}

/// What the thread of one direction knows.
struct PathDirection {
    from: Arc<File>,
    to: Arc<File>,
    delay: Duration,
    /// A random number below it loses a packet.
    loss: u64,
    random: Random,
    /// In the order of arrival, which the same delay for all makes the order of departure.
    held: VecDeque<DelayedPacket>,
    buffer: Box<[u8; PACKET_BYTES_MAX]>,
    counters: Arc<Counters>,
}

impl PathDirection {
    fn run(mut self, stop: &AtomicBool) {
        come_first();
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let more = self.take(begun);
            self.release();
            let cpu = clock_gettime(ClockId::ThreadCPUTime);
            let cpu_us = cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1_000;
            self.counters.cpu_us.store(u64::try_from(cpu_us).unwrap_or(0), Ordering::Relaxed);
            if !more {
                std::thread::sleep(TURN.saturating_sub(begun.elapsed()));
                self.wait();
            }
        }
    }

    /// Takes in what the kernel has sent; whether there may be more.
    fn take(&mut self, now: Instant) -> bool {
        for _ in 0..TURN_PACKETS_MAX {
            let length = match (&*self.from).read(&mut self.buffer[..]) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nothing there (WouldBlock), or the device is not up yet (EIO).
                Err(_) => return false,
            };
            if self.random.next_u64() < self.loss {
                count(&self.counters.dropped, 1);
            } else if self.held.len() == HELD_MAX {
                count(&self.counters.overflowed, 1);
            } else {
                let packet = self.buffer[..length].into();
                self.held.push_back(DelayedPacket { due: now + self.delay, packet });
            }
        }
        true
    }

    /// Lets arrive what is due.
    fn release(&mut self) {
        while let Some(held) = self.held.front() {
            let now = Instant::now();
            if held.due > now {
                return;
            }
            match (&*self.to).write(&held.packet) {
                Ok(_) => {
                    count(&self.counters.carried, 1);
                    count(&self.counters.bytes, held.packet.len() as u64);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The receiving kernel has no room, or the device is going.
                Err(_) => count(&self.counters.overflowed, 1),
            }
            let late_us = u64::try_from((now - held.due).as_micros()).unwrap_or(u64::MAX);
            self.counters.late_max_us.fetch_max(late_us, Ordering::Relaxed);
            self.held.pop_front();
        }
    }

    /// Waits for a packet, or until one is due.
    fn wait(&self) {
        let until_due = self.held.front().map(|held| held.due - Instant::now());
        let wait = until_due.unwrap_or(IDLE).min(IDLE);
        // Both fit: it is 50 ms at most.
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        // Interrupted is as good as the end of the wait.
        let _ = poll(&mut [PollFd::new(&*self.from, PollFlags::IN)], Some(&timeout));
    }
}

/// Lets the calling thread run before others. Without the right to it the path is less exact, and
/// `late_max_us` tells.
fn come_first() {
    let thread = rustix::thread::gettid();
    let id = thread.as_raw_nonzero().to_string();
    if run_words("chrt", &[&REAL_TIME[..], &[&id]].concat()).is_err() {
        let _ = rustix::process::setpriority_process(Some(thread), NICE);
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
