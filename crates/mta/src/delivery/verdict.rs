//! Results of recipients, and rules for which results are reported.

use super::unreported::FailedRecipient;
use crate::event::{self, AttemptTimes, Done, Event, FailedAttempt, Hop, Kind};
use crate::message::Message;
use crate::metrics::{AttemptOutcome, Metrics, PartyLabels, RecipientOutcome, RequireTlsLack};
use crate::routing::require_tls::{ENCRYPTION_NEEDED, REQUIRETLS_NEEDED};
use crate::seams::World;
use crate::services::Services;
use mail::dsn::{DsnOutcome, Success};
use mail::{Class, Domain, EnhancedStatus, Failure, Notify, Reply, RequireTls, Wall};
use queue::EntryId;
use spool::SettleKind;
use std::sync::Arc;
use std::time::Duration;

/// Counts a failure of a message with REQUIRETLS for which TLS was not available, by its status code (RFC 8689 §4.2.1).
pub(super) fn count_want_of_tls(metrics: &Metrics, asked: RequireTls, failure: &Failure) {
    match (asked, failure.status) {
        (RequireTls::Yes, ENCRYPTION_NEEDED) => {
            metrics.require_tls_failures[RequireTlsLack::Encryption].inc()
        }
        (RequireTls::Yes, REQUIRETLS_NEEDED) => {
            metrics.require_tls_failures[RequireTlsLack::RequireTls].inc()
        }
        _ => {}
    }
}

/// The labels of the parties involved in a delivery to a next hop.
pub(super) fn concerned<'a>(hop: Option<&'a Hop>, message: Option<&'a Message>) -> PartyLabels<'a> {
    PartyLabels {
        provider: hop.and_then(|hop| hop.provider.as_deref()),
        source: hop.and_then(|hop| hop.source.as_deref()),
        tenant: message.and_then(Message::tenant),
    }
}

/// The outcome of a recipient.
#[derive(Clone, Debug)]
pub(crate) enum DeliveryOutcome {
    /// Failed.
    Failed(Arc<Failure>),
    /// Expired.
    Expired {
        /// The last failure, if it is known.
        failure: Option<Arc<Failure>>,
        after: Duration,
    },
    /// Delayed.
    Delayed {
        /// The reason for the delay, if it is known.
        failure: Option<Arc<Failure>>,
        /// Time at which it expires.
        give_up_at: Wall,
        /// Its queue entry.
        entry: EntryId,
    },
    /// Stored in a local mailbox.
    Delivered(Reply),
    /// Relayed to a server without DSN support.
    Relayed(Reply),
}

impl DeliveryOutcome {
    /// The NOTIFY value that requests this report.
    pub(crate) fn wish(&self) -> Notify {
        match self {
            DeliveryOutcome::Failed(_) | DeliveryOutcome::Expired { .. } => Notify::FAILURE,
            DeliveryOutcome::Delayed { .. } => Notify::DELAY,
            DeliveryOutcome::Delivered(_) | DeliveryOutcome::Relayed(_) => Notify::SUCCESS,
        }
    }
}

/// The result of a recipient.
#[derive(Clone, Debug)]
pub(crate) struct RecipientResult {
    /// Its index in the envelope.
    pub(crate) index: u32,
    pub(crate) at: Wall,
    pub(crate) attempts: u16,
    /// Time of the last attempt, if it is known.
    pub(crate) tried_at: Option<Wall>,
    pub(crate) hop: Option<Arc<Hop>>,
    pub(crate) times: AttemptTimes,
    /// Its domain, as long as the message is not loaded.
    pub(crate) domain: Option<Domain>,
    pub(crate) verdict: DeliveryOutcome,
}

impl RecipientResult {
    /// The kind of settle; `None` if the recipient stays in the queue.
    pub(crate) fn settle_kind(&self) -> Option<SettleKind> {
        match self.verdict {
            DeliveryOutcome::Failed(_) => Some(SettleKind::Failed),
            DeliveryOutcome::Expired { .. } => Some(SettleKind::Expired),
            DeliveryOutcome::Delayed { .. } => None,
            DeliveryOutcome::Delivered(_) => Some(SettleKind::Delivered),
            DeliveryOutcome::Relayed(_) => Some(SettleKind::Relayed),
        }
    }

    /// Returns true if it left the queue undelivered.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.verdict, DeliveryOutcome::Failed(_) | DeliveryOutcome::Expired { .. })
    }

    /// Returns true if its settle counts as delivered.
    pub(crate) fn is_delivered(&self) -> bool {
        matches!(self.verdict, DeliveryOutcome::Delivered(_) | DeliveryOutcome::Relayed(_))
    }

    pub(crate) fn failure(&self) -> Option<&Arc<Failure>> {
        match &self.verdict {
            DeliveryOutcome::Failed(failure) => Some(failure),
            DeliveryOutcome::Expired { failure, .. } | DeliveryOutcome::Delayed { failure, .. } => {
                failure.as_ref()
            }
            DeliveryOutcome::Delivered(_) | DeliveryOutcome::Relayed(_) => None,
        }
    }

    pub(crate) fn count<W: World>(&self, services: &Services<W>, message: &Message) {
        let metrics = &services.metrics;
        if self.is_delivered() {
            metrics.delivery_delay.observe(self.at.since(message.received_at));
        }
        let came = match self.verdict {
            DeliveryOutcome::Delivered(_) | DeliveryOutcome::Relayed(_) => {
                Some(AttemptOutcome::Sent)
            }
            DeliveryOutcome::Failed(_) | DeliveryOutcome::Expired { .. } => {
                Some(AttemptOutcome::Failed)
            }
            DeliveryOutcome::Delayed { .. } => None,
        };
        if let Some(came) = came {
            let concerned = concerned(self.hop.as_deref(), Some(message));
            services.shared.sending.note(concerned, came, 1);
        }
        match self.verdict {
            DeliveryOutcome::Delivered(_) => {
                metrics.recipients_done[RecipientOutcome::Delivered].inc()
            }
            DeliveryOutcome::Relayed(_) => {
                metrics.recipients_done[RecipientOutcome::Relayed].inc();
                metrics.bytes_sent.add(message.content_bytes());
            }
            DeliveryOutcome::Failed(ref failure) => {
                services.note_failed(failure);
                count_want_of_tls(metrics, message.require_tls(), failure);
            }
            DeliveryOutcome::Expired { .. } => {
                metrics.recipients_done[RecipientOutcome::Expired].inc()
            }
            DeliveryOutcome::Delayed { .. } => {}
        }
    }

    /// Adds the reason of the last failed attempt from the message, if the queue no longer has it.
    pub(crate) fn recall(&mut self, message: &Message) {
        let (DeliveryOutcome::Expired { failure, .. } | DeliveryOutcome::Delayed { failure, .. }) =
            &mut self.verdict
        else {
            return;
        };
        if failure.is_none() {
            let known = if self.attempts > 0 { message.last_failure() } else { None };
            *failure = Some(known.unwrap_or_else(unknown_failure));
        }
    }

    /// The form in which operators see it until it is settled; `address` may be incomplete.
    pub(crate) fn given_up(&self, address: String, received_at: Wall) -> Option<FailedRecipient> {
        self.is_given_up().then(|| FailedRecipient {
            index: self.index,
            address,
            domain: self.domain.clone(),
            received_at,
            attempts: self.attempts,
            failure: self.failure().cloned(),
            unreadable: None,
        })
    }

    /// The outcome as a DSN reports it, after [`RecipientResult::recall`].
    pub(crate) fn outcome(&self) -> Option<DsnOutcome<'_>> {
        Some(match &self.verdict {
            DeliveryOutcome::Failed(failure) => DsnOutcome::Failed(failure),
            DeliveryOutcome::Expired { failure: Some(failure), after } => {
                DsnOutcome::Expired { failure, after: *after }
            }
            DeliveryOutcome::Delayed { failure: Some(failure), give_up_at, .. } => {
                DsnOutcome::Delayed { failure, retry_until: *give_up_at }
            }
            DeliveryOutcome::Expired { failure: None, .. }
            | DeliveryOutcome::Delayed { failure: None, .. } => {
                return None;
            }
            DeliveryOutcome::Delivered(reply) => {
                DsnOutcome::Delivered(Success { peer: None, reply: Some(reply) })
            }
            DeliveryOutcome::Relayed(reply) => DsnOutcome::Relayed(Success {
                peer: self.hop.as_ref().map(|hop| &*hop.peer),
                reply: Some(reply),
            }),
        })
    }

    /// The event for the event log.
    pub(crate) fn event<W: World>(&self, services: &Services<W>, message: &Message) -> Event {
        let trouble = || {
            Box::new(FailedAttempt {
                hop: self.hop.clone(),
                failure: self.failure().cloned(),
                class: self.failure().and_then(|failure| services.classes.of(failure)),
                attempts: self.attempts,
                next_try: None,
                times: self.times,
            })
        };
        let kind = match (&self.verdict, &self.hop) {
            (DeliveryOutcome::Delivered(reply), Some(hop)) => {
                Kind::Delivered(done(hop, reply, self))
            }
            (DeliveryOutcome::Relayed(reply), Some(hop)) => Kind::Relayed(done(hop, reply, self)),
            (DeliveryOutcome::Expired { .. }, _) => Kind::Expired(trouble()),
            (DeliveryOutcome::Delayed { .. }, _) => Kind::Delayed(trouble()),
            _ => Kind::Failed(trouble()),
        };
        Event {
            at: self.at,
            message: Some(message.in_events()),
            recipients: event::Recipients::from_slice(&[self.index]),
            kind,
        }
    }
}

fn done(hop: &Arc<Hop>, reply: &Reply, judged: &RecipientResult) -> Box<Done> {
    let RecipientResult { attempts, times, .. } = *judged;
    Box::new(Done { hop: Arc::clone(hop), reply: Some(reply.clone()), attempts, times })
}

/// The failure of a recipient if its reason is no longer known.
fn unknown_failure() -> Arc<Failure> {
    let status = EnhancedStatus::new(4, 4, 7);
    Arc::new(Failure::local(Class::Transient, status, "the message could not be delivered in time"))
}

/// Returns true if the sender wants this report.
pub(crate) fn is_wanted(message: &Message, index: u32, wish: Notify) -> bool {
    // The sender of an unauthenticated client may be forged: a failure must still be reported, but successes and delays
    // are not.
    if message.is_from_stranger() && wish != Notify::FAILURE {
        return false;
    }
    // RFC 5321 §4.5.5: no report to a null reverse-path.
    message.envelope.reverse_path.is_some()
        && message
            .envelope
            .recipients
            .get(index as usize)
            .is_some_and(|recipient| recipient.notify.wants(wish))
}
