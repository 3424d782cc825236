//! Core interface for messages that are not internet mail (X.400). They pass no stages, get no header fields, and their
//! recipients are decided by routes alone.

use super::connection::Connection;
use super::draft::Draft;
use super::transaction::Transaction;
use crate::clients::asker_of;
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::seams::World;
use crate::unheard::ApduDedup;
use bytes::Bytes;
use config::Config;
use mail::Refusal;
use std::sync::Arc;

/// Data stored with a foreign message.
#[derive(Clone, Debug, Default)]
pub struct NativeMessage {
    /// Native octets for the channel. If empty, the message gets header fields like internet mail.
    pub kept: Bytes,
    /// Recipients, by index, that are not delivered, with the reason for their report.
    pub refused: Vec<(u32, Refusal)>,
    /// Additional fields for the event.
    pub told: Vec<(Arc<str>, Box<str>)>,
    /// The reason to hold the message for an operator: its octets can't be read. The hold is charged to the peer and
    /// ends like holds by checks.
    pub hold: Option<Box<str>>,
}

impl<W: World> Connection<W> {
    /// Notes that the client has proved to be this peer. It may send to every domain that has a route.
    pub fn recognise_peer(&mut self, name: &str) {
        self.take_for_user(name);
        self.count.settle();
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.ingress.router.active().config)
    }

    /// The tables that the configuration names, for this client.
    #[must_use]
    pub fn tables(&self) -> W::Tables {
        let client = self.session.client().address.ip();
        self.ingress.services.world.tables(asker_of(client))
    }

    /// Deduplication of APDUs that peers may resend.
    #[must_use]
    pub fn unheard(&self) -> &ApduDedup {
        &self.ingress.services.shared.unheard
    }

    /// Returns true if the simulator has planted this fault.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn has_planted(&self, fault: Planted) -> bool {
        self.ingress.services.has_planted(fault)
    }

    /// Logs a warning within a rate limit.
    pub fn warn(&self, what: &'static str, text: std::fmt::Arguments<'_>) {
        let services = &self.ingress.services;
        match self.ingress.foreign_lines.borrow_mut().admit(services.now()) {
            None => {}
            Some(0) => services.console.warn(what, text),
            Some(others) => {
                services.console.warn(what, format_args!("{text} ({others} lines suppressed)"));
            }
        }
    }
}

impl<W: World> Transaction<W> {
    /// Drops the content received so far. The transaction stays open.
    pub fn drop_content(&mut self) {
        self.intake.reset();
    }
}

impl Draft {
    /// Marks the message as foreign and stores its native data. A report about refused recipients is generated once the
    /// message is durable.
    pub(super) fn take_foreign(&mut self, foreign: NativeMessage) {
        let NativeMessage { kept, refused, told, hold } = foreign;
        (self.is_foreign, self.hides_client) = (true, true);
        self.x400 = (!kept.is_empty()).then_some(kept);
        for (index, refusal) in refused {
            if (index as usize) < self.envelope.recipients.len() {
                self.records.get_mut(index).refused = Some(refusal);
            }
        }
        self.note_headers(told);
        if let Some(reason) = hold {
            self.hold(&reason);
        }
    }
}
