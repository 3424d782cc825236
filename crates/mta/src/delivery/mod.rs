//! Delivery: channels work the slots of ready queues; what becomes of recipients, and who is told.

mod as_mail;
mod channel;
mod echoes;
pub(crate) mod gathering;
mod giving_back;
pub(crate) mod giving_up;
mod hearing;
pub(crate) mod locating;
mod making;
pub(crate) mod outcome;
mod pending;
pub(crate) mod removal;
mod report;
mod slot;
pub(crate) mod start;
pub(crate) mod unreported;
mod verdict;

pub use crate::schedule::tls_domains::TlsDomain;
pub use crate::seams::Task;
pub use as_mail::{AsMail, CONVERTED_HERE_MAX, MailQuestion};
pub use channel::{Channel, Channels, Field, MakesMail};
pub use outcome::AttemptContext;
pub use report::{OwnReport, ReportQuestion};
pub use slot::{Idled, Slot};

use crate::custody::Custody;
use crate::message::Message;
use crate::own_fields::AboveOwn;
use crate::routing::Router;
use crate::routing::recipient::Readers;
use crate::schedule::Schedule;
use crate::seams::World;
use crate::services::Services;
use pending::Gathering;
use std::collections::BTreeMap;
use std::rc::Rc;
use unreported::Unreported;

/// What the channels of one shard share.
pub(crate) struct Delivery<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) custody: Rc<Custody<W>>,
    pub(crate) router: Rc<Router>,
    pub(crate) schedule: Rc<Schedule<W>>,
    pub(crate) gathering: Gathering,
    pub(crate) unreported: Unreported,
    channels: Channels<W>,
    readers: Readers,
    above: AboveOwn,
}

impl<W: World> Delivery<W> {
    /// With nothing under way.
    pub(crate) fn new(
        schedule: &Rc<Schedule<W>>,
        channels: Channels<W>,
        readers: Readers,
        above: AboveOwn,
    ) -> Rc<Delivery<W>> {
        Rc::new(Delivery {
            services: Rc::clone(&schedule.services),
            custody: Rc::clone(&schedule.custody),
            router: Rc::clone(&schedule.router),
            schedule: Rc::clone(schedule),
            gathering: Gathering::default(),
            unreported: Unreported::default(),
            channels,
            readers,
            above,
        })
    }

    /// Those who make internet mail of what came as something else.
    fn mail_makers(&self) -> Vec<MakesMail> {
        self.channels.iter().filter_map(|channel| channel.makes_mail()).collect()
    }

    /// What the channel that it is of says of a message; of internet mail nothing.
    pub(crate) fn describe(&self, message: &Message) -> BTreeMap<String, String> {
        let fields = self.channels.iter().flat_map(|channel| channel.describe(message));
        fields.map(|(name, value)| (name.to_string(), value.into_string())).collect()
    }

    /// The channel that a route's key leads to.
    fn channel(&self, key: &str) -> Option<&Rc<dyn Channel<W>>> {
        self.channels.iter().find(|channel| channel.key() == key)
    }
}
