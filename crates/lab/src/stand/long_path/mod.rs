//! A long path on one machine: packets to the far end take their time, and some get lost.
//!
//! The far end is a network namespace. Between it and this one lies the kernel's own emulation
//! (`netem`) or, where the kernel lacks it, a pair of TUN devices whose packets we carry. Either
//! way the TCP at both ends is the kernel's, so windows, retransmissions and congestion control are
//! those of a real path.

mod carrier;
mod link;
mod measure;
mod network_namespace;
mod tun;

pub use carrier::Traffic;
pub use measure::{PathOptions, run};

use super::error::{self, Error};
use link::Link;
use network_namespace::{NetworkNamespace, ip, remove_stale};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What makes a path long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathShape {
    /// Round trip time.
    pub rtt: Duration,
    /// Share of the packets that are lost, in each direction.
    pub loss: f64,
}

/// The same, and what decides which packets are lost.
#[derive(Clone, Copy, Debug)]
struct Settings {
    shape: PathShape,
    seed: u64,
}

/// How well a path did.
#[derive(Clone, Debug)]
pub(crate) struct Quality {
    /// What was measured over it is to be read with care.
    pub(crate) is_doubtful: bool,
    /// What was carried and lost, in a sentence.
    pub(crate) text: String,
}

/// Why there can be no emulated path here: what is missing, in one sentence.
#[derive(Clone, Debug)]
pub struct Unavailable(String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// How packets are delayed and lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PathEmulation {
    /// By the kernel's queueing discipline of that name, which draws its losses itself.
    Netem,
    /// By two threads of ours between two TUN devices; the seed decides what is lost.
    Tun,
}

impl PathEmulation {
    /// `netem` or `tun`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PathEmulation::Netem => "netem",
            PathEmulation::Tun => "tun",
        }
    }
}

/// A path to a network namespace. When it goes, so do the programs at its far end, its devices and
/// the namespace.
#[derive(Debug)]
pub struct LongPath {
    kind: PathEmulation,
    near: Ipv4Addr,
    far: Ipv4Addr,
    // The devices go first: with the namespace the kernel would take them behind our back.
    link: Link,
    namespace: NetworkNamespace,
}

/// A packet that comes later than this beyond its time makes a measurement doubtful.
const LATE_MAX_US: u64 = 10_000;

/// Numbers the paths of this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl LongPath {
    /// Makes a path of this shape; `seed` decides what is lost. What a killed run left behind is
    /// removed first.
    pub fn start(shape: PathShape, seed: u64) -> Result<LongPath, Unavailable> {
        let settings = Settings { shape, seed };
        LongPath::of_kind(PathEmulation::Netem, &settings).or_else(|netem| {
            LongPath::of_kind(PathEmulation::Tun, &settings).map_err(|tun| {
                if netem.0 == tun.0 { tun } else { Unavailable(format!("{netem}; {tun}")) }
            })
        })
    }

    fn of_kind(kind: PathEmulation, settings: &Settings) -> Result<LongPath, Unavailable> {
        check_machine()?;
        LongPath::make(kind, settings)
            .map_err(|error| Unavailable(format!("no path by {}: {error}", kind.name())))
    }

    fn make(kind: PathEmulation, settings: &Settings) -> error::Result<LongPath> {
        remove_stale()?;
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let routes = ip(&["-j", "-4", "route", "show", "table", "all"])?;
        let routes = serde_json::from_str(&routes);
        let routes = routes.map_err(|error| Error::Output("ip route".to_owned(), error))?;
        // Two processes that choose at the same time should not choose the same.
        let start = std::process::id().wrapping_mul(97).wrapping_add(n);
        let free = link::choose(&link::taken(&routes), start);
        let all_used = || Error::Missing("all networks of 198.18.0.0/15 are in use".to_owned());
        let (near, far) = free.ok_or_else(all_used)?;
        let namespace = NetworkNamespace::new(n)?;
        let link = match kind {
            PathEmulation::Netem => Link::netem(&namespace, settings, (near, far))?,
            PathEmulation::Tun => Link::tun(&namespace, settings, (near, far))?,
        };
        Ok(LongPath { kind, near, far, link, namespace })
    }

    /// How packets are delayed and lost.
    #[must_use]
    pub fn kind(&self) -> PathEmulation {
        self.kind
    }

    /// The address of this end: where the far end finds this one.
    #[must_use]
    pub fn near(&self) -> Ipv4Addr {
        self.near
    }

    /// The address of the far end: what a client here connects to.
    #[must_use]
    pub fn far(&self) -> Ipv4Addr {
        self.far
    }

    /// A command that will run at the far end. The process that it starts is `program` itself.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }

    /// What went out to the far end, and what came back.
    pub fn traffic(&self) -> std::io::Result<(Traffic, Traffic)> {
        self.link.traffic(&self.namespace).map_err(std::io::Error::other)
    }

    /// How well it did, for a report.
    pub(crate) fn quality(&self) -> std::io::Result<Quality> {
        let (out, back) = self.traffic()?;
        let late_max_us = out.late_max_us.max(back.late_max_us);
        let overflowed = out.overflowed + back.overflowed;
        let is_doubtful = late_max_us > LATE_MAX_US || overflowed > 0;
        let mut text = format!(
            "the long path was emulated by {}: {} packets out and {} back arrived, {} and {} were \
             dropped by the loss rate, {overflowed} by a full queue",
            self.kind.name(),
            out.carried,
            back.carried,
            out.dropped,
            back.dropped,
        );
        // The kernel doesn't say how punctual it was.
        if self.kind == PathEmulation::Tun {
            let late_ms = late_max_us as f64 / 1e3;
            let cpu_seconds = (out.cpu_us + back.cpu_us) as f64 / 1e6;
            text += &format!(
                "; the latest came {late_ms:.1} ms after its time; carrying took {cpu_seconds:.1} s \
                 of CPU"
            );
        }
        Ok(Quality { is_doubtful, text })
    }

    /// Runs `work` in a thread at the far end; sockets that it makes are sockets there.
    pub fn at_far_end<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.namespace.enter().map(|()| work()));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// What needs no try.
fn check_machine() -> Result<(), Unavailable> {
    let missing = |what: &str| Err(Unavailable(format!("an emulated path needs {what}")));
    if !cfg!(target_os = "linux") {
        return missing("Linux, for network namespaces");
    }
    if !rustix::process::geteuid().is_root() {
        return missing("root, to make network namespaces and devices");
    }
    if let Err(error) = ip(&["-V"]) {
        return missing(&format!("the command ip of iproute2 ({error})"));
    }
    if !Path::new("/proc/self/ns/net").exists() {
        return missing("a kernel with network namespaces");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::measure::{accept, connect, joined, listen, round_trips};
    use super::network_namespace::{NetworkNamespace, ip, remove_stale};
    use super::{LongPath, PathEmulation, PathShape, Settings};
    use std::io::{self, Read, Write};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    const RTT: Duration = Duration::from_millis(50);

    /// Whoever makes a path removes what is stale: not while a test makes something stale.
    static REMOVAL: Mutex<()> = Mutex::new(());

    fn removal() -> MutexGuard<'static, ()> {
        REMOVAL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path of each kind that this machine has.
    fn paths(loss: f64) -> Vec<LongPath> {
        let settings = Settings { shape: PathShape { rtt: RTT, loss }, seed: 7 };
        let _alone = removal();
        let kinds = [PathEmulation::Netem, PathEmulation::Tun].into_iter();
        let paths = kinds.filter_map(|kind| match LongPath::of_kind(kind, &settings) {
            Ok(path) => Some(path),
            Err(unavailable) => {
                skips::machine(skips::Machine::Path, &unavailable.to_string());
                None
            }
        });
        paths.collect()
    }

    #[test]
    fn a_round_trip_takes_its_time() {
        for path in paths(0.0) {
            let times = round_trips(&path, 10).expect("exchanges");
            // The emulator's own delay; a busy machine adds to some of them, not to all.
            assert!(times[0] >= RTT, "{:?}: {times:?}", path.kind());
            assert!(times[0] < Duration::from_millis(80), "{:?}: {times:?}", path.kind());
        }
    }

    #[test]
    fn what_is_lost_is_sent_again() {
        const SEGMENTS: usize = 1_000;
        // The most that a packet of 1,500 bytes has room for.
        const SEGMENT_BYTES: usize = 1_460;
        for path in paths(0.05) {
            let (listener, address) = listen(&path).expect("a listener");
            let reader = std::thread::spawn(move || -> io::Result<Vec<u8>> {
                let mut got = Vec::new();
                accept(&listener)?.read_to_end(&mut got)?;
                Ok(got)
            });
            let mut random = load::random::Random::new(3);
            let sent: Vec<u8> =
                (0..SEGMENTS * SEGMENT_BYTES).map(|_| random.next_u64() as u8).collect();
            let mut peer = connect(address).expect("a connection");
            peer.write_all(&sent).expect("written");
            drop(peer);
            assert!(joined(reader).expect("read") == sent, "what arrived is not what was sent");
            let (out, back) = path.traffic().expect("counters");
            assert!(out.dropped > 0 && out.carried as usize >= SEGMENTS, "{out:?}");
            assert!(out.bytes as usize > sent.len() && back.carried > 0, "{out:?} {back:?}");
        }
    }

    #[test]
    fn nothing_stays_behind() {
        for path in paths(0.0) {
            let name = path.namespace.name().to_owned();
            let mut child = path
                .command("sleep".as_ref())
                .arg("600")
                .spawn()
                .expect("a program at the far end");
            while !ip(&["netns", "pids", &name]).expect("pids").contains(&child.id().to_string()) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(ip(&["-j", "link"]).expect("devices").contains(&name));
            drop(path);
            let status = child.wait().expect("it has ended");
            assert!(!status.success(), "killed: {status}");
            // A TUN device goes with the last of its files, and a program that another test starts
            // has them too until it runs.
            let begun = Instant::now();
            while ip(&["-j", "link"]).expect("devices").contains(&name) {
                assert!(begun.elapsed() < Duration::from_secs(10), "{name} is still there");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(!ip(&["-j", "netns"]).expect("namespaces").contains(&name));
        }
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        // Beyond the kernel's largest process id (proc_sys_kernel(5), pid_max): surely dead.
        const STALE: &str = "prl4194305-0";
        if let Err(unavailable) = super::check_machine() {
            return skips::machine(skips::Machine::Path, &unavailable.to_string());
        }
        let _alone = removal();
        let own = NetworkNamespace::new(9_999).expect("a namespace");
        ip(&["netns", "add", STALE]).expect("a namespace");
        remove_stale().expect("removed");
        let names = ip(&["-j", "netns"]).expect("namespaces");
        assert!(!names.contains(STALE) && names.contains(own.name()), "{names}");
    }
}
