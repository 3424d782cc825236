//! Settings of listeners with `kind = "p1"`, and of `x400` routes.

use super::gateway;
use super::section::{X400, X400Peer, peer_named, t_selector, who_we_are};
use config::{
    ChannelSection, Destination, Explainer, KindsOfMail, ProtocolSection, ProtocolSettings, Reader,
    RouteLimits, Settings, SharedLimits, Takes,
};
use mail::{Mailbox, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of associations being opened at the same time.
const OPENS_MAX: u32 = 4;

/// A listener for X.400 MTAs, the peers of `[x400]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct P1Text {
    /// With `kind = "p1"`: accepted transport selectors, as text or `"hex:00ff"`; an empty one is for calls without a
    /// selector. Calls to other selectors are rejected. Default: all are accepted.
    t_selectors: Vec<String>,
}

impl ProtocolSection for P1Text {
    const KIND: &'static str = "p1";
    const TAKES: Takes = Takes::Foreign;
    type Text = P1Text;

    fn read(text: P1Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        let mut selectors = Vec::with_capacity(text.t_selectors.len());
        for (index, selector) in text.t_selectors.iter().enumerate() {
            let key = format!("t_selectors[{index}]");
            selectors.push(t_selector(&key, selector, reader).into_vec());
        }
        let x400 = who_we_are(reader)?;
        Some(Arc::new(P1Listener { x400, t_selectors: selectors }))
    }
}

/// Settings of a listener for X.400.
#[derive(Debug)]
pub(super) struct P1Listener {
    pub(super) x400: Arc<X400>,
    /// Accepted transport selectors. Empty to accept all.
    pub(super) t_selectors: Vec<Vec<u8>>,
}

impl ProtocolSettings for P1Listener {
    fn may_speak_for_others(&self, client: IpAddr) -> bool {
        // Limits per client are for unknown clients. A peer with an unlisted address is subject to them until it binds.
        self.x400.peers.iter().any(|peer| peer.is_known_at(client))
    }

    fn client_names(&self) -> Vec<&str> {
        self.x400.peers.iter().map(|peer| &*peer.name).collect()
    }

    fn explain(&self, explainer: &mut Explainer<'_>) {
        let names: Vec<&str> = self.x400.peers.iter().map(|peer| &*peer.name).collect();
        explainer.own_key("kind", format!("p1: peers {}", names.join(", ")));
    }
}

/// Send to a peer over X.400's P1.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct X400RouteText {
    /// Name of an `[[x400.peer]]`. Required.
    peer: String,
}

impl ChannelSection for X400RouteText {
    const KEY: &'static str = "x400";
    const SUMMARY: &'static str = "Send over X.400's P1 to a peer.";
    const EXAMPLE: &'static str = "x400 = { peer = \"hub\" }";
    type Text = X400RouteText;

    fn read(text: X400RouteText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let (x400, peer) = peer_named("peer", &text.peer, reader)?;
        Some(Arc::new(Route { x400, peer }))
    }
}

/// Settings of an `x400` route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) x400: Arc<X400>,
    pub(super) peer: Arc<X400Peer>,
}

impl Settings for Route {
    fn key(&self) -> &'static str {
        X400RouteText::KEY
    }

    fn destination(&self) -> Destination<'_> {
        // In order: a peer's second host is a fallback for the first.
        Destination::Hosts(self.peer.hosts.chunks(1).collect())
    }

    fn limits(&self) -> RouteLimits {
        let shared =
            SharedLimits { connections_max: self.peer.associations_max, messages_per_second: 0.0 };
        RouteLimits {
            shared: Some(shared),
            opens_max: OPENS_MAX,
            messages_per_connection: 0,
            recipients_per_message: 0,
            adaptive: false,
        }
    }

    fn kinds_of_mail(&self) -> KindsOfMail {
        KindsOfMail { internet: self.x400.gateway.is_some(), x400: true }
    }

    fn may_be_asked(&self) -> bool {
        false
    }

    fn refusal(&self, recipient: &Mailbox, may_relay: bool) -> Option<&'static Refusal> {
        gateway::refusal(&self.x400, recipient, may_relay)
    }

    /// The O/R address for an internet address.
    fn also_called(&self, recipient: &Mailbox) -> Option<Mailbox> {
        gateway::behind(&self.x400, recipient)
    }

    fn explain_destination(&self, _: &Mailbox, explainer: &mut Explainer<'_>) {
        let X400Peer { name, hosts, mode, associations_max, .. } = &*self.peer;
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let (hosts, mode) = (hosts.join(", "), mode.word());
        let value =
            format!("{name} at {hosts}, {mode} mode, at most {associations_max} associations");
        explainer.own_key("peer", value);
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        let Some(other) = other.of::<Route>() else { return false };
        self.peer == other.peer
            && self.x400.mta == other.x400.mta
            && self.x400.domain == other.x400.domain
            && self.x400.gateway == other.x400.gateway
    }
}
