//! Asking the DNS, in turn: all shards together have so many lookups under way, and the others wait
//! in [`Shared::lookups`](crate::shard::Shared::lookups).

use crate::lack;
use crate::line::{Line, Parts, Standing, Who};
use crate::seams::{Dns, DnsError, Mx, Time, World};
use crate::shard::Shard;
use std::net::IpAddr;
use std::sync::Arc;

/// Lookups at once: all, and the half that domains may have whose last lookup was in vain, so
/// that a dead zone, however many domains it has, keeps nobody else from being found.
#[must_use]
pub(crate) fn parts(lookups_max: u32) -> Parts {
    let max = u64::from(lookups_max.max(1));
    Parts { max, unproven_max: max, doubtful_max: max.div_ceil(2) }
}

/// Who asks, for the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) who: Who,
    pub(crate) standing: Standing,
}

impl<W: World> Shard<W> {
    /// The MX records of an ASCII domain.
    ///
    /// # Errors
    /// What the DNS says; never [`DnsError::Lack`].
    pub(crate) async fn look_up_mx(&self, asker: Asker, domain: &str) -> Result<Vec<Mx>, DnsError> {
        self.look_up(asker, || self.world.dns().mx(domain)).await
    }

    /// The addresses of an ASCII host name.
    ///
    /// # Errors
    /// What the DNS says; never [`DnsError::Lack`].
    pub(crate) async fn look_up_addresses(
        &self,
        asker: Asker,
        host: &str,
    ) -> Result<Vec<IpAddr>, DnsError> {
        self.look_up(asker, || self.world.dns().addresses(host)).await
    }

    async fn look_up<T, F>(&self, asker: Asker, ask: impl Fn() -> F) -> Result<T, DnsError>
    where
        F: Future<Output = Result<T, DnsError>>,
    {
        let line: &Arc<Line> = &self.shared.lookups;
        loop {
            let permit = line.join(asker.who, asker.standing, 1).await;
            let began = self.now();
            let answer = ask().await;
            drop(permit);
            if matches!(answer, Err(DnsError::Lack)) {
                let again = self.now() + lack::WAIT;
                self.world.time().sleep_until(again).await;
                continue;
            }
            self.metrics.lookups.inc();
            self.metrics.lookup_time.observe(self.now().since(began));
            self.note_answer(answer.as_ref().err());
            return answer;
        }
    }

    /// Whether there was an answer, for the one line that says that the name servers have gone.
    fn note_answer(&self, error: Option<&DnsError>) {
        let servers = &self.shared.name_servers;
        if let Some(DnsError::Transient(reason)) = error {
            self.metrics.lookups_failed.inc();
            if let Some(count) = servers.unanswered(reason) {
                let text = format_args!("no answer to the last {count} lookups reason={reason:?}");
                self.console.warn("name_servers", text);
            }
        } else if servers.answered() {
            self.console.warn("name_servers", format_args!("lookups are answered again"));
        }
    }
}
