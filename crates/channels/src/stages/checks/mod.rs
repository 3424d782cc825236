//! Sender authentication (`checks` of a listener).

mod seal;
mod sealing;
mod settings;
mod turns;

use super::lookups::{CHECKS_TIME_MAX, CheckLimits, LOOKUPS_MAX, Lookups};
use auth::checks::{Shares, Subject, Verdicts, check_apart};
use auth::dmarc::RequestedPolicy;
use auth::dmarc::reporting::ReportedMessage;
use auth::iprev::{self, NAMES_MAX};
use auth::judgement::{ActionLimit, PolicyAction, judge};
use auth::results::lines;
use auth::scan::{Scan, Scanned};
use auth::spf::{Sender, SpfQuery};
use auth::{arc, dkim, dmarc};
use config::Config;
use mail::{Recipient, RefusalClass};
use mta::answer::{Answer, Decision};
use mta::clients::network_of;
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Placed, Resolved, Routed, Stage, StageKind, TransactionView, observed,
};
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seams::{DomainReports as _, Time, World};
use sealing::{Sealer, Verified};
pub(crate) use settings::CheckRules;
use settings::Checks;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use turns::{ALL_AT_ONCE_MAX, CheckQueues};

/// Checks messages of clients that may not relay, at listeners with `checks`.
pub(crate) struct Checking;

impl<W: World> StageKind<W> for Checking {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed> {
        if lookups_at_once(config) == 0 {
            return Vec::new();
        }
        let lines = Rc::new(CheckQueues::default());
        for turns in [&lines.checks, &lines.policies, &lines.names] {
            pools.register(PoolId::CheckQuestions, turns.line());
        }
        let names = ClientNames { world: world.clone(), lines: Rc::clone(&lines) };
        let stage =
            Checker { world: world.clone(), server: Arc::from(config.hostname.as_str()), lines };
        let sealer = Sealer::new(world, Arc::clone(&stage.server), console);
        // First in order, since later stages may depend on the results. The seal is last and covers added fields.
        let mut stages = vec![
            Placed { line: 0, stage: Rc::new(names) },
            Placed { line: 0, stage: Rc::new(stage) },
        ];
        if config.listeners.iter().any(|listener| CheckRules::seal_at(listener).is_some()) {
            stages.push(Placed { line: u32::MAX, stage: Rc::new(sealer) });
        }
        stages
    }
}

/// Maximum number of concurrent lookups of one check for one message. A single message must not delay lookups for other
/// messages of the same client.
const AT_ONCE_MAX: usize = 4;

/// Maximum number of concurrent lookups of checks on each shard.
pub(super) fn lookups_at_once(config: &Config) -> u32 {
    let is_checked =
        config.listeners.iter().any(|listener| CheckRules::checks_at(listener).is_some());
    if is_checked { ALL_AT_ONCE_MAX } else { 0 }
}

struct Checker<W: World> {
    world: W,
    /// Authserv-id of this server.
    server: Arc<str>,
    lines: Rc<CheckQueues>,
}

/// Scans the message as it arrives.
struct CheckReader(Scan);

impl Observer for CheckReader {
    fn push(&mut self, piece: &[u8]) {
        self.0.push(piece);
    }

    fn held(&self) -> usize {
        self.0.held()
    }
}

/// The checks of a transaction. `None` if the client may relay.
fn checks_for(transaction: &TransactionView) -> Option<&Checks> {
    let session = &transaction.session;
    CheckRules::checks_at(session.listener()).filter(|_| !session.may_relay())
}

impl<W: World> Stage for Checker<W> {
    fn name(&self) -> &'static str {
        "checks"
    }

    fn observe(&self, transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        let checks = checks_for(transaction)?;
        let asked = checks.powers.asked();
        Some(Box::new(CheckReader(match CheckRules::seal_at(transaction.session.listener()) {
            Some(_) => asked.scan_to_sign(),
            None => asked.scan(),
        })))
    }

    fn speaks_as(&self, transaction: &Rc<TransactionView>) -> Option<&str> {
        // RFC 8601 §5: incoming fields with this server's authserv-id are removed at every listener, even without
        // checks. Clients that may relay without a login are internal, and may have run the checks themselves.
        let session = &transaction.session;
        let is_of_house = session.may_relay() && session.client().login.is_none();
        (!is_of_house).then_some(&*self.server)
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let reader = observed::<CheckReader>(observer);
        let (Some(checks), Some(reader)) = (checks_for(transaction), reader) else {
            return Decision::pass();
        };
        let message = reader.0.finish();
        Answer::later(async move {
            let mut verdicts = self.check(checks, transaction, &message).await;
            if checks.powers.asked().iprev {
                let client = transaction.session.client();
                let found = client.name.get().cloned();
                verdicts.iprev = found.map(|found| (client.address.ip(), found));
            }
            draft.note_checked(verdicts.summary());
            let author = verdicts.dmarc.as_ref().and_then(|dmarc| dmarc.domain.as_deref());
            let sender = transaction.sender.as_ref().map(ascii_domain);
            draft.note_author(author, verdicts.prove(sender.as_deref()));
            draft.prepend_folded(&lines(&self.server, &verdicts));
            let judgement = judge(&checks.powers, &verdicts);
            if self.world.domain_reports().is_on()
                && let Some(message) = reported(transaction, &verdicts, &judgement)
            {
                self.world.domain_reports().note(message);
            }
            match judgement {
                PolicyAction::Take => {}
                PolicyAction::Hold(reason) => draft.hold(&reason),
                PolicyAction::Refuse(refusal) => return Err(refusal),
            }
            if CheckRules::seal_at(transaction.session.listener()).is_some() {
                draft.leave(Box::new(Verified { message, verdicts }));
            }
            Ok(())
        })
    }
}

impl<W: World> Checker<W> {
    async fn check(
        &self,
        checks: &Checks,
        transaction: &TransactionView,
        message: &Scanned,
    ) -> Verdicts {
        let client = transaction.session.client();
        let sender = transaction.sender.as_ref();
        let sender = sender.map(|sender| (sender.local_unquoted(), ascii_domain(sender)));
        let time = self.world.time();
        let now = time.wall().0 / 1_000;
        let question = SpfQuery {
            client: client.address.ip(),
            sender: sender.as_ref().map(|(local, domain)| Sender { local, domain }),
            helo: &client.helo,
            receiver: &self.server,
            now,
        };
        let chance = u8::try_from(time.random() % 100).unwrap_or(0);
        let network = network_of(client.address.ip());
        let within = |line, lookups_max| {
            let limits =
                CheckLimits { time_max: CHECKS_TIME_MAX, lookups_max, at_once_max: AT_ONCE_MAX };
            Lookups::within(&self.world, line, limits)
        };
        let line = || self.lines.checks.of(network);
        let shares = Shares {
            policy: &within(self.lines.policies.of(network), dmarc::LOOKUPS_MAX),
            spf: &within(line(), LOOKUPS_MAX),
            dkim: &within(line(), dkim::LOOKUPS_MAX),
            arc: &within(line(), arc::LOOKUPS_MAX),
        };
        let subject = Subject { question: Some(question), message, now, chance };
        check_apart(shares, checks.powers.asked(), subject).await
    }
}

/// The domain in ASCII, or as written if it can't be converted.
pub(super) fn ascii_domain(sender: &mail::Mailbox) -> String {
    sender.domain().to_ascii().unwrap_or_else(|_| sender.domain_str().to_owned())
}

const NAME_LIMITS: CheckLimits = CheckLimits {
    // MAIL waits for it that long; then the result is unknown.
    time_max: Duration::from_secs(10),
    // One lookup for the names, and one for the addresses of each name.
    lookups_max: 1 + NAMES_MAX as u32,
    at_once_max: AT_ONCE_MAX,
};

/// Looks up the names of clients, once in a session, at listeners with `client_name`.
struct ClientNames<W: World> {
    world: W,
    lines: Rc<CheckQueues>,
}

impl<W: World> Stage for ClientNames<W> {
    fn name(&self) -> &'static str {
        "client_name"
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let client = transaction.session.client();
        let is_wanted = checks_for(transaction).is_some_and(|checks| checks.powers.asked().iprev);
        if !is_wanted || client.name.get().is_some() {
            return Decision::pass();
        }
        Answer::later(async move {
            let turn = self.lines.names.of(network_of(client.address.ip()));
            let lookups = Lookups::within(&self.world, turn, NAME_LIMITS);
            let found = iprev::check(&lookups, client.address.ip()).await;
            transaction.session.note_name(found);
            Ok(())
        })
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        _recipient: &Recipient,
        _routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        let found = transaction.session.client().name.get();
        let (Some(checks), Some(found)) = (checks_for(transaction), found) else {
            return Answer::Now(Ok(None));
        };
        let power = checks.powers.client_name;
        let refusal = found.refusal(checks.powers.defers);
        let refusal = refusal.filter(|_| match found.verdict {
            iprev::IprevResult::TempError | iprev::IprevResult::CutShort => {
                power >= ActionLimit::Hold
            }
            _ => power == ActionLimit::Reject,
        });
        Answer::Now(refusal.map_or(Ok(None), Err))
    }
}

/// The message for an aggregate report. `None` if no report is requested, or the message was deferred and will be sent
/// again.
fn reported(
    transaction: &TransactionView,
    verdicts: &Verdicts,
    judgement: &PolicyAction,
) -> Option<ReportedMessage> {
    let dmarc = verdicts.dmarc.as_ref()?;
    let sender = transaction.sender.as_ref();
    Some(ReportedMessage {
        applied: dmarc.applied.clone()?,
        source: transaction.session.client().address.ip(),
        disposition: match judgement {
            PolicyAction::Take => RequestedPolicy::None,
            PolicyAction::Hold(_) => RequestedPolicy::Quarantine,
            PolicyAction::Refuse(refusal) if refusal.class == RefusalClass::Transient => {
                return None;
            }
            PolicyAction::Refuse(_) => RequestedPolicy::Reject,
        },
        wish: dmarc.wish,
        author: dmarc.domain.clone()?,
        envelope_from: sender.map(ascii_domain).unwrap_or_default(),
        spf: verdicts.spf.clone()?,
        dkim: verdicts.dkim.clone()?,
    })
}
