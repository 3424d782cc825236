//! Messages that are no internet mail: what a protocol of another kind may ask of the core for one of them.
//! They pass no stages, get no header fields, and whom they are for is decided by routes alone.

use super::commit::commit;
use super::draft::{Additions, Draft};
use super::entrance::Entrance;
use super::room;
use crate::budget::Share;
use crate::meta::{self, Owners};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::seams::World;
use crate::steering::Steering;
use crate::unheard::Unheard;
use bytes::Bytes;
use config::Config;
use mail::{ContentFacts, Envelope, MessageId, Omitted, Refusal, RequireTls};
use std::rc::Rc;
use std::sync::Arc;

/// What is kept with such a message.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// The octets that its channel needs, under [`spool::record::tag::X400`]; none: it gets header fields as internet
    /// mail does.
    pub kept: Bytes,
    /// Recipients, by their indexes, that are not delivered to, with what is reported of them.
    pub refused: Vec<(u32, Refusal)>,
    /// What its event says beside addresses.
    pub told: Vec<(Arc<str>, Box<str>)>,
    /// Why it waits for an operator, if it does: it can't be read. It is charged to the peer, and ends as holds of
    /// checks do.
    pub hold: Option<Box<str>>,
}

impl<W: World> Entrance<W> {
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
    pub fn unheard(&self) -> &Unheard {
        &self.ingress.services.shared.unheard
    }

    /// Whether a simulation has planted this fault.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn has_planted(&self, fault: Planted) -> bool {
        self.ingress.services.has_planted(fault)
    }

    /// What came of the content is not kept; the transaction goes on.
    pub fn drop_content(&mut self) {
        self.intake.reset();
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

    /// The content is complete, for recipients that were reserved for: makes the message durable and
    /// queues it. A report about recipients that were refused is made once it is.
    ///
    /// # Errors
    /// Why it is not taken. Nothing is kept.
    pub async fn submit_foreign(
        &mut self,
        envelope: Envelope,
        facts: ContentFacts,
        steering: Steering,
        foreign: Foreign,
    ) -> Result<MessageId, Refusal> {
        let ingress = Rc::clone(&self.ingress);
        let _busy = ingress.services.stopping.guard();
        let content = match self.intake.finish().await {
            Ok(content) => content,
            Err(refusal) => return Err(self.refuse_content(&envelope, refusal)),
        };
        let Foreign { kept, refused, told, hold } = foreign;
        let mut additions = Additions::default();
        if !kept.is_empty() {
            let (tag, value) = meta::x400(kept);
            additions.set_meta(tag, value);
        }
        if let Some((tag, value)) = meta::refused(&refused) {
            additions.set_meta(tag, value);
        }
        additions.headers = (!told.is_empty()).then(|| Arc::new(told));
        if let Some(reason) = hold {
            additions.hold(&reason);
        }
        let mut draft = Box::new(Draft {
            content,
            envelope,
            facts,
            client: Arc::clone(self.session.client()),
            is_from_stranger: false,
            require_tls: RequireTls::Unsaid,
            steering,
            tenants: Arc::default(),
            tenancy: None,
            forwarded: Vec::new(),
            owners: Owners::new(),
            additions,
            hides_client: true,
            given: Vec::new(),
            discarded: None,
            omitted: Omitted::default(),
            contents: Rc::clone(&ingress) as _,
            memory: None,
            tenant_room: None,
        });
        let peer = draft.client.login.clone().unwrap_or_default();
        match room::reserve_held(&ingress.services, &draft, &peer) {
            Ok(room) => draft.additions.hold_room = room,
            Err(refusal) => {
                draft.forget_blob();
                return Err(self.refuse_content(&draft.envelope, refusal));
            }
        }
        let slots = Share::none(&ingress.services.shared.queue_slots);
        let slots = std::mem::replace(&mut self.slots, slots);
        let submitted = commit(&ingress, draft, slots).await;
        self.abandon();
        submitted
    }
}
