//! Asking the DNS, in turn: all shards together have so many lookups under way, and the others wait
//! in [`Shared::lookups`](crate::shared::Shared::lookups).

use crate::lack;
use crate::line::{Standing, Who};
use crate::seams::{Dns, DnsError, HostSecurity, Mx, Time, Vouched, World};
use crate::services::Services;
use auth::tlsa::Tlsa;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Who asks, for the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) who: Who,
    pub(crate) standing: Standing,
}

/// The DNS for one who asks in turn. It never answers [`DnsError::Lack`].
pub(crate) struct InTurn<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) asker: Asker,
}

impl<W: World> Dns for InTurn<W> {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().mx(domain)).await
    }

    fn mx_lasts(&self, domain: &str) -> Duration {
        self.services.world.dns().mx_lasts(domain)
    }

    fn forget(&self, domain: &str) {
        self.services.world.dns().forget(domain);
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().addresses(host)).await
    }

    async fn vouched_mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().vouched_mx(domain)).await
    }

    async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().host_security(host)).await
    }

    async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().tlsa(name)).await
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        let services = &self.services;
        look_up(services, self.asker, || services.world.dns().txt(name)).await
    }
}

async fn look_up<W: World, T, F>(
    services: &Services<W>,
    asker: Asker,
    ask: impl Fn() -> F,
) -> Result<T, DnsError>
where
    F: Future<Output = Result<T, DnsError>>,
{
    loop {
        let permit = services.shared.lookups.join(asker.who, asker.standing, 1).await;
        let began = services.now();
        let answer = ask().await;
        drop(permit);
        if matches!(answer, Err(DnsError::Lack)) {
            let again = services.now() + lack::WAIT;
            services.world.time().sleep_until(again).await;
            continue;
        }
        services.metrics.lookups.inc();
        services.metrics.lookup_time.observe(services.now().since(began));
        note_answer(services, answer.as_ref().err());
        return answer;
    }
}

/// Whether there was an answer, for the one line that says that the name servers have gone.
fn note_answer<W: World>(services: &Services<W>, error: Option<&DnsError>) {
    let servers = &services.shared.name_servers;
    if let Some(DnsError::Transient(reason)) = error {
        services.metrics.lookups_failed.inc();
        if let Some(count) = servers.unanswered(reason) {
            let text = format_args!("no answer to the last {count} lookups reason={reason:?}");
            services.console.warn("name_servers", text);
        }
    } else if servers.answered() {
        services.console.warn("name_servers", format_args!("lookups are answered again"));
    }
}
