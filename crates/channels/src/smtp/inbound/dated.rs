//! What sessions are told, with what of it hangs on the time of day.

use mail::Wall;
use smtp::server::ServerConfig;
use smtp::wishes::HoldMax;
use std::cell::RefCell;
use std::sync::Arc;

/// For so long the same is told.
const HOUR_MS: u64 = 3_600_000;

/// The settings of sessions, made anew every hour where they name a time of day.
#[derive(Debug)]
pub(super) struct Dated {
    undated: Arc<ServerConfig>,
    /// The hour, and what is told in it.
    last: RefCell<(u64, Arc<ServerConfig>)>,
}

impl Dated {
    pub(super) fn new(server: ServerConfig) -> Dated {
        let undated = Arc::new(server);
        Dated { last: RefCell::new((0, Arc::clone(&undated))), undated }
    }

    /// This server's name.
    pub(super) fn hostname(&self) -> &str {
        &self.undated.hostname
    }

    /// What is told now.
    pub(super) fn at(&self, now: Wall) -> Arc<ServerConfig> {
        let Some(HoldMax { interval, .. }) = self.undated.future_release else {
            return Arc::clone(&self.undated);
        };
        let hour = now.0 / HOUR_MS;
        let mut last = self.last.borrow_mut();
        if last.0 != hour {
            let until = Wall(hour * HOUR_MS).after(interval);
            let future_release = Some(HoldMax { interval, until });
            let server = ServerConfig { future_release, ..ServerConfig::clone(&self.undated) };
            *last = (hour, Arc::new(server));
        }
        Arc::clone(&last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_end_moves_with_the_hours() {
        let interval = Duration::from_secs(60);
        let future_release = Some(HoldMax { interval, until: Wall(0) });
        let dated = Dated::new(ServerConfig { future_release, ..ServerConfig::default() });
        let until = |now| dated.at(Wall(now)).future_release.map(|max| max.until.0);
        assert_eq!(until(HOUR_MS), Some(HOUR_MS + 60_000));
        assert_eq!(until(2 * HOUR_MS - 1), Some(HOUR_MS + 60_000));
        assert_eq!(until(2 * HOUR_MS), Some(2 * HOUR_MS + 60_000));
        let plain = Dated::new(ServerConfig::default());
        assert!(Arc::ptr_eq(&plain.at(Wall(0)), &plain.at(Wall(9 * HOUR_MS))));
    }
}
