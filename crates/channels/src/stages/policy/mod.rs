//! Policy services (`[[policy]]`), with the protocol of Postfix's SMTPD_POLICY_README.

mod service;

use super::action::{Action, ActionEffect};
use super::asked_clients::AskedClients;
use super::is_for_listener;
use crate::values;
use config::quantity::Period;
use config::{Config, Reader, StageSection, StageSettings};
use mail::{Recipient, Refusal};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Placed, Resolved, Routed, Session, Stage, StageKind, TransactionView};
use mta::outages::{Outage, ServiceKind};
use mta::pressure::Pressures;
use mta::problems::Severity;
use mta::seams::{Endpoint, Time, World};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{PolicyRequest, Service};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum timeout: clients wait five minutes (RFC 5321 §4.5.3.2.3), and several services may be configured.
const TIMEOUT_MAX: Duration = Duration::from_secs(90);

/// The service gives no reply, or an invalid one.
const NO_ANSWER: Refusal =
    Refusal::transient((3, 5), "Policy service unavailable; try again later");

/// A policy service for each recipient accepted by a route, with the protocol of Postfix's `check_policy_service`:
/// postgrey, postfwd, policyd and similar programs. Several services are evaluated in the order of the file, until one
/// rejects.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PolicyText {
    /// Address of the service: an IP address and port, or `unix:` and the path of a socket. Required.
    #[schemars(extend("title" = "address:port or unix:path"))]
    service: String,
    /// Timeout for a reply, including the connection.
    timeout: Period,
    /// Action for a recipient if the service gives no reply, or an invalid one.
    on_failure: OnFailure,
    /// Clients that the service is used for.
    clients: AskedClients,
    /// Names of listeners that the service is used at. Default: all.
    listeners: Vec<String>,
    /// Maximum number of concurrent requests, and of connections, on each shard. Further requests wait.
    #[schemars(range(min = 1, max = 1000))]
    max_connections: u32,
}

impl Default for PolicyText {
    fn default() -> PolicyText {
        PolicyText {
            service: String::new(),
            timeout: "30s".into(),
            on_failure: OnFailure::Defer,
            clients: AskedClients::Strangers,
            listeners: Vec::new(),
            max_connections: 20,
        }
    }
}

/// Action for a recipient if a service gives no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OnFailure {
    /// Defer with 451 4.3.5.
    #[default]
    Defer,
    /// Accept as if the service were not configured.
    Accept,
}

impl StageSection for PolicyText {
    const KEY: &'static str = "policy";
    const SUMMARY: &'static str = "Policy services for recipients.";
    type Text = PolicyText;

    fn read(text: PolicyText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        reader.check_timeout("timeout", &text.timeout);
        reader.check_listeners("listeners", &text.listeners);
        if !text.listeners.is_empty() {
            reader.refuse_foreign("listeners", &text.listeners, "checked by a policy service");
        }
        if text.timeout.get() > TIMEOUT_MAX {
            let message = "longer than 90 seconds";
            reader.error("timeout", message, "clients wait only a few minutes for a reply");
        }
        if text.service.is_empty() {
            let help = "name its address, for example service = \"127.0.0.1:10023\"";
            reader.error("", "a policy without `service`", help);
            return None;
        }
        let Some(endpoint) = values::read(&text.service) else {
            let message = format!("\"{}\" is not a policy service", text.service);
            reader.error("service", message, values::HELP);
            return None;
        };
        Some(Arc::new(Policy { endpoint, text }))
    }
}

/// A policy service and its settings.
#[derive(Clone, Debug)]
struct Policy {
    endpoint: Endpoint,
    text: PolicyText,
}

impl StageSettings for Policy {
    fn connections_max(&self) -> u32 {
        self.text.max_connections
    }
}

/// The stage of `[[policy]]`.
pub(crate) struct Policies;

impl<W: World> StageKind<W> for Policies {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed> {
        let stage = |line: u32, policy: &Policy| Placed {
            line,
            stage: Rc::new(PolicyStage(Rc::new(PolicyClient {
                run: world.time().random(),
                service: Service::new(world, policy, pools),
                console: Rc::clone(console),
                is_silent: Cell::new(false),
                outage: OnceCell::new(),
                policy: policy.text.clone(),
            }))),
        };
        let entries = config.stages.iter().filter(|entry| entry.key == PolicyText::KEY);
        let policies = entries.map(|entry| (entry.line, entry.settings.of::<Policy>()));
        policies.filter_map(|(line, policy)| Some(stage(line, policy?))).collect()
    }
}

struct PolicyStage<W: World>(Rc<PolicyClient<W>>);

struct PolicyClient<W: World> {
    /// Distinguishes message instances from those before a reload and on other shards.
    run: u64,
    policy: PolicyText,
    service: Service<W>,
    console: Rc<dyn Console>,
    /// It failed the last time. The failure is logged once, not for each recipient.
    is_silent: Cell<bool>,
    /// The same, for all shards; known from the first request on.
    outage: OnceCell<Arc<Outage>>,
}

impl<W: World> Stage for PolicyStage<W> {
    fn name(&self) -> &'static str {
        PolicyText::KEY
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
        routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        // A recipient refused by the routes is refused regardless of the service.
        if !routed.is_taken || !self.0.concerns(transaction) {
            return Answer::Now(Ok(None));
        }
        let request = PolicyRequest { transaction, recipient, run: self.0.run }.to_bytes();
        let (asker, transaction) = (Rc::clone(&self.0), Rc::clone(transaction));
        let recipient = recipient.clone();
        Answer::later(async move { asker.ask(&transaction, &recipient, request).await })
    }
}

impl<W: World> PolicyClient<W> {
    fn concerns(&self, transaction: &TransactionView) -> bool {
        let (policy, session) = (&self.policy, &transaction.session);
        policy.clients.has(session) && is_for_listener(&policy.listeners, &session.listener().name)
    }

    async fn ask(
        &self,
        transaction: &TransactionView,
        recipient: &Recipient,
        request: Vec<u8>,
    ) -> Result<Option<Resolved>, Refusal> {
        let answer = self.service.ask(&transaction.session, &request).await;
        let action = answer.and_then(|answer| read_answer(&answer));
        match &action {
            Ok(_) => self.outage(&transaction.session).answered(),
            Err(why) => self.outage(&transaction.session).failed(why, self.service.wall()),
        }
        self.note(action.as_ref().err());
        let action = match action {
            Ok(action) => action,
            Err(_) if self.policy.on_failure == OnFailure::Defer => return Err(NO_ANSWER),
            Err(_) => return Ok(None),
        };
        let who = (PolicyText::KEY, &self.service as &dyn fmt::Display);
        Ok(match action.take(transaction, recipient, &*self.console, who)? {
            ActionEffect::Open | ActionEffect::Permitted => None,
            // Services are evaluated one by one, so a refusal by a later service is not known here.
            ActionEffect::DeferredIfPermitted(refusal) => return Err(refusal),
            ActionEffect::DeferredIfRejected(_) => None,
            ActionEffect::Settled(resolved) => Some(resolved),
        })
    }

    /// Its state in the book of failing services.
    fn outage(&self, session: &Session) -> &Outage {
        let severity = match self.policy.on_failure {
            OnFailure::Defer => Severity::Error,
            OnFailure::Accept => Severity::Warning,
        };
        let address = || self.service.to_string();
        let of = || session.outages().of(ServiceKind::Policy, &address(), severity);
        self.outage.get_or_init(of)
    }

    /// Logs the beginning and the end of a failure of the service.
    fn note(&self, trouble: Option<&String>) {
        let was_silent = self.is_silent.replace(trouble.is_some());
        match trouble {
            Some(why) if !was_silent => {
                self.console.warn("policy", format_args!("{}: {why}", self.service));
            }
            None if was_silent => {
                self.console.warn("policy", format_args!("{}: recovered", self.service));
            }
            _ => {}
        }
    }
}

/// The action of a reply: lines up to an empty one, including `action=…`.
fn read_answer(answer: &str) -> Result<Action, String> {
    let action = answer.lines().find_map(|line| line.strip_prefix("action="));
    Action::parse(action.ok_or("reply without an action")?, "a policy service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_an_action_among_its_lines() {
        assert_eq!(read_answer("x=y\naction=DUNNO\n\n"), Ok(Action::Pass));
        for bad in ["\n", "act=OK\n\n", "action=\n\n"] {
            assert!(read_answer(bad).is_err(), "{bad}");
        }
    }
}
