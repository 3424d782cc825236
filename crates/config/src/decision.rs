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
    /// Accepted: everything else stays on this server, so nothing is relayed.
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
    /// Refused: the local part names a way on from the next hop, and the client may not relay.
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
    /// Refused: no route takes the domain. `may_relay`: this client could have used one.
    NoRoute {
        /// The client is in `relay_from`, has logged in, or has a certificate.
        may_relay: bool,
    },
}

impl Decision {
    /// Whether the recipient is accepted.
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
            Decision::NoRoute { .. } => None,
        }
    }

    /// Why it is refused; `None` when it is accepted.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Decision::Denied { .. } | Decision::NoRoute { may_relay: false } => {
                Some(Refusal::permanent((7, 1), "relay access denied"))
            }
            Decision::Routed { .. } => {
                Some(Refusal::permanent((7, 1), "routes within addresses are not followed"))
            }
            Decision::Unfit { why, .. } => Some(why.clone()),
            Decision::NoRoute { may_relay: true } => {
                Some(Refusal::permanent((1, 2), "no route to this domain"))
            }
            _ => None,
        }
    }
}

impl Config {
    /// Whether there are clients that may relay, at any listener.
    #[must_use]
    pub fn has_relay(&self) -> bool {
        self.listeners.iter().any(|listener| !listener.relay_from.is_empty())
    }

    /// May a client of this listener send to this recipient? `client` is `None` when it is not
    /// known: it then is a stranger. `in_tables`: the first route whose table has the domain.
    #[must_use]
    pub fn decide(
        &self,
        listener: &Listener,
        client: Option<IpAddr>,
        rcpt: &Mailbox,
        in_tables: Option<usize>,
    ) -> Decision {
        let network = client.and_then(|client| listener.relay_network(client));
        match self.decide_as(listener, may_relay(listener, client), rcpt, in_tables) {
            Decision::Relay { route, .. } => {
                Decision::Relay { route, network: network.map(|(index, _)| index) }
            }
            decision => decision,
        }
    }

    /// The same of a client of whom it is known whether it may send to any domain.
    #[must_use]
    pub fn decide_as(
        &self,
        listener: &Listener,
        may_relay: bool,
        rcpt: &Mailbox,
        in_tables: Option<usize>,
    ) -> Decision {
        if rcpt.domain_str().is_empty() {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        let domain = rcpt.domain();
        if rcpt.is_or_address() {
            // Whoever may name such has shown who it is.
            return match self.named(&domain, None) {
                Some(route) => Decision::Named { route },
                None => Decision::NoRoute { may_relay: true },
            };
        }
        if let Some(route) = self.named(&domain, in_tables) {
            let named = Decision::Named { route };
            return self.unless_unfit(listener, may_relay, rcpt, named, route);
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
        // So is a domain that a section makes ours, whose mail comes here (RFC 5321 §4.5.1).
        let is_own = self.own_domains.contains(&domain);
        if is_own && rcpt.local().eq_ignore_ascii_case("postmaster") {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        if rcpt.local().eq_ignore_ascii_case("postmaster")
            && is_own_literal(listener, rcpt, may_relay)
        {
            return Decision::Postmaster { route: self.postmaster.route };
        }
        match catch_all {
            Some(route) if may_relay => Decision::Relay { route, network: None },
            Some(route) => Decision::Denied { route },
            None => Decision::NoRoute { may_relay },
        }
    }

    /// Why a member may not stand for a recipient: the same rules as if the client had named it itself hold
    /// for what it wrote, and goes on into the member.
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
        // The operator may lead an alias where a stranger may not go, but not the stranger's own words.
        let is_own_word = member.local() == rcpt.local();
        let may_go_on = may_relay || !is_own_word;
        let fits = Decision::Named { route };
        match self.unless_unfit(listener, may_go_on, member, fits, route) {
            Decision::Unfit { why, .. } => Some(why.clone()),
            _ if may_relay || !is_routed(rcpt) => None,
            // What the client wrote may have come there in part only.
            _ => match self.unless_unfit(listener, false, member, fits, route) {
                routed @ Decision::Routed { .. } => routed.refusal(),
                _ => None,
            },
        }
    }

    /// Why nobody of this address may get a copy of what this client sends: a rule may have made the address of what
    /// the client wrote, and a way on from the next hop is none that it may name.
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
            // RFC 5321 §4.5.1: each domain that mail is taken for has one.
            return match rcpt.local().eq_ignore_ascii_case("postmaster") {
                true => Decision::Postmaster { route: self.postmaster.route },
                false => Decision::Unfit { route, why },
            };
        }
        match channel {
            Some(channel)
                if channel.may_be_routed_on()
                    && !listener.allow_routed_recipients
                    && is_routed(rcpt)
                    && !may_relay =>
            {
                Decision::Routed { route }
            }
            _ => decision,
        }
    }
}

/// Whether the local part names a way on from the next hop, to software of the past.
fn is_routed(mailbox: &Mailbox) -> bool {
    mailbox.local_unquoted().contains(['%', '!', '@'])
}

/// Whether this client of the listener, if it may send at all, may send to any domain.
fn may_relay(listener: &Listener, client: Option<IpAddr>) -> bool {
    listener.needs_login()
        || !listener.takes_internet_mail()
        || client.is_some_and(|client| listener.relay_network(client).is_some())
}

/// Whether the domain is an address literal of this server (RFC 5321 §4.5.1). Of a listener on all
/// addresses it is not known here which those are: every address that a stranger names then is, for
/// its mail has nowhere else to go.
fn is_own_literal(listener: &Listener, rcpt: &Mailbox, may_relay: bool) -> bool {
    let Some(literal) = rcpt.domain().literal() else { return false };
    let own = listener.address.ip().to_canonical();
    literal.to_canonical() == own || own.is_unspecified() && !may_relay
}
