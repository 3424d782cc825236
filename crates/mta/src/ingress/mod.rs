//! Ingress: the core's interface for protocol handlers, the stages that check a message, and the commit to the spool.

mod account;
mod admission;
mod commit;
mod connection;
mod consultation;
mod content;
mod decisions;
mod directory;
mod draft;
mod foreign;
mod forwarding;
mod handshake;
mod intake;
mod keeping;
mod limits;
mod login;
mod login_attempt;
mod login_elsewhere;
mod members;
mod observer;
pub(crate) mod own;
mod pieces;
mod protocol;
mod proxied;
mod proxy_header;
mod rate_limits;
mod recipients;
mod refusals;
pub(crate) mod rehearsal;
mod renewal;
mod rights;
mod room;
mod rules;
mod session;
mod splitting;
mod stage;
pub(crate) mod start;
mod submission;
mod transaction;
mod wants;

pub use crate::conditions::{all_hold, first_unmet};
pub use crate::facts::Owner;
pub use account::RefusalRecord;
pub use connection::Connection;
pub use consultation::{Consulted, ConsultedRoutes, RouteFinder, consult, consult_routes};
pub use content::{BufferedContent, ContentBuffer};
pub use draft::Draft;
pub use foreign::NativeMessage;
pub use forwarding::OwnDomains;
pub use intake::Intake;
pub use login::{LoginSource, Logins};
pub use login_attempt::Attempt;
pub use login_elsewhere::Elsewhere;
pub use members::{MemberToken, completed, granted_by, is_one_member, members};
pub use observer::{Observer, observed};
pub use own::{ALERT_EXPIRES_AFTER, GeneratedMessage, Purpose, QueuedOwn};
pub use protocol::{Handler, Protocol, Protocols};
pub use proxied::PROXY_HEADER_TIME_MAX;
pub use proxy_header::{Announced, ProxyHeader, ProxyHeaderError, V1_BYTES_MAX, V2_REST_BYTES_MAX};
pub use refusals::{NO_ANSWER, WRONG_PASSWORD, no_answer};
pub use rehearsal::{RefusingStage, RehearsedMail, RehearsedRefusal, recording};
pub use rights::{LOGIN_CHECK_INTERVAL, PASSWORD_CHECK_INTERVAL, SERVER_LOGIN_MAX};
pub use session::Session;
pub use stage::{
    ExpandedRecipient, Placed, Resolved, Routed, SignedFields, Stage, StageKind, StageKinds,
    TransactionView,
};
pub use submission::{Submission, Submitted};
pub use transaction::Transaction;
pub use wants::Sender;

use crate::answer::Answer;
use crate::console::Console;
use crate::custody::Custody;
use crate::event::RefusalMeter;
use crate::own_fields::AboveOwn;
use crate::routing::Router;
use crate::routing::addresses::Readers;
use crate::schedule::Schedule;
use crate::seams::{MailboxCheck, World};
use crate::services::Services;
use config::Config;
use rate_limits::{ListenerLimits, limits_at};
use rules::{ListenerRules, rules_by_socket, rules_of};
use stage::{Stages, stages_of};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Resolves the recipients of reports through aliases. Reports don't pass a session, which would do that.
pub(crate) fn readers<W: World>(services: &Rc<Services<W>>, router: &Rc<Router>) -> Readers {
    let (services, router) = (Rc::clone(services), Rc::clone(router));
    Rc::new(move |address| {
        let active = router.active();
        let config = &active.config;
        let has_aliases = config.routes.iter().any(|route| route.aliases.is_some());
        if !has_aliases || config.is_postmaster(&address) {
            return Answer::Now(vec![address]);
        }
        let (world, console) = (services.world.clone(), Rc::clone(&services.console));
        let expansions = Arc::clone(&services.shared.expansions);
        Answer::later(async move {
            let asked = (&address, &expansions);
            let readers = directory::readers(&world, &console, &active, asked).await;
            readers.unwrap_or_else(|| vec![address])
        })
    })
}

/// The stages of each socket: first those of its protocol, then the common stages, which only internet mail passes.
fn with_own<W: World>(
    rules: &[Rc<ListenerRules<dyn Handler<W>>>],
    all: &Stages,
    config: &Config,
    world: &W,
    console: &Rc<dyn Console>,
) -> Vec<Stages> {
    let of = |rules: &Rc<ListenerRules<dyn Handler<W>>>| -> Stages {
        let Some(handler) = &rules.handler else { return Rc::clone(all) };
        let own = handler.stages(config, world, console);
        match (own.is_empty(), rules.listener.takes_internet_mail()) {
            (true, true) => Rc::clone(all),
            (_, true) => own.into_iter().chain(all.iter().cloned()).collect(),
            (_, false) => own.into(),
        }
    };
    rules.iter().map(of).collect()
}

/// The limits of each socket.
fn limits_of<W: World>(
    config: &Config,
    rules: &[Rc<ListenerRules<dyn Handler<W>>>],
) -> Vec<ListenerLimits> {
    rules.iter().map(|rules| limits_at(config, &rules.listener)).collect()
}

/// Ingress state shared by the sessions of one shard.
pub(crate) struct Ingress<W: World> {
    services: Rc<Services<W>>,
    custody: Rc<Custody<W>>,
    router: Rc<Router>,
    schedule: Rc<Schedule<W>>,
    protocols: Protocols<W>,
    kinds: StageKinds<W>,
    mailbox_check: MailboxCheck<W>,
    /// In the order of the sockets opened at start.
    listeners: RefCell<Vec<Rc<ListenerRules<dyn Handler<W>>>>>,
    /// In the same order.
    stages: RefCell<Vec<Stages>>,
    /// In the same order.
    limits: RefCell<Vec<ListenerLimits>>,
    /// The stages that belong to no protocol.
    common_stages: RefCell<Stages>,
    refusals: RefCell<RefusalMeter>,
    /// Rate limit for console lines about foreign messages.
    foreign_lines: RefCell<RefusalMeter>,
    /// Number of transactions passed to stages.
    transactions: Cell<u64>,
    /// Number of configurations adopted since the start.
    reloads: Cell<u64>,
}

impl<W: World> Ingress<W> {
    /// Creates the listeners and stages of the active configuration.
    pub(crate) fn new(
        schedule: &Rc<Schedule<W>>,
        protocols: Protocols<W>,
        kinds: StageKinds<W>,
        mailbox_check: MailboxCheck<W>,
    ) -> Rc<Ingress<W>> {
        let (services, router) = (&schedule.services, &schedule.router);
        let config = &router.active().config;
        let pools = &services.shared.pressures;
        let rules = rules_of(config, &protocols, pools);
        let common = stages_of(&kinds, config, &services.world, &services.console, pools);
        let stages = with_own(&rules, &common, config, &services.world, &services.console);
        let limits = limits_of(config, &rules);
        Rc::new(Ingress {
            limits: RefCell::new(limits),
            listeners: RefCell::new(rules),
            stages: RefCell::new(stages),
            common_stages: RefCell::new(common),
            protocols,
            kinds,
            mailbox_check,
            refusals: RefCell::new(RefusalMeter::new(10, 100, services.now())),
            foreign_lines: RefCell::new(RefusalMeter::new(10, 100, services.now())),
            transactions: Cell::new(0),
            reloads: Cell::new(0),
            services: Rc::clone(services),
            custody: Rc::clone(&schedule.custody),
            router: Rc::clone(router),
            schedule: Rc::clone(schedule),
        })
    }

    /// Adopts a reloaded configuration. Open transactions keep their stages, and sessions look up their rights at the
    /// next transaction.
    pub(crate) fn adopt(&self, config: &Config) {
        let (world, console) = (&self.services.world, &self.services.console);
        let pools = &self.services.shared.pressures;
        let new = rules_of(config, &self.protocols, pools);
        let rules = rules_by_socket(&self.listeners.borrow(), &new);
        let stages = stages_of(&self.kinds, config, world, console, pools);
        *self.limits.borrow_mut() = limits_of(config, &rules);
        *self.stages.borrow_mut() = with_own(&rules, &stages, config, world, console);
        *self.common_stages.borrow_mut() = stages;
        *self.listeners.borrow_mut() = rules;
        self.reloads.set(self.reloads.get() + 1);
    }

    /// Header fields and signatures for messages of this server.
    pub(crate) fn above_own(self: &Rc<Self>) -> AboveOwn {
        let ingress = Rc::clone(self);
        Rc::new(move |content| own::above(&ingress.common_stages.borrow(), content))
    }

    fn rules(&self, listener: usize) -> Option<Rc<ListenerRules<dyn Handler<W>>>> {
        self.listeners.borrow().get(listener).cloned()
    }

    /// The active stages of a socket.
    fn stages(&self, socket: usize) -> Stages {
        self.stages.borrow().get(socket).cloned().unwrap_or_default()
    }

    /// A transaction number unique in this shard.
    fn next_transaction(&self) -> u64 {
        self.transactions.set(self.transactions.get() + 1);
        self.transactions.get()
    }

    /// Counts the end of a session. The acceptor counts the start.
    fn count_end(&self) {
        let sessions = &self.services.shared.sessions;
        if let Some(count) = sessions.get(usize::from(self.services.number)) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
