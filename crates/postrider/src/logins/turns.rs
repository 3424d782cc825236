//! Queues for logins that a server decides. Client networks take turns, and some places are reserved for clients that
//! logged in lately, however many other logins wait.

use crate::mutex::lock;
use lookup::{LookupError, LookupErrorKind};
use mta::line::{FairKey, FairSemaphore, Owner, Permit, SemaphoreLimits, TrustLevel};
use mta::pressure::{Gauge, Level};
use mta::problems::ClockReading;
use mta::seams::LoginTerms;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// One IPv4 /24 or IPv6 /48 of unknown clients may use one part in this number. The same part is reserved for clients
/// that logged in lately.
const PART: u64 = 4;

/// The lines of all servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoginLines(Arc<Mutex<Vec<Weak<FairSemaphore>>>>);

impl LoginLines {
    /// A queue with this number of places.
    pub(super) fn open(&self, max: u64) -> Arc<FairSemaphore> {
        let (owner_max, unproven_max) = (max.div_ceil(PART), max - max / PART);
        let line = FairSemaphore::new(SemaphoreLimits {
            owner_max,
            unproven_max,
            ..SemaphoreLimits::equal(max)
        });
        let mut all = lock(&self.0);
        all.retain(|line| line.strong_count() > 0);
        all.push(Arc::downgrade(&line));
        line
    }

    fn all(&self) -> Vec<Arc<FairSemaphore>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Gauge for LoginLines {
    fn level(&self, now: ClockReading) -> Level {
        let levels = self.all().into_iter().map(|line| Gauge::level(&*line, now));
        levels.fold(Level::default(), Level::and)
    }

    fn most(&self) -> Option<(String, u64)> {
        self.all().into_iter().filter_map(|line| Gauge::most(&*line)).max_by_key(|(_, held)| *held)
    }
}

/// A wait that is shorter is none.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Waits for a place, up to the login's timeout. Returns the time left.
///
/// # Errors
/// Returns an error if too many logins are in progress.
pub(super) async fn place(
    line: &Arc<FairSemaphore>,
    terms: LoginTerms,
) -> Result<(Permit, Duration), LookupError> {
    let began = Instant::now();
    let client = terms.remote.ip();
    let who = FairKey::new(0, 0).of(Owner::network(client)).within(Owner::site(client));
    let standing = if terms.is_known { TrustLevel::Good } else { TrustLevel::Unknown };
    let place = timeout(terms.patience, line.join(who, standing, 1)).await;
    let busy = |_| LookupError::new(LookupErrorKind::Busy, "too many logins in progress");
    let (place, waited) = (place.map_err(busy)?, began.elapsed());
    let waited = if waited < AT_ONCE { Duration::ZERO } else { waited };
    Ok((place, terms.patience.saturating_sub(waited)))
}

#[cfg(test)]
mod tests {
    use super::super::servers::LoginServers;
    use super::super::{directory, dovecot, introspection};
    use super::*;
    use crate::pool_measure::{PoolGauge, SOON_MS, healthy, hostile, millis, play};
    use mta::pools::PoolId;
    use std::net::{IpAddr, SocketAddr};

    /// Logins that each network of the strangers has under way, as long as there is a place.
    const AT_ONCE: u16 = 40;

    fn terms(ip: IpAddr, is_known: bool) -> LoginTerms {
        let remote = SocketAddr::new(ip, 9);
        LoginTerms { remote, local: None, patience: Duration::from_secs(20), is_known }
    }

    /// A hundred networks with as many logins as they like, each of which a server answers after so long.
    fn press(line: &Arc<FairSemaphore>, answered_after: Duration) {
        for n in 0..100 * AT_ONCE {
            let line = Arc::clone(line);
            tokio::task::spawn_local(async move {
                loop {
                    let place = place(&line, terms(hostile(n % 100), false)).await;
                    let Ok(_place) = place else { continue };
                    tokio::time::sleep(answered_after).await;
                }
            });
        }
    }

    #[test]
    fn a_hundred_networks_leave_turns_to_others() {
        // Dovecot answers wrong passwords after two seconds, and right ones at once; the others all alike.
        let dovecot = (dovecot::LOGINS_MAX, Duration::from_secs(2), Duration::from_millis(5));
        let alike = Duration::from_millis(250);
        let directory = (directory::LOGINS_MAX, alike, alike);
        let oauth = (introspection::QUESTIONS_MAX, alike, alike);
        for (max, wrong, right) in [dovecot, directory, oauth] {
            play(|| async move {
                let (servers, measured) = (LoginServers::default(), PoolGauge::new(PoolId::Logins));
                measured.pools.keep(PoolId::Logins, servers.gauge());
                let line = servers.lines.open(max);
                press(&line, wrong);
                tokio::time::sleep(Duration::from_millis(500)).await;
                for is_known in [true, false] {
                    let ask = async |n| {
                        let login = async {
                            let terms = terms(healthy(n), is_known);
                            let _place = place(&line, terms).await.expect("none is refused");
                            tokio::time::sleep(right).await;
                        };
                        let ((), waited) = millis(login).await;
                        tokio::time::sleep(Duration::from_millis(600)).await;
                        waited
                    };
                    measured.hundred(SOON_MS, ask).await;
                }
                let text = measured.shown().expect("they wait still").text;
                assert!(text.contains(" holds most: ") && !text.contains("203.0."), "{text}");
            });
        }
    }
}
