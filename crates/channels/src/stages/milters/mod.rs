//! Milters: filters of sessions and messages by Sendmail's milter protocol (`milters` of a listener).
//!
//! Each session has a connection to each filter, from beginning to end. Commands are sent as they arrive. The content
//! is sent when it is complete, from memory or disk, so that filters cost no further copy. Only then may a filter
//! change the message.

mod filter;
mod link;
mod message;
mod settings;

use config::Config;
use filter::{Filter, FilterContext};
use mail::{Mono, Recipient, Refusal};
use message::{Fate, MacroContext, MilterMessage};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Draft, Observer, Placed, Session, Stage, StageKind, TransactionView};
use mta::pressure::Pressures;
use mta::seams::{Time, World};
pub(crate) use settings::MilterKeys;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// Time limit for all filters together for one command before the content; then they count as failed. Clients wait five
/// minutes (RFC 5321 §4.5.3.2.3), other stages need time as well, and each decision is limited to 100 seconds.
const STEP_TIME_MAX: Duration = Duration::from_secs(90);
/// The same for the content; clients wait ten minutes (RFC 5321 §4.5.3.2.6).
const CONTENT_TIME_MAX: Duration = Duration::from_secs(480);
/// Timeout of the whole stage. The filters' timeouts apply earlier.
const CONTENT_PATIENCE: Duration = Duration::from_secs(500);

/// The stage of milters.
pub(crate) struct Milters;

impl<W: World> StageKind<W> for Milters {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        if milter_connections(config) == 0 {
            return Vec::new();
        }
        let shared = |milter: &_| {
            let (world, milter, console) =
                (world.clone(), Clone::clone(milter), Rc::clone(console));
            let (is_failing, outage) = (Cell::new(false), OnceCell::new());
            Rc::new(FilterContext { world, milter, console, is_failing, outage })
        };
        let of_listeners = config.listeners.iter().map(|listener| {
            (Arc::clone(&listener.name), MilterKeys::at(listener).iter().map(shared).collect())
        });
        let host = Rc::from(config.hostname.as_str());
        let stage =
            MilterStage { world: world.clone(), host, of_listeners: of_listeners.collect() };
        // After the other stages: filters see their changes, and no message that they refuse. Only the seal comes
        // later.
        vec![Placed { line: u32::MAX - 1, stage: Rc::new(stage) }]
    }
}

/// Maximum number of connections to filters for one session.
#[must_use]
pub fn milter_connections(config: &Config) -> u32 {
    let counts = config.listeners.iter().map(|listener| MilterKeys::at(listener).len());
    u32::try_from(counts.max().unwrap_or(0)).unwrap_or(u32::MAX)
}

struct MilterStage<W: World> {
    world: W,
    /// Name of this server.
    host: Rc<str>,
    of_listeners: BTreeMap<Arc<str>, Vec<Rc<FilterContext<W>>>>,
}

/// The filters of a session. The lock lets them see one recipient at a time.
type Filters<W> = Rc<Mutex<Vec<Filter<W>>>>;

impl<W: World> MilterStage<W> {
    /// The filters of a session, created once for each session. `None` if the listener has none.
    fn filters(&self, session: &Session) -> Option<Filters<W>> {
        let shared = self.of_listeners.get(&*session.listener().name)?;
        if shared.is_empty() {
            return None;
        }
        session.attached(|| Rc::new(Mutex::new(shared.iter().map(Filter::new).collect())))
    }

    fn known<'a>(&'a self, session: &'a Session) -> MacroContext<'a> {
        MacroContext { host: &self.host, session, transaction: None, recipient: None, id: None }
    }

    fn known_of<'a>(&'a self, transaction: &'a TransactionView) -> MacroContext<'a> {
        MacroContext { transaction: Some(transaction), ..self.known(&transaction.session) }
    }

    fn until(&self, time: Duration) -> Mono {
        self.world.time().now() + time
    }
}

impl<W: World> Stage for MilterStage<W> {
    fn name(&self) -> &'static str {
        "milters"
    }

    fn connect<'a>(&'a self, session: &'a Rc<Session>) -> Decision<'a, ()> {
        let Some(filters) = self.filters(session) else { return Decision::pass() };
        Answer::later(async move {
            let (known, until) = (self.known(session), self.until(STEP_TIME_MAX));
            for filter in filters.lock().await.iter_mut() {
                filter.connect(&known, until).await?;
            }
            Ok(())
        })
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let Some(filters) = self.filters(&transaction.session) else { return Decision::pass() };
        Answer::later(async move {
            let (known, until) = (self.known_of(transaction), self.until(STEP_TIME_MAX));
            let size = transaction.size.map(|size| format!("SIZE={size}"));
            let parameters: Vec<&str> = size.as_deref().into_iter().collect();
            for filter in filters.lock().await.iter_mut() {
                filter.mail(&known, &parameters, until).await?;
            }
            Ok(())
        })
    }

    fn taken(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
    ) -> Decision<'static, ()> {
        let Some(filters) = self.filters(&transaction.session) else { return Decision::pass() };
        let (transaction, host) = (Rc::clone(transaction), Rc::clone(&self.host));
        let (mailbox, until) = (recipient.mailbox.clone(), self.until(STEP_TIME_MAX));
        Answer::later(async move {
            let known = MacroContext {
                host: &host,
                session: &transaction.session,
                transaction: Some(&transaction),
                recipient: Some(&mailbox),
                id: None,
            };
            for filter in filters.lock().await.iter_mut() {
                filter.rcpt(&mailbox, &known, until).await?;
            }
            Ok(())
        })
    }

    fn data<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        let Some(filters) = self.filters(&transaction.session) else { return Decision::pass() };
        Answer::later(async move {
            let (known, until) = (self.known_of(transaction), self.until(STEP_TIME_MAX));
            for filter in filters.lock().await.iter_mut() {
                filter.data(&known, until).await?;
            }
            Ok(())
        })
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let Some(filters) = self.filters(&transaction.session) else { return Decision::pass() };
        Answer::later(async move {
            let id = Some(draft.id().to_string());
            let known = MacroContext { id, ..self.known_of(transaction) };
            let until = self.until(CONTENT_TIME_MAX);
            let mut filters = filters.lock().await;
            if let Some(by) = pass(&mut filters, draft, &known, until).await? {
                transaction.session.metrics().milter_discards.inc();
                draft.discard(&format!("discarded by {by}"));
            }
            Ok(())
        })
    }

    fn content_time_max(&self) -> Duration {
        CONTENT_PATIENCE
    }
}

/// Sends the message to the filters in order. Returns the name of the filter that discards it, if one does.
async fn pass<W: World>(
    filters: &mut MutexGuard<'_, Vec<Filter<W>>>,
    draft: &mut Draft,
    known: &MacroContext<'_>,
    until: Mono,
) -> Result<Option<String>, Refusal> {
    if !filters.iter().any(Filter::is_concerned) {
        return Ok(None);
    }
    let mut message = MilterMessage::read(draft).await?;
    for filter in filters.iter_mut() {
        if let Fate::Discarded = filter.content(&mut message, draft, known, until).await? {
            return Ok(Some(filter.to_string()));
        }
    }
    if message.put(draft).await? {
        known.session.metrics().milter_rewrites.inc();
    }
    Ok(None)
}
