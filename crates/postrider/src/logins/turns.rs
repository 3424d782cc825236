//! Lines for logins that a server decides: client networks take turns, and clients that were a user lately find some
//! left, however many others wait for its answers.

use crate::mutex::lock;
use lookup::{Trouble, TroubleKind};
use mta::line::{Line, Owner, Parts, Permit, Standing, Who};
use mta::pressure::{Gauge, Level};
use mta::problems::Moment;
use mta::seams::LoginTerms;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// One part in so many is for one IPv4 /24 or IPv6 /48 of strangers, and is left for clients that were a user lately.
const PART: u64 = 4;

/// The lines of all servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoginLines(Arc<Mutex<Vec<Weak<Line>>>>);

impl LoginLines {
    /// A line for so many at once.
    pub(super) fn open(&self, max: u64) -> Arc<Line> {
        let (owner_max, unproven_max) = (max.div_ceil(PART), max - max / PART);
        let line = Line::new(Parts { owner_max, unproven_max, ..Parts::equal(max) });
        let mut all = lock(&self.0);
        all.retain(|line| line.strong_count() > 0);
        all.push(Arc::downgrade(&line));
        line
    }

    fn all(&self) -> Vec<Arc<Line>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Gauge for LoginLines {
    fn level(&self, now: Moment) -> Level {
        let levels = self.all().into_iter().map(|line| Gauge::level(&*line, now));
        levels.fold(Level::default(), Level::and)
    }

    fn most(&self) -> Option<(String, u64)> {
        self.all().into_iter().filter_map(|line| Gauge::most(&*line)).max_by_key(|(_, held)| *held)
    }
}

/// A wait that is shorter is none.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Waits for a place, as long as the login has patience; how much is left of that.
///
/// # Errors
/// Too many are under way.
pub(super) async fn place(
    line: &Arc<Line>,
    terms: LoginTerms,
) -> Result<(Permit, Duration), Trouble> {
    let began = Instant::now();
    let client = terms.remote.ip();
    let who = Who::new(0, 0).of(Owner::network(client)).within(Owner::site(client));
    let standing = if terms.is_known { Standing::Good } else { Standing::Unknown };
    let place = timeout(terms.patience, line.join(who, standing, 1)).await;
    let busy = |_| Trouble::new(TroubleKind::Busy, "too many logins are under way");
    let (place, waited) = (place.map_err(busy)?, began.elapsed());
    let waited = if waited < AT_ONCE { Duration::ZERO } else { waited };
    Ok((place, terms.patience.saturating_sub(waited)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    fn terms(ip: IpAddr, is_known: bool) -> LoginTerms {
        let remote = SocketAddr::new(ip, 9);
        LoginTerms { remote, local: None, patience: Duration::from_secs(20), is_known }
    }

    /// A hundred networks with as many logins as they like, each of which a server answers after two seconds, as
    /// Dovecot answers wrong passwords.
    fn press(line: &Arc<Line>, networks: u8) {
        for n in 0..u16::from(networks) * 12 {
            let (line, ip) = (Arc::clone(line), Ipv4Addr::new(198, 18, (n % 100) as u8, 1));
            tokio::task::spawn_local(async move {
                loop {
                    let Ok(_place) = place(&line, terms(ip.into(), false)).await else { continue };
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
            });
        }
    }

    /// How long each of a hundred logins of a client waits.
    async fn waits_of(line: &Arc<Line>, is_known: bool) -> Vec<Duration> {
        let mut waits = Vec::new();
        for n in 0..100 {
            let (began, ip) = (tokio::time::Instant::now(), [203, 0, 113, n].into());
            let place = place(line, terms(ip, is_known)).await.expect("none is refused");
            waits.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(place);
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        waits
    }

    #[test]
    fn a_hundred_networks_leave_turns_to_others() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let lines = LoginLines::default();
            let line = lines.open(256);
            press(&line, 100);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let level = Gauge::level(&lines, Moment::default());
            assert_eq!((level.used, level.max, level.waiting), (100, 256, 1_100));
            assert!(Gauge::most(&lines).is_some_and(|(who, _)| who.starts_with("198.18.")));
            for is_known in [true, false] {
                let waits = waits_of(&line, is_known).await;
                let soon = waits.iter().filter(|wait| wait.as_millis() <= 1_000).count();
                // A known one at once; another as soon as anybody has an answer.
                let most = if is_known { 0 } else { 2 };
                assert!(waits.iter().all(|wait| wait.as_secs() <= most), "{waits:?}");
                assert!(!is_known || soon == 100, "{waits:?}");
            }
        });
    }
}
