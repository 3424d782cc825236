//! Fair queueing of DNS lookups: all shards share a limit of concurrent lookups
//! ([`SharedState::lookups`](crate::shared::SharedState::lookups)). Cached answers are returned at once.

use crate::known_names::LookupHash;
use crate::lack;
use crate::line::{FairKey, Owner, Permit, TrustLevel};
use crate::seams::{Dns, DnsError, HostSecurity, Mx, Time, Vouched, World};
use crate::services::Services;
use auth::tlsa::Tlsa;
use mail::Mono;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Timeout for all lookups of one resolution or connection attempt together.
const ASK_FOR: Duration = Duration::from_secs(30);

/// The requester, for fair queueing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsRequester {
    pub(crate) who: FairKey,
    /// The tenant of the mail, if any.
    pub(crate) tenant: Option<Owner>,
    /// Its last attempt failed.
    pub(crate) in_trouble: bool,
}

/// The DNS with fair queueing. Never returns [`DnsError::Lack`].
pub(crate) struct InTurn<W: World> {
    services: Rc<Services<W>>,
    asker: DnsRequester,
    /// The deadline, set at the first lookup.
    until: Cell<Option<Mono>>,
}

impl<W: World> InTurn<W> {
    pub(crate) fn new(services: &Rc<Services<W>>, asker: DnsRequester) -> InTurn<W> {
        InTurn { services: Rc::clone(services), asker, until: Cell::new(None) }
    }
}

impl<W: World> Dns for InTurn<W> {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        let dns = self.services.world.dns();
        self.look_up(("mx", domain), || dns.mx_at_hand(domain), || dns.mx(domain)).await
    }

    fn mx_lasts(&self, domain: &str) -> Duration {
        self.services.world.dns().mx_lasts(domain)
    }

    fn forget(&self, domain: &str) {
        self.services.world.dns().forget(domain);
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let dns = self.services.world.dns();
        let at_hand = || dns.addresses_at_hand(host);
        self.look_up(("addresses", host), at_hand, || dns.addresses(host)).await
    }

    async fn vouched_mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        let dns = self.services.world.dns();
        self.look_up(("vouched mx", domain), || None, || dns.vouched_mx(domain)).await
    }

    async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
        let dns = self.services.world.dns();
        self.look_up(("host security", host), || None, || dns.host_security(host)).await
    }

    async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        let dns = self.services.world.dns();
        self.look_up(("tlsa", name), || None, || dns.tlsa(name)).await
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        let dns = self.services.world.dns();
        self.look_up(("txt", name), || dns.txt_at_hand(name), || dns.txt(name)).await
    }
}

impl<W: World> InTurn<W> {
    /// Returns the cached answer, or queues and looks up.
    async fn look_up<T, F>(
        &self,
        (kind, name): (&'static str, &str),
        at_hand: impl Fn() -> Option<Result<T, DnsError>>,
        ask: impl Fn() -> F,
    ) -> Result<T, DnsError>
    where
        F: Future<Output = Result<T, DnsError>>,
    {
        let (services, names) = (&self.services, &self.services.shared.known_names);
        let (question, zone) = (LookupHash::new(kind, name), Owner::zone(name));
        let mut permit: Option<Permit> = None;
        loop {
            if let Some(answer) = at_hand() {
                return answer;
            }
            // A lookup that failed recently is not repeated at once (RFC 9520 §3.2).
            if let Some(why) = names.failure(question, services.now()) {
                return Err(DnsError::Transient(why));
            }
            // Lookups by other requesters may have changed the standing during the wait.
            let standing = self.standing(question, zone);
            let Some(taken) = permit.take().filter(|taken| taken.standing() >= standing) else {
                permit = Some(self.place(zone, standing).await);
                continue;
            };
            let began = services.now();
            let answer = self.within(ask()).await;
            drop(taken);
            if matches!(answer, Err(DnsError::Lack)) {
                services.world.time().sleep_until(services.now() + lack::WAIT).await;
                continue;
            }
            services.metrics.lookups.inc();
            services.metrics.lookup_time.observe(services.now().since(began));
            self.note_answer((question, zone), answer.as_ref().err(), began);
            return answer;
        }
    }

    fn standing(&self, question: LookupHash, zone: Owner) -> TrustLevel {
        #[cfg(feature = "planted")]
        if self.services.has_planted(crate::planted::Planted::OneLine) {
            return TrustLevel::Good;
        }
        let known = self.services.shared.known_names.standing(question, zone, self.services.now());
        match known {
            TrustLevel::Unknown if self.asker.in_trouble => TrustLevel::Doubtful,
            known => known,
        }
    }

    async fn place(&self, zone: Owner, standing: TrustLevel) -> Permit {
        #[cfg(feature = "planted")]
        if self.services.has_planted(crate::planted::Planted::OneLine) {
            let all = FairKey::other(u16::MAX, 0);
            return self.services.shared.lookups.join(all, standing, 1).await;
        }
        let who = self.asker.who.of(zone);
        let who = self.asker.tenant.map_or(who, |tenant| who.within(tenant));
        self.services.shared.lookups.join(who, standing, 1).await
    }

    /// Waits for the answer until the deadline.
    async fn within<T>(
        &self,
        asking: impl Future<Output = Result<T, DnsError>>,
    ) -> Result<T, DnsError> {
        let until = self.until.get().unwrap_or(self.services.now() + ASK_FOR);
        self.until.set(Some(until));
        tokio::select! {
            biased;
            answer = asking => answer,
            () = self.services.world.time().sleep_until(until) => {
                Err(DnsError::Transient("DNS lookups timed out".to_owned()))
            }
        }
    }

    /// Notes the result for later lookups, and logs when the name servers stop or resume answering.
    fn note_answer(&self, of: (LookupHash, Owner), error: Option<&DnsError>, began: Mono) {
        let services = &self.services;
        let (servers, names) = (&services.shared.name_servers, &services.shared.known_names);
        let now = services.now();
        if let Some(DnsError::Transient(reason)) = error {
            services.metrics.lookups_failed.inc();
            names.unanswered(of.0, of.1, (now, now.since(began)), reason);
            if let Some(count) = servers.unanswered(of.1, reason) {
                let text = format_args!("lookups fail count={count} reason={reason:?}");
                services.console.warn("name_servers", text);
            }
        } else {
            names.answered(of.0, of.1, now);
            if servers.answered() {
                services.console.warn("name_servers", format_args!("DNS resolver recovered"));
            }
        }
    }
}
