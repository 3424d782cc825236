//! Messages that are no internet mail: what a protocol of another kind may ask of the core for one of them.
//! They pass no stages, get no header fields, and whom they are for is decided by routes alone.

use super::connection::Connection;
use super::draft::Draft;
use super::transaction::Transaction;
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::seams::World;
use crate::unheard::ApduDedup;
use bytes::Bytes;
use config::Config;
use mail::Refusal;
use std::sync::Arc;

/// What is kept with such a message.
#[derive(Clone, Debug, Default)]
pub struct NativeMessage {
    /// The octets that its channel needs; none: it gets header fields as internet mail does.
    pub kept: Bytes,
    /// Recipients, by their indexes, that are not delivered to, with what is reported of them.
    pub refused: Vec<(u32, Refusal)>,
    /// What its event says beside addresses.
    pub told: Vec<(Arc<str>, Box<str>)>,
    /// Why it waits for an operator, if it does: it can't be read. It is charged to the peer, and ends as holds of
    /// checks do.
    pub hold: Option<Box<str>>,
}

impl<W: World> Connection<W> {
    /// The client has shown that it is the peer of this name: it may send to wherever a route leads.
    pub fn recognise_peer(&mut self, name: &str) {
        self.take_for_user(name);
        self.count.settle();
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.ingress.router.active().config)
    }

    /// The tables that the configuration names.
    #[must_use]
    pub fn tables(&self) -> &W::Tables {
        self.ingress.services.world.tables()
    }

    /// Acknowledgements that peers may not have heard.
    #[must_use]
    pub fn unheard(&self) -> &ApduDedup {
        &self.ingress.services.shared.unheard
    }

    /// Whether a simulation has planted this fault.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn has_planted(&self, fault: Planted) -> bool {
        self.ingress.services.has_planted(fault)
    }

    /// Tells whoever looks after this server; not more often than somebody could read it.
    pub fn warn(&self, what: &'static str, text: std::fmt::Arguments<'_>) {
        let services = &self.ingress.services;
        match self.ingress.foreign_lines.borrow_mut().admit(services.now()) {
            None => {}
            Some(0) => services.console.warn(what, text),
            Some(others) => {
                services.console.warn(what, format_args!("{text} ({others} lines were left out)"));
            }
        }
    }
}

impl<W: World> Transaction<W> {
    /// What came of the content is not kept; the transaction goes on.
    pub fn drop_content(&mut self) {
        self.intake.reset();
    }
}

impl Draft {
    /// It is no internet mail, and this is kept with it. A report about recipients that were refused is made once it
    /// is durable.
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
