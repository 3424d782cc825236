//! A filter in a session.

use super::link::{Link, MilterError, MilterReply};
use super::message::{Fate, Halt, MacroContext, MilterChanges, MilterMessage, NO_NAME, address_of};
use super::settings::{Milter, OnFailure};
use mail::{Mailbox, Mono, Refusal};
use milter::{FilterDecision, MilterCommand};
use mta::console::Console;
use mta::ingress::{Draft, Session};
use mta::outages::{Outage, ServiceKind};
use mta::problems::Severity;
use mta::seams::{Encryption, Time, World};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A required filter does not answer.
const NO_ANSWER: Refusal =
    Refusal::transient((7, 1), "Mail filter unavailable; try again later").with_code(451);
/// A recipient after a refused DATA. libmilter's state machine permits neither RCPT nor DATA after DATA: it takes
/// either as the end of the message and never replies. The client can start a new transaction (RFC 5321 §4.5.3.1.10).
const TOO_LATE: Refusal = Refusal::transient((5, 3), "Too many recipients; resend to the rest");
/// The same with `on_failure = "reject"`.
const UNHEARD: Refusal = Refusal::permanent((7, 1), "Mail filter unavailable");

/// State of a filter that all sessions of a listener on one shard share.
pub(super) struct FilterContext<W: World> {
    pub(super) world: W,
    pub(super) milter: Milter,
    pub(super) console: Rc<dyn Console>,
    /// It failed the last time. The failure is logged once, not for each message.
    pub(super) is_failing: Cell<bool>,
    /// The same, for all shards; known from the first session on.
    pub(super) outage: OnceCell<Arc<Outage>>,
}

impl<W: World> FilterContext<W> {
    /// Its state in the book of failing services.
    fn outage(&self, session: &Session) -> &Outage {
        let severity = match self.milter.on_failure {
            OnFailure::Accept => Severity::Warning,
            OnFailure::Tempfail | OnFailure::Reject => Severity::Error,
        };
        let of = || session.outages().of(ServiceKind::Milter, &self.milter.name, severity);
        self.outage.get_or_init(of)
    }
}

/// State of a filter in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterState {
    /// No commands sent yet, or the connection is lost: the next message starts again.
    Away,
    /// It has accepted the session and needs no further commands.
    Satisfied,
    /// Between messages.
    Ready,
    /// Within a message.
    Busy,
    /// Within a message, before the content.
    Expecting,
    /// It needs no further commands of the current message.
    Done,
    /// The same, and the message will be discarded.
    Discarding,
    /// It has refused the current message, which DATA does not end (RFC 5321 §4.1.1.4). All further commands get the
    /// same reply.
    Refused(Refusal),
    /// It has failed for the current message.
    Failed,
}

/// The client's HELO name and its encryption.
type Introduced = (Arc<str>, Option<Encryption>);

/// A filter in a session.
pub(super) struct Filter<W: World> {
    shared: Rc<FilterContext<W>>,
    /// Taken out during a command, so that a cancelled command leaves no connection behind.
    link: Option<Link<W>>,
    standing: FilterState,
    introduced: Option<Introduced>,
}

impl<W: World> fmt::Display for Filter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "milter {}", self.shared.milter.name)
    }
}

impl<W: World> Filter<W> {
    pub(super) fn new(shared: &Rc<FilterContext<W>>) -> Filter<W> {
        let shared = Rc::clone(shared);
        Filter { shared, link: None, standing: FilterState::Away, introduced: None }
    }

    /// Opens the connection and starts the session.
    pub(super) async fn connect(
        &mut self,
        known: &MacroContext<'_>,
        until: Mono,
    ) -> Result<(), Refusal> {
        let address = address_of(known.session);
        let step =
            MilterCommand::Connect { name: NO_NAME, address: address.ip(), port: address.port() };
        self.introduced = None;
        // From now on an answer ends a failure of another shard.
        let _ = self.shared.outage(known.session);
        let link = Link::open(&self.shared.world, &self.shared.milter, until).await;
        let verdict = match link {
            Ok(link) => {
                self.link = Some(link);
                self.standing = FilterState::Ready;
                self.ask(&step, known, until).await
            }
            Err(trouble) => Err(trouble),
        };
        self.heed_of_session(verdict, known)
    }

    /// Starts a message: ends the previous one and sends the sender.
    pub(super) async fn mail(
        &mut self,
        known: &MacroContext<'_>,
        parameters: &[&str],
        until: Mono,
    ) -> Result<(), Refusal> {
        if self.standing == FilterState::Satisfied {
            return Ok(());
        }
        if self.link.is_none() {
            self.connect(known, until).await?;
        } else if self.standing != FilterState::Ready {
            self.link.iter_mut().for_each(Link::abort);
            self.standing = FilterState::Ready;
        }
        let client = known.session.client();
        let introduced = (Arc::clone(&client.helo), client.tls);
        if self.standing == FilterState::Ready && self.introduced.as_ref() != Some(&introduced) {
            let verdict = self.ask(&MilterCommand::Helo(&introduced.0), known, until).await;
            self.heed_of_session(verdict, known)?;
            self.introduced = Some(introduced);
        }
        if self.standing != FilterState::Ready {
            return self.stands();
        }
        let sender = known.transaction.and_then(|transaction| transaction.sender.as_ref());
        let sender = sender.map_or("", Mailbox::as_str);
        self.standing = FilterState::Busy;
        let verdict = self.ask(&MilterCommand::Mail { sender, parameters }, known, until).await;
        self.heed(verdict, known)
    }

    /// Sends a recipient.
    pub(super) async fn rcpt(
        &mut self,
        recipient: &Mailbox,
        known: &MacroContext<'_>,
        until: Mono,
    ) -> Result<(), Refusal> {
        match self.standing {
            FilterState::Busy => {}
            FilterState::Expecting => return Err(TOO_LATE),
            _ => return self.stands(),
        }
        let verdict = self.ask(&MilterCommand::Rcpt(recipient.as_str()), known, until).await;
        match verdict {
            // Refuses this recipient only.
            Ok(FilterDecision::Refuse(refusal)) => {
                self.note(None);
                Err(refused(refusal, known))
            }
            verdict => self.heed(verdict, known),
        }
    }

    /// Announces the content.
    pub(super) async fn data(
        &mut self,
        known: &MacroContext<'_>,
        until: Mono,
    ) -> Result<(), Refusal> {
        if self.standing != FilterState::Busy {
            return self.stands();
        }
        let verdict = self.ask(&MilterCommand::Data, known, until).await;
        self.standing = FilterState::Expecting;
        self.heed(verdict, known)
    }

    /// Returns true if the filter takes part in the message with the content now complete.
    pub(super) fn is_concerned(&self) -> bool {
        !matches!(
            self.standing,
            FilterState::Away | FilterState::Satisfied | FilterState::Ready | FilterState::Done
        )
    }

    /// Sends the whole message. The filter's changes are applied to `message` and `draft` after its final reply.
    pub(super) async fn content(
        &mut self,
        message: &mut MilterMessage,
        draft: &mut Draft,
        known: &MacroContext<'_>,
        until: Mono,
    ) -> Result<Fate, Refusal> {
        match self.standing {
            FilterState::Busy | FilterState::Expecting => {}
            FilterState::Discarding => return Ok(Fate::Discarded),
            _ => return self.stands().map(|()| Fate::Kept),
        }
        let Some(mut link) = self.link.take() else {
            return self.fail("connection lost", known).map(|()| Fate::Kept);
        };
        let timeout = self.shared.milter.content_timeout;
        let said = message.tell(&mut link, draft, known, (timeout, until)).await;
        self.standing = FilterState::Done;
        let (verdict, wanted) = match said {
            Ok((verdict, Some(wanted))) => {
                // The filter has received the end, so nothing needs an abort.
                self.standing = FilterState::Ready;
                (verdict, wanted)
            }
            Ok((verdict, None)) => (verdict, MilterChanges::default()),
            Err(Halt::Ours(refusal)) => return Err(refusal),
            Err(Halt::Trouble(trouble)) => {
                return self.fail(&trouble, known).map(|()| Fate::Kept);
            }
        };
        let leading_space = link.dialogue.agreed().is_some_and(milter::Agreed::has_leading_space);
        self.link = Some(link);
        match verdict {
            FilterDecision::Refuse(refusal) => {
                self.note(None);
                Err(refused(refusal, known))
            }
            FilterDecision::Discard => {
                self.note(None);
                Ok(Fate::Discarded)
            }
            _ => self.make(wanted, message, draft, leading_space, known),
        }
    }

    /// Applies the filter's changes.
    fn make(
        &mut self,
        wanted: MilterChanges,
        message: &mut MilterMessage,
        draft: &mut Draft,
        leading_space: bool,
        known: &MacroContext<'_>,
    ) -> Result<Fate, Refusal> {
        match message.make(wanted, draft, leading_space, &self.to_string()) {
            Ok(fate) => {
                self.note(None);
                Ok(fate)
            }
            Err(trouble) => self.fail(&trouble, known).map(|()| Fate::Kept),
        }
    }

    /// Sends a command before the content, and returns the decision.
    async fn ask(
        &mut self,
        step: &MilterCommand<'_>,
        known: &MacroContext<'_>,
        until: Mono,
    ) -> Result<FilterDecision, MilterError> {
        let mut link = self.link.take().ok_or_else(|| "connection lost".to_owned())?;
        let timeout = self.shared.milter.command_timeout;
        let symbols = |name: &str| known.symbol(name);
        let verdict = match link.tell(step, &symbols, timeout, until).await? {
            false => FilterDecision::GoOn,
            true => match link.hear(timeout, until).await? {
                MilterReply::Verdict(verdict) => verdict,
                MilterReply::Change(_) => {
                    return Err("modification before the end of the message".to_owned());
                }
            },
        };
        self.link = Some(link);
        Ok(verdict)
    }

    /// Applies a reply about the session.
    fn heed_of_session(
        &mut self,
        verdict: Result<FilterDecision, MilterError>,
        known: &MacroContext<'_>,
    ) -> Result<(), Refusal> {
        match verdict {
            Ok(FilterDecision::Accept) => {
                self.note(None);
                // It needs no further commands, so the connection is closed.
                (self.link, self.standing) = (None, FilterState::Satisfied);
                Ok(())
            }
            verdict => {
                let standing = self.standing.clone();
                let heeded = self.heed(verdict, known);
                if matches!(self.standing, FilterState::Done | FilterState::Refused(_)) {
                    self.standing = standing;
                }
                heeded
            }
        }
    }

    /// Applies a reply about the message.
    fn heed(
        &mut self,
        verdict: Result<FilterDecision, MilterError>,
        known: &MacroContext<'_>,
    ) -> Result<(), Refusal> {
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(trouble) => return self.fail(&trouble, known),
        };
        match verdict {
            // Recovery of the filter is logged at the end of the message only.
            FilterDecision::GoOn | FilterDecision::Skip => return Ok(()),
            FilterDecision::Accept => self.standing = FilterState::Done,
            FilterDecision::Discard => self.standing = FilterState::Discarding,
            FilterDecision::Refuse(refusal) => {
                self.note(None);
                self.standing = FilterState::Refused(refusal.clone());
                return Err(refused(refusal, known));
            }
        }
        self.note(None);
        Ok(())
    }

    /// Records a failure.
    fn fail(&mut self, why: &str, known: &MacroContext<'_>) -> Result<(), Refusal> {
        known.session.metrics().milter_failures.inc();
        self.shared.outage(known.session).failed(why, self.shared.world.time().wall());
        self.note(Some(why));
        (self.link, self.standing) = (None, FilterState::Failed);
        self.stands()
    }

    /// The result for the rest of the message, after the filter's refusal or failure.
    fn stands(&self) -> Result<(), Refusal> {
        match (&self.standing, self.shared.milter.on_failure) {
            (FilterState::Refused(refusal), _) => Err(refusal.clone()),
            (FilterState::Failed, OnFailure::Tempfail) => Err(NO_ANSWER),
            (FilterState::Failed, OnFailure::Reject) => Err(UNHEARD),
            _ => Ok(()),
        }
    }

    /// Logs the beginning and the end of a failure.
    fn note(&self, trouble: Option<&str>) {
        let FilterContext { is_failing, console, milter, .. } = &*self.shared;
        let was_failing = is_failing.replace(trouble.is_some());
        if let (None, Some(outage)) = (trouble, self.shared.outage.get()) {
            outage.answered();
        }
        let (name, on_failure) = (&milter.name, milter.on_failure);
        match trouble {
            Some(why) if !was_failing => {
                console.warn("milter", format_args!("{name}: {why}; on failure: {on_failure}"));
            }
            None if was_failing => console.warn("milter", format_args!("{name}: recovered")),
            _ => {}
        }
    }
}

fn refused(refusal: Refusal, known: &MacroContext<'_>) -> Refusal {
    known.session.metrics().milter_refusals.inc();
    refusal
}
