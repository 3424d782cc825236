//! Explanation of the handling of a recipient, with the deciding lines of the file.

use super::channel::Destination;
use super::explain_request::{ExplainRequest, InTables, RefusalOrigin, RehearsalSteps};
use super::explainer::{ExplainedDecision, Explainer, Origin, values_in};
use super::host::HostPort;
use super::listener::Listener;
use super::listener_section::ListenerKind;
use super::quantity::{write_duration, write_size};
use super::route::Route;
use super::settings::{ReportTo, Retry};
use super::{Config, Decision, host_text, next_hop};
use mail::{Mailbox, Reply};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Number of members of an alias that are shown.
const MEMBERS_SHOWN_MAX: usize = 50;

/// The explanation. `Display` writes an aligned table, `Serialize` the same for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// As requested.
    pub recipient: String,
    /// As requested; empty for `<>`.
    pub sender: String,
    /// True if RCPT would be accepted.
    pub accepted: bool,
    /// Name of the route, if there is one.
    pub route: Option<String>,
    /// Channel of the route.
    pub channel: Option<&'static str>,
    /// Key of the ready queue, when it is known.
    pub ready_queue: Option<String>,
    /// All decisions in their order.
    pub steps: Vec<ExplainedDecision>,
}

impl Config {
    /// The first listener that accepts this kind of recipient, or the first of all.
    #[must_use]
    pub fn usual_listener(&self, recipient: &Mailbox) -> Option<&Arc<Listener>> {
        let is_or = recipient.is_or_address();
        let mut fit = self.listeners.iter().filter(|l| l.takes_internet_mail() != is_or);
        fit.next().or(self.listeners.first())
    }

    fn decision_about(&self, listener: &Listener, request: &ExplainRequest<'_>) -> Decision {
        let found = request.in_tables.routes;
        match request.login {
            Some(_) => self.decide_as(listener, true, request.recipient, found),
            None => self.decide(listener, request.client, request.recipient, found),
        }
    }

    /// Explains the handling of a recipient, without sending anything.
    ///
    /// # Errors
    /// Returns an error if the listener does not exist.
    pub fn explain(&self, request: &ExplainRequest<'_>) -> Result<Explanation, String> {
        let listener = match request.listener {
            None => self.usual_listener(request.recipient),
            Some(name) => self.listeners.iter().find(|listener| &*listener.name == name),
        };
        let Some(listener) = listener else {
            let names: Vec<&str> = self.listeners.iter().map(|l| &*l.name).collect();
            return Err(format!("unknown listener; configured: {}", names.join(", ")));
        };
        let tables = &request.in_tables;
        let decision = self.decision_about(listener, request);
        let mut explainer = Explainer::new(&self.document);
        explainer.values = tables.values;
        let mut telling = ExplanationBuilder { config: self, explainer };
        telling.acceptance(listener, request, decision);
        telling.stages(listener, request);
        let (effective, route) = match (decision, tables.rewritten) {
            (_, Some((rewritten, route))) => (rewritten, route),
            (Decision::Postmaster { .. }, None) => (&self.postmaster.address, decision.route()),
            (_, None) => (request.recipient, decision.route()),
        };
        let route = route.and_then(|index| self.routes.get(index));
        let goes_on =
            tables.refusal.is_none() && tables.stands_for.is_none() && !tables.is_settled_by_access;
        let ready_queue = match route {
            Some(route) if goes_on => telling.route(route, effective, request),
            Some(route) => {
                telling.route_line(route);
                None
            }
            None => None,
        };
        Ok(Explanation {
            recipient: request.recipient.to_string(),
            sender: request.sender.map(ToString::to_string).unwrap_or_default(),
            accepted: decision.is_accepted() && tables.refusal.is_none(),
            route: route.map(|route| route.name.to_string()),
            channel: route.map(|route| route.channel.key()),
            ready_queue,
            steps: telling.explainer.steps,
        })
    }
}

/// A whole explanation in the making.
struct ExplanationBuilder<'a> {
    config: &'a Config,
    explainer: Explainer<'a>,
}

impl ExplanationBuilder<'_> {
    fn acceptance(
        &mut self,
        listener: &Listener,
        request: &ExplainRequest<'_>,
        decision: Decision,
    ) {
        let listeners = &self.config.listeners;
        let position = listeners.iter().position(|l| l.name == listener.name).unwrap_or(0);
        let at = format!("listener[{position}]");
        let client = match (request.login, request.client) {
            (Some(login), _) => format!("user {login}"),
            (None, Some(client)) => client.to_string(),
            (None, None) => "an unauthenticated client".to_owned(),
        };
        self.explainer.step(
            "listener",
            format!("\"{}\" on {}", listener.name, listener.place()),
            self.explainer.origin(&at),
        );
        let rehearsed = request.rehearsal.map_or(&[][..], |rehearsal| &rehearsal.lookups);
        for lookup in request.in_tables.lookups.iter().chain(rehearsed) {
            let what = format!("table \"{}\"", lookup.table);
            let value = format!("{}: {}", lookup.key, lookup.answer);
            self.explainer.step(what, value, Origin::Table(lookup.source.clone()));
        }
        self.conditions(&request.in_tables);
        let deciding_rule = self.access_rules(&request.in_tables);
        let (value, origin) = self.verdict(&at, &client, request, decision, deciding_rule);
        self.explainer.step("acceptance", value, origin);
        self.standing_for(&request.in_tables);
        if let Some(rehearsal) = request.rehearsal {
            self.rehearsal(rehearsal);
        }
        self.rewriting(&request.in_tables);
        self.explainer.key(&at, "max_message_bytes", write_size(listener.max_message_bytes));
        let is_stranger =
            request.client.is_none_or(|client| listener.relay_network(client).is_none());
        self.explainer.section = at;
        self.networks(listener);
        self.rules(listener, is_stranger && !listener.needs_login());
        self.explainer.other_keys();
    }

    /// The decision about the recipient, and its origin; `deciding_rule`: of the access rules.
    fn verdict(
        &self,
        at: &str,
        client: &str,
        request: &ExplainRequest<'_>,
        decision: Decision,
        deciding_rule: Option<Origin>,
    ) -> (String, Origin) {
        match decision {
            _ if let Some(refusal) = request.in_tables.refusal => {
                let from = request.rehearsal.and_then(|rehearsal| rehearsal.refusal);
                let step = match from.map(|from| from.step) {
                    None | Some("RCPT") => String::new(),
                    Some(step) => format!(" at {step}"),
                };
                let reply = Reply::from(refusal.clone());
                let value = format!("rejected{step} for {client}: {reply}");
                (value, self.refusal_origin(at, from, deciding_rule))
            }
            Decision::Named { route } => {
                (named_by(request.recipient), self.pattern_origin(route, request.recipient))
            }
            Decision::Local { route } => (
                "accepted from all clients: everything else is delivered on this server".to_owned(),
                self.explainer.origin(&format!("route[{route}]")),
            ),
            Decision::Relay { network: None, .. } => (
                "accepted: authenticated users may send to any domain".to_owned(),
                self.explainer.origin(&format!("{at}.kind")),
            ),
            Decision::Relay { network: Some(network), .. } => (
                format!("accepted: {client} may send to any domain"),
                self.explainer.origin(&format!("{at}.relay_from[{network}]")),
            ),
            Decision::Postmaster { .. } => (
                format!("accepted from all clients, as {}", self.config.postmaster.address),
                Origin::Rule("RFC 5321 4.5.1"),
            ),
            Decision::OwnLiteral => {
                let reply = decision.refusal().map(|refusal| Reply::from(refusal).to_string());
                let value = format!("rejected for {client}: {}", reply.unwrap_or_default());
                (value, Origin::Rule("RFC 5321 4.1.3"))
            }
            Decision::Denied { .. }
            | Decision::NoRoute { .. }
            | Decision::Routed { .. }
            | Decision::Unfit { .. } => {
                let reply = decision.refusal().map(|refusal| Reply::from(refusal).to_string());
                let value = format!("rejected for {client}: {}", reply.unwrap_or_default());
                (value, self.explainer.origin(&format!("{at}.relay_from")))
            }
        }
    }

    /// The origin of a refusal by a stage or a table.
    fn refusal_origin(
        &self,
        at: &str,
        from: Option<RefusalOrigin>,
        deciding_rule: Option<Origin>,
    ) -> Origin {
        let key = match from {
            Some(RefusalOrigin { step: "AUTH", .. }) => return Origin::Rule("login revoke"),
            Some(RefusalOrigin { stage: Some("strangers"), .. }) => "checks",
            Some(RefusalOrigin { stage: None, step: "MAIL" }) => "senders",
            _ => return deciding_rule.unwrap_or_else(|| self.last_table()),
        };
        self.explainer.origin(&format!("{at}.{key}"))
    }

    /// The outcome of a rehearsed session beyond the reply.
    fn rehearsal(&mut self, rehearsal: &RehearsalSteps) {
        for (member, route) in rehearsal.members.iter().take(MEMBERS_SHOWN_MAX) {
            let (text, origin) = self.member(member, *route);
            self.explainer.step("delivered to", text, origin);
        }
        let more = rehearsal.members.len().saturating_sub(MEMBERS_SHOWN_MAX);
        if more > 0 {
            let rule = Origin::Rule("aliases");
            self.explainer.step("delivered to", format!("{more} more addresses"), rule);
        }
        if let Some(reason) = &rehearsal.discarded {
            self.explainer.step("outcome", &**reason, Origin::Rule("nothing is stored"));
        }
        for line in &rehearsal.log {
            self.explainer.step("server log", &**line, Origin::Rule("warning"));
        }
        if !rehearsal.not_asked.is_empty() {
            let rule = Origin::Rule("known to the running server only");
            self.explainer.step("not asked", rehearsal.not_asked.join(", "), rule);
        }
    }

    /// Replaced addresses, and the new recipient.
    fn rewriting(&mut self, tables: &InTables<'_>) {
        for step in tables.rewrites {
            let origin = self.explainer.origin(&format!("rewrite[{}]", step.rule));
            self.explainer.step(format!("rewrite {}", step.rule + 1), &*step.text, origin);
        }
        if let Some((recipient, route)) = tables.rewritten {
            let (text, origin) = self.member(recipient, route);
            self.explainer.step("delivered to", text, origin);
        }
    }

    /// A recipient from an expansion, with its route.
    fn member(&self, member: &Mailbox, route: Option<usize>) -> (String, Origin) {
        match route.and_then(|index| self.config.routes.get(index)) {
            Some(route) => {
                let (number, channel) = (route.index + 1, route.channel.key());
                let text = format!("{member} by route {number} ({channel})");
                (text, self.explainer.origin(&format!("route[{}]", route.index)))
            }
            None => (format!("{member}: bounced, no route"), Origin::Rule("RFC 3463 5.4.4")),
        }
    }

    /// Checks that messages must pass at a listener.
    fn rules(&mut self, listener: &Listener, is_stranger: bool) {
        listener.protocol.explain(&mut self.explainer);
        let kinds = &self.config.listener_kinds;
        kinds.iter().for_each(|kind| (kind.explain)(listener, &mut self.explainer));
        if is_stranger {
            let mut explain = |kind: &ListenerKind| {
                (kind.explain_for_strangers)(listener, &mut self.explainer);
            };
            kinds.iter().for_each(&mut explain);
        }
    }

    /// Networks with additional trust at the listener.
    fn networks(&mut self, listener: &Listener) {
        self.explainer.own_networks("steering_from", &listener.steering_from);
        self.explainer.own_networks("proxy_protocol_from", &listener.proxy_protocol_from);
    }

    /// Effects of stages on mail of this sender, if it is also the author.
    fn stages(&mut self, listener: &Listener, request: &ExplainRequest<'_>) {
        let is_of_house = listener.needs_login()
            || request.client.is_some_and(|client| listener.relay_network(client).is_some());
        let Some(author) = request.sender.filter(|_| is_of_house) else { return };
        for stage in &self.config.stages {
            if let Some(value) = stage.settings.explain_for_author(&author.domain()) {
                let line = format!("{}:{}", self.config.document.file(), stage.line);
                self.explainer.step(stage.key, value, Origin::Line(line));
            }
        }
    }

    /// Members of an alias.
    fn standing_for(&mut self, tables: &InTables<'_>) {
        let Some(members) = tables.stands_for else { return };
        let table = tables.lookups.last().map(|lookup| format!("table \"{}\"", lookup.table));
        let origin = Origin::Table(table.unwrap_or_default());
        self.explainer.step("expands to", members, origin.clone());
        if let Some(owner) = tables.owner {
            let value = format!("{owner}, if it exists");
            self.explainer.step("sender for these", value, origin);
        }
    }

    /// Results of access rules; returns the origin of the deciding one.
    fn access_rules(&mut self, tables: &InTables<'_>) -> Option<Origin> {
        let mut last = None;
        for step in tables.access {
            let origin = self.explainer.origin(&format!("access[{}]", step.rule));
            let what = format!("access rule {}", step.rule + 1);
            self.explainer.step(what, &*step.text, origin.clone());
            last = Some(origin);
        }
        last.filter(|_| tables.is_settled_by_access)
    }

    /// Conditions of routes.
    fn conditions(&mut self, tables: &InTables<'_>) {
        for step in tables.conditions {
            let (at, number) = (format!("route[{}].when", step.route), step.route + 1);
            let (what, at) = match step.about {
                Some(about) => {
                    (format!("route {number}: {}", about.key()), format!("{at}.{}", about.key()))
                }
                None => (format!("route {number}"), at),
            };
            let origin = self.explainer.origin(&at);
            self.explainer.step(what, &*step.text, origin);
        }
    }

    /// The last table queried.
    fn last_table(&self) -> Origin {
        let last = self.explainer.steps.iter().rev().find_map(|step| match &step.decided_by {
            Origin::Table(_) => Some(step.what.clone()),
            _ => None,
        });
        Origin::Table(last.unwrap_or_default())
    }

    /// The line of the pattern that took the domain.
    fn pattern_origin(&self, route: usize, recipient: &Mailbox) -> Origin {
        let domain = recipient.domain();
        if domain.is_or_domain() {
            return self.explainer.origin(&format!("route[{route}].or_addresses"));
        }
        let patterns = self.config.routes.get(route).map_or(&[][..], |route| &route.domains);
        let position = patterns.iter().position(|pattern| pattern.covers(&domain));
        match position {
            Some(position) => self.explainer.origin(&format!("route[{route}].domains[{position}]")),
            None => self.explainer.origin(&format!("route[{route}]")),
        }
    }

    /// The route; returns its origin.
    fn route_line(&mut self, route: &Route) -> Origin {
        let at = format!("route[{}]", route.index);
        let origin =
            if route.line == 0 { Origin::Rule("built in") } else { self.explainer.origin(&at) };
        self.explainer.step("route", route.description(), origin.clone());
        origin
    }

    /// Everything from the route on; returns the key of the ready queue.
    fn route(
        &mut self,
        route: &Route,
        recipient: &Mailbox,
        request: &ExplainRequest<'_>,
    ) -> Option<String> {
        let at = format!("route[{}]", route.index);
        let origin = self.route_line(route);
        let section = format!("{at}.{}", route.channel.key());
        let channel_origin = match self.explainer.origin(&section) {
            Origin::Default => origin,
            line => line,
        };
        self.explainer.step("channel", route.channel.key(), channel_origin);
        if let Some(other) = route.fallback.and_then(|index| self.config.routes.get(index)) {
            let text = format!("route {} \"{}\"", other.index + 1, other.name);
            self.explainer.step("fallback", text, self.explainer.origin(&format!("{at}.fallback")));
        }
        if let Some(srs) = route.srs {
            let text = if srs { "rewritten" } else { "unchanged" };
            let origin = self.explainer.origin(&format!("{at}.srs"));
            self.explainer.step("forwarded senders", text, origin);
        }
        let ready = self.next_hop(&section, route, recipient, request);
        self.explainer.step(
            "scheduled queue",
            recipient.domain().to_string(),
            Origin::Rule("recipient domain"),
        );
        let text = ready.clone().unwrap_or_else(|| {
            let who = match route.channel.destination() {
                Destination::ByEntry => "the recipient's entry",
                _ => "DNS",
            };
            format!("by the hosts from {who}")
        });
        self.explainer.step("ready queue", text, Origin::Rule("next hop"));
        self.explainer.section = section;
        self.pool(&at, route);
        let before = self.explainer.steps.len();
        route.channel.explain_limits(&mut self.explainer);
        self.shaping(before, route, recipient, request);
        self.retry(&at, &route.retry);
        self.reports(&at, route);
        self.explainer.other_keys();
        self.explainer.section = at;
        self.explainer.other_keys();
        ready
    }

    /// The sources that a route's mail is spread over.
    fn pool(&mut self, at: &str, route: &Route) {
        let Some(pool) = &route.pool else { return };
        self.explainer.key(at, "pool", pool.name.to_string());
        for (source, weight) in &pool.sources {
            let addresses = [source.address.map(IpAddr::V4), source.address6.map(IpAddr::V6)];
            let addresses: Vec<String> =
                addresses.iter().flatten().map(ToString::to_string).collect();
            let name = source.ehlo.as_ref().unwrap_or(&self.config.hostname);
            let text =
                format!("{} ({} as {name}, weight {weight})", source.name, addresses.join(" and "));
            let line = Origin::Line(format!("{}:{}", self.config.file_name(), source.line));
            self.explainer.step("source", text, line);
            if let Some(warmup) = &source.warmup {
                let line = Origin::Line(format!("{}:{}", self.config.file_name(), warmup.line));
                self.explainer.step(
                    format!("warm-up of {}", source.name),
                    warmup.to_string(),
                    line,
                );
            }
        }
    }

    /// Limits from shaping that replace the route's, which are the steps from `before` on.
    fn shaping(
        &mut self,
        before: usize,
        route: &Route,
        recipient: &Mailbox,
        request: &ExplainRequest<'_>,
    ) {
        let (Some(shaping), Some(Ok(groups))) = (&self.config.shaping, request.mx) else { return };
        if !matches!(route.channel.destination(), Destination::Mx { .. }) {
            return;
        }
        let limits = (route.channel.limits(), self.config.own_pace(route));
        let hosts = || groups.iter().flatten().map(String::as_str);
        let domain = recipient.domain();
        let general = shaping.in_force(limits, None, &domain, hosts()).steps();
        for step in &general {
            if step.what == "rate" {
                // It holds instead of the route's own.
                self.explainer.steps.retain(|known| known.what != "messages_per_second");
            }
            let known = &mut self.explainer.steps[before..];
            match known.iter_mut().find(|known| known.what == step.what) {
                Some(known) => *known = step.clone(),
                None => self.explainer.steps.push(step.clone()),
            }
        }
        for (source, _) in route.pool.iter().flat_map(|pool| &pool.sources) {
            let own = shaping.in_force(limits, Some(&source.name), &domain, hosts()).steps();
            for mut step in own.into_iter().filter(|step| !general.contains(step)) {
                step.what = format!("{} from {}", step.what, source.name);
                self.explainer.steps.push(step);
            }
        }
    }

    fn reports(&mut self, at: &str, route: &Route) {
        let reports = &route.reports;
        let origin = |key: &str| match self.explainer.origin(&format!("{at}.reports.{key}")) {
            Origin::Default => self.explainer.origin(&format!("reports.{key}")),
            line => line,
        };
        let to = match &reports.to {
            ReportTo::Sender => "the sender".to_owned(),
            ReportTo::Nobody => "nobody".to_owned(),
            ReportTo::Address(address) => address.to_string(),
        };
        let mut steps = vec![("reports to", to, origin("to"))];
        let copy = reports.copy_to.as_ref().map(ToString::to_string);
        steps.extend(copy.map(|to| ("reports copied to", to, origin("copy_to"))));
        let kept = reports.directory.as_ref().map(|path| path.display().to_string());
        steps.extend(kept.map(|path| ("reports stored in", path, origin("directory"))));
        let give_up_after = self.config.report_retry.of(&route.retry).give_up_after;
        let given_up = self.explainer.origin("reports.retry.give_up_after");
        steps.push(("reports expire after", write_duration(give_up_after), given_up));
        for (what, value, origin) in steps {
            self.explainer.step(what, value, origin);
        }
    }

    fn next_hop(
        &mut self,
        section: &str,
        route: &Route,
        recipient: &Mailbox,
        request: &ExplainRequest<'_>,
    ) -> Option<String> {
        let destination = route.channel.destination();
        let Destination::Mx { port } = destination else {
            self.explainer.section = section.to_owned();
            route.channel.explain_destination(recipient, &mut self.explainer);
            return match destination {
                Destination::ByEntry => self.next_hop_by_entry(route),
                _ => route.next_hop(),
            };
        };
        match request.mx {
            None => {
                let text = format!("MX hosts of {} (not looked up)", recipient.domain());
                self.explainer.step("hosts", text, Origin::Dns);
                None
            }
            Some(Err(reason)) => {
                self.explainer.step("hosts", format!("none: {reason}"), Origin::Dns);
                None
            }
            Some(Ok(groups)) => {
                let hosts: Vec<&str> = groups.iter().flatten().map(String::as_str).collect();
                self.explainer.step("hosts", hosts.join(", "), Origin::Dns);
                for (host, tls) in request.tls {
                    self.explainer.step(format!("tls of {host}"), tls.as_str(), Origin::Dns);
                }
                let text = |host: &String| host_text(host, port);
                let groups: Vec<Vec<String>> =
                    groups.iter().map(|group| group.iter().map(text).collect()).collect();
                Some(next_hop(route.channel.key(), &route.name, &groups))
            }
        }
    }

    /// The next hop that the recipient's entry names, as far as that is known.
    fn next_hop_by_entry(&self, route: &Route) -> Option<String> {
        let known = self.explainer.values()?;
        let groups = route.channel.hosts_by_entry(&values_in(Some(known))).ok()?;
        let text = |group: &Vec<HostPort>| group.iter().map(ToString::to_string).collect();
        let groups: Vec<Vec<String>> = groups.iter().map(text).collect();
        Some(next_hop(route.channel.key(), &route.name, &groups))
    }

    fn retry(&mut self, at: &str, retry: &Retry) {
        let origin = |key: &str| match self.explainer.origin(&format!("{at}.retry.{key}")) {
            Origin::Default => self.explainer.origin(&format!("retry.{key}")),
            line => line,
        };
        let (first, warn, give_up) =
            (origin("first"), origin("warn_after"), origin("give_up_after"));
        self.explainer.step("retried after", retry.waits(), first);
        let warn_after = retry.warn_after.map_or("never".to_owned(), write_duration);
        self.explainer.step("sender warned after", warn_after, warn);
        self.explainer.step("expires after", write_duration(retry.give_up_after), give_up);
    }
}

/// The permission to send to a recipient that a route names.
fn named_by(recipient: &Mailbox) -> String {
    match recipient.is_or_address() {
        true => "accepted from X.400 peers: a route has its attributes".to_owned(),
        false => "accepted from all clients: a route has the domain".to_owned(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.accepted { "accepted" } else { "refused" };
        writeln!(f, "{} from <{}>: {verdict}", self.recipient, self.sender)?;
        let width = |text: fn(&ExplainedDecision) -> &str| {
            self.steps.iter().map(|step| text(step).chars().count()).max().unwrap_or(0)
        };
        let (what, value) = (width(|step| &step.what), width(|step| &step.value));
        for step in &self.steps {
            writeln!(f, "  {:what$}  {:value$}  {}", step.what, step.value, step.decided_by,)?;
        }
        Ok(())
    }
}
