//! May this client send to this recipient? Decided at RCPT.

use super::{Config, Listener, Route};
use mail::{Mailbox, Refusal};
use std::net::IpAddr;
use std::sync::Arc;

/// The answer to RCPT, with its reason. Routes are indices in [`Config::routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accepted: a route names the domain, so its mail is ours to take from everybody.
    Named {
        /// The route.
        route: usize,
    },
    /// Accepted: the local catch-all takes it, so no mail is relayed.
    Local {
        /// The catch-all route.
        route: usize,
    },
    /// Accepted: the client may send to any domain.
    Relay {
        /// The catch-all route.
        route: usize,
        /// Index in [`Listener::relay_from`]; `None`: it has logged in, or has a certificate.
        network: Option<usize>,
    },
    /// Accepted, always (RFC 5321 §4.5.1): the recipient is stored as [`super::Postmaster::address`], in place of the
    /// one given by the client.
    Postmaster {
        /// The route.
        route: usize,
    },
    /// Refused: only the catch-all over the network takes it, and the client may not relay.
    Denied {
        /// The catch-all route.
        route: usize,
    },
    /// Refused: the local part contains a route beyond the next hop.
    Routed {
        /// The route.
        route: usize,
    },
    /// Refused: the route's channel can't have this recipient, or not from this client.
    Unfit {
        /// The route.
        route: usize,
        /// As it is answered.
        why: &'static Refusal,
    },
    /// Refused: an address literal of this server, which has no mailboxes but the postmaster's (RFC 5321 §4.1.3, §4.5.1).
    OwnLiteral,
    /// Refused: no route takes the domain. `may_relay`: this client could have used one.
    NoRoute {
        /// The client is in `relay_from`, has logged in, or has a certificate.
        may_relay: bool,
    },
}

impl Decision {
    /// Returns true if the recipient is accepted.
    #[must_use]
    pub fn is_accepted(self) -> bool {
        self.refusal().is_none()
    }

    /// The route it takes or would take.
    #[must_use]
    pub fn route(self) -> Option<usize> {
        match self {
            Decision::Named { route }
            | Decision::Local { route }
            | Decision::Relay { route, .. }
            | Decision::Postmaster { route }
            | Decision::Routed { route }
            | Decision::Unfit { route, .. }
            | Decision::Denied { route } => Some(route),
            Decision::NoRoute { .. } | Decision::OwnLiteral => None,
        }
    }

    /// The refusal; `None` if accepted.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Decision::Denied { .. } | Decision::NoRoute { may_relay: false } => {
                Some(Refusal::permanent((7, 1), "Relay access denied"))
            }
            Decision::Routed { .. } => {
                Some(Refusal::permanent((7, 1), "Source routing not supported"))
            }
            Decision::Unfit { why, .. } => Some(why.clone()),
            Decision::OwnLiteral => {
                Some(Refusal::permanent((1, 2), "Address literals of this server not supported"))
            }
            Decision::NoRoute { may_relay: true } => {
                Some(Refusal::permanent((1, 2), "No route to this domain"))
            }
            _ => None,
        }
    }
}

/// The routes of a recipient that the file alone does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundRoutes {
    /// The first route with the domain in its table.
    pub in_tables: Option<usize>,
    /// The route with conditions that hold, if it precedes the one that names the domain. A route without `domains` is only
    /// for clients that may send to any domain.
    pub by_conditions: Option<usize>,
}

impl From<Option<usize>> for FoundRoutes {
    fn from(in_tables: Option<usize>) -> FoundRoutes {
        FoundRoutes { in_tables, by_conditions: None }
    }
}

impl Config {
    /// Returns true if any listener has clients that may relay.
    #[must_use]
    pub fn has_relay(&self) -> bool {
        self.listeners.iter().any(|listener| !listener.relay_from.is_empty())
    }

    /// Decides if a client of this listener may send to this recipient. `client` is `None` if not known: it then counts
    /// as unauthenticated.
    #[must_use]
    pub fn decide(
        &self,
        listener: &Listener,
        client: Option<IpAddr>,
        rcpt: &Mailbox,
        found: impl Into<FoundRoutes>,
    ) -> Decision {
        let network = client.and_then(|client| listener.relay_network(client));
        match self.decide_as(listener, listener.lets_relay(client), rcpt, found) {
            Decision::Relay { route, .. } => {
                Decision::Relay { route, network: network.map(|(index, _)| index) }
            }
            decision => decision,
        }
    }

    /// The same for a client with a known permission to send to any domain.
    #[must_use]
    pub fn decide_as(
        &self,
        listener: &Listener,
        may_relay: bool,
        rcpt: &Mailbox,
        found: impl Into<FoundRoutes>,
    ) -> Decision {
        let FoundRoutes { in_tables, by_conditions } = found.into();
        if !rcpt.has_domain() {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        let domain = rcpt.domain();
        if rcpt.is_or_address() {
            // Only authenticated clients may name O/R addresses.
            return match self.named(&domain, None) {
                Some(route) => Decision::Named { route },
                None => Decision::NoRoute { may_relay: true },
            };
        }
        let is_own_literal = domain.literal().is_some_and(|ip| self.is_own_address(ip));
        let conditional = by_conditions.and_then(|index| self.routes.get(index));
        if let Some(route) = conditional.filter(|route| route.names_domains()) {
            return self.unless_routed(listener, may_relay, rcpt, route.index);
        }
        // The postmaster is on this server (RFC 5321 §4.5.1), and so are its literals.
        let is_elsewhere = may_relay && !is_own_literal && !self.is_postmaster(rcpt);
        if let Some(route) = conditional.filter(|_| is_elsewhere) {
            let relay = Decision::Relay { route: route.index, network: None };
            return self.unless_unfit(listener, may_relay, rcpt, relay, route.index);
        }
        if let Some(route) = self.named(&domain, in_tables) {
            return self.unless_routed(listener, may_relay, rcpt, route);
        }
        let catch_all = self.table.catch_all();
        let local = |route: usize| self.routes.get(route).is_some_and(|r| r.channel.is_local());
        if let Some(route) = catch_all.filter(|route| local(*route)) {
            return self.unless_unfit(listener, may_relay, rcpt, Decision::Local { route }, route);
        }
        // Our own name is always one of the domains we answer for.
        if rcpt.domain_str().eq_ignore_ascii_case(self.hostname.as_str())
            && rcpt.local().eq_ignore_ascii_case("postmaster")
        {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        // Likewise a local domain of a section, which receives mail here (RFC 5321 §4.5.1).
        let is_own = self.own_domains.contains(&domain);
        if is_own && rcpt.local().eq_ignore_ascii_case("postmaster") {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        if rcpt.local().eq_ignore_ascii_case("postmaster")
            && (is_own_literal || may_be_own_literal(listener, rcpt, may_relay))
        {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        if is_own_literal {
            return Decision::OwnLiteral;
        }
        match catch_all {
            Some(route) if may_relay => Decision::Relay { route, network: None },
            Some(route) => Decision::Denied { route },
            None => Decision::NoRoute { may_relay },
        }
    }

    /// The reason why a member may not replace a recipient: text from the client that becomes part of the member is
    /// subject to the same rules as a recipient.
    #[must_use]
    pub fn refuses_member(
        &self,
        listener: &Listener,
        may_relay: bool,
        rcpt: &Mailbox,
        member: &Mailbox,
        route: &Arc<Route>,
    ) -> Option<Refusal> {
        let route = self.routes.iter().position(|one| Arc::ptr_eq(one, route))?;
        // The operator may point an alias to a route closed to unauthenticated clients, but the client's own text must
        // not be routed there.
        let is_own_word = member.local() == rcpt.local();
        let may_go_on = may_relay || !is_own_word;
        let fits = Decision::Named { route };
        match self.unless_unfit(listener, may_go_on, member, fits, route) {
            Decision::Unfit { why, .. } => Some(why.clone()),
            _ if may_relay || !is_routed(rcpt) => None,
            // The client's text may be only a part of the member.
            _ => match self.unless_unfit(listener, false, member, fits, route) {
                routed @ Decision::Routed { .. } => routed.refusal(),
                _ => None,
            },
        }
    }

    /// The reason why no copy of this client's mail may go to this address. A rule may have derived the address from
    /// the client's text, which may not contain a route beyond the next hop.
    #[must_use]
    pub fn refuses_copy(
        &self,
        listener: &Listener,
        may_relay: bool,
        to: &Mailbox,
        route: &Arc<Route>,
    ) -> Option<Refusal> {
        let route = self.routes.iter().position(|one| Arc::ptr_eq(one, route))?;
        match self.unless_unfit(listener, may_relay, to, Decision::Named { route }, route) {
            routed @ Decision::Routed { .. } => routed.refusal(),
            _ => None,
        }
    }

    /// `decision`, unless the route can't or shall not take this local part from this client.
    fn unless_unfit(
        &self,
        listener: &Listener,
        may_relay: bool,
        rcpt: &Mailbox,
        decision: Decision,
        route: usize,
    ) -> Decision {
        let channel = self.routes.get(route).map(|route| &route.channel);
        if let Some(why) = channel.and_then(|channel| channel.refusal(rcpt, may_relay)) {
            // RFC 5321 §4.5.1: each domain with accepted mail has a postmaster.
            return match rcpt.local().eq_ignore_ascii_case("postmaster") {
                true => Decision::Postmaster { route: self.postmaster.route },
                false => Decision::Unfit { route, why },
            };
        }
        match !may_relay && self.is_routed_on(listener, rcpt, route) {
            true => Decision::Routed { route },
            false => decision,
        }
    }

    /// A recipient in a domain that the route names. The domain's next hop takes a route in the local part as meant for
    /// itself, from every client.
    fn unless_routed(
        &self,
        listener: &Listener,
        may_relay: bool,
        rcpt: &Mailbox,
        route: usize,
    ) -> Decision {
        match self.unless_unfit(listener, may_relay, rcpt, Decision::Named { route }, route) {
            Decision::Named { route } if self.is_routed_on(listener, rcpt, route) => {
                Decision::Routed { route }
            }
            decision => decision,
        }
    }

    /// Returns true if the next hop of this route might relay the recipient by a route in its local part.
    fn is_routed_on(&self, listener: &Listener, rcpt: &Mailbox, route: usize) -> bool {
        let channel = self.routes.get(route).map(|route| &route.channel);
        channel.is_some_and(|channel| channel.may_be_routed_on())
            && !listener.allow_routed_recipients
            && is_routed(rcpt)
    }

    /// Returns true if an address is known to be this server's: that of a listener, or of a NAT or proxy in front.
    fn is_own_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_listening = |listener: &Arc<Listener>| {
            let own = listener.address.ip().to_canonical();
            own == address || own.is_unspecified() && address.is_loopback()
        };
        address.is_unspecified()
            || self.proxy_addresses.contains(&address)
            || self.listeners.iter().any(is_listening)
    }
}

/// Returns true if legacy software would read the local part as a route beyond the next hop.
fn is_routed(mailbox: &Mailbox) -> bool {
    mailbox.local_unquoted().contains(['%', '!', '@'])
}

/// Returns true for an address literal that may be of this server (RFC 5321 §4.5.1). A listener on all addresses does
/// not know them, so any literal from an unauthenticated client counts: its mail has no other destination.
fn may_be_own_literal(listener: &Listener, rcpt: &Mailbox, may_relay: bool) -> bool {
    !may_relay
        && listener.address.ip().to_canonical().is_unspecified()
        && rcpt.domain().literal().is_some()
}
