//! May this client send to this recipient? Decided at RCPT.

use super::{Config, Listener};
use mail::{Mailbox, Reply};
use std::net::IpAddr;

/// The answer to RCPT, with its reason. Routes are indices in [`Config::routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accepted: a route names the domain, so its mail is ours to take from everybody.
    Named {
        /// The route.
        route: usize,
    },
    /// Accepted: everything else stays on this server, so nothing is relayed.
    Local {
        /// The catch-all route.
        route: usize,
    },
    /// Accepted: the client may send to any domain.
    Relay {
        /// The catch-all route.
        route: usize,
        /// Index in [`Listener::relay_from`].
        network: usize,
    },
    /// Accepted, always (RFC 5321 §4.5.1): the recipient to be kept is
    /// [`super::Postmaster::address`], in place of what the client gave.
    Postmaster {
        /// The route.
        route: usize,
    },
    /// Refused: only the catch-all over the network takes it, and the client may not relay.
    Denied {
        /// The catch-all route.
        route: usize,
    },
    /// Refused: no route takes the domain. `may_relay`: this client could have used one.
    NoRoute {
        /// The client is in `relay_from`.
        may_relay: bool,
    },
}

impl Decision {
    /// Whether the recipient is accepted.
    #[must_use]
    pub fn is_accepted(self) -> bool {
        !matches!(self, Decision::Denied { .. } | Decision::NoRoute { .. })
    }

    /// The route it takes or would take.
    #[must_use]
    pub fn route(self) -> Option<usize> {
        match self {
            Decision::Named { route }
            | Decision::Local { route }
            | Decision::Relay { route, .. }
            | Decision::Postmaster { route }
            | Decision::Denied { route } => Some(route),
            Decision::NoRoute { .. } => None,
        }
    }

    /// The reply that refuses; `None` when it is accepted.
    #[must_use]
    pub fn refusal(self) -> Option<Reply> {
        match self {
            Decision::Denied { .. } | Decision::NoRoute { may_relay: false } => {
                Some(Reply::new(550, (5, 7, 1), "relay access denied"))
            }
            Decision::NoRoute { may_relay: true } => {
                Some(Reply::new(550, (5, 1, 2), "no route to this domain"))
            }
            _ => None,
        }
    }
}

impl Config {
    /// May a client of this listener send to this recipient? `client` is `None` when it is not
    /// known: it then is a stranger.
    #[must_use]
    pub fn decide(&self, listener: &Listener, client: Option<IpAddr>, rcpt: &Mailbox) -> Decision {
        if rcpt.domain_str().is_empty() {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        if let Some(route) = self.table.named(&rcpt.domain()) {
            return Decision::Named { route };
        }
        let catch_all = self.table.catch_all();
        let local = |route: usize| self.routes.get(route).is_some_and(|r| r.channel.is_local());
        if let Some(route) = catch_all.filter(|route| local(*route)) {
            return Decision::Local { route };
        }
        // Our own name is always one of the domains we answer for.
        if rcpt.domain_str().eq_ignore_ascii_case(self.hostname.as_str())
            && rcpt.local().eq_ignore_ascii_case("postmaster")
        {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        let network = client.and_then(|client| listener.relay_network(client));
        match (catch_all, network) {
            (Some(route), Some((network, _))) => Decision::Relay { route, network },
            (Some(route), None) => Decision::Denied { route },
            (None, network) => Decision::NoRoute { may_relay: network.is_some() },
        }
    }
}
