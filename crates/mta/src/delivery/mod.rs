//! Delivery: channels work the slots of ready queues; results are settled and reported.

mod as_mail;
mod dsn_in_progress;
mod echoes;
pub(crate) mod gathering;
pub(crate) mod giving_up;
mod hearing;
pub(crate) mod locating;
pub(crate) mod outcome;
mod pending;
pub(crate) mod removal;
mod report;
mod slot;
pub(crate) mod start;
pub(crate) mod unreported;
mod verdict;

use crate::answer::Decision;
use crate::custody::Custody;
use crate::message::Message;
use crate::own_fields::AboveOwn;
use crate::routing::Router;
use crate::routing::addresses::Readers;
use crate::schedule::Schedule;
pub use crate::schedule::tls_domains::TlsDomain;
pub use crate::seams::Task;
use crate::seams::{MailboxCheck, MailboxQuestion, World};
use crate::services::Services;
pub use as_mail::{CONVERTED_HERE_MAX, ConversionRequest, MailConversion};
use mail::Failure;
pub use outcome::{AttemptClock, AttemptContext};
use pending::DsnBatcher;
pub use report::{NativeReport, ReportQuestion};
pub use slot::{Idled, Slot};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use unreported::PendingDsns;

/// State shared by the channels of one shard.
pub(crate) struct Delivery<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) custody: Rc<Custody<W>>,
    pub(crate) router: Rc<Router>,
    pub(crate) schedule: Rc<Schedule<W>>,
    pub(crate) gathering: DsnBatcher,
    pub(crate) unreported: PendingDsns,
    channels: Channels<W>,
    readers: Readers,
    above: AboveOwn,
}

impl<W: World> Delivery<W> {
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
            gathering: DsnBatcher::default(),
            unreported: PendingDsns::default(),
            channels,
            readers,
            above,
        })
    }

    /// The channels' converters to internet mail.
    fn mail_makers(&self) -> Vec<MakesMail> {
        self.channels.iter().filter_map(|channel| channel.makes_mail()).collect()
    }

    /// The description of a message by its own channel; empty for internet mail.
    pub(crate) fn describe(&self, message: &Message) -> BTreeMap<String, String> {
        let fields = self.channels.iter().flat_map(|channel| channel.describe(message));
        fields.map(|(name, value)| (name.to_string(), value.into_string())).collect()
    }

    /// The channel with this route key.
    fn channel(&self, key: &str) -> Option<&Rc<dyn Channel<W>>> {
        self.channels.iter().find(|channel| channel.key() == key)
    }
}

/// A channel of egress: one value per shard and kind.
pub trait Channel<W: World>: 'static {
    /// The key in `[[route]]`: `smtp`, `maildir`, …
    fn key(&self) -> &'static str;

    /// The fields of a message of this channel that operators see, by names of header fields.
    fn describe(&self, _message: &Message) -> Vec<Field> {
        Vec::new()
    }

    /// Writes a report in the channel's own form. `None` if the message is not one of this channel's.
    fn report(&self, _question: &ReportQuestion<'_>) -> Option<NativeReport> {
        None
    }

    /// The converter of this channel's messages to internet mail. `None` if they are internet mail.
    fn makes_mail(&self) -> Option<MakesMail> {
        None
    }

    /// Decides about a recipient by the state of its mailbox, before a message is accepted. Asked when
    /// [`config::Settings::mailbox_checks`] requests it.
    fn admit(&self, _question: &MailboxQuestion<'_, W>) -> Decision<'static, ()> {
        Decision::pass()
    }

    /// Works one connection slot of a ready queue until it is not needed. Dropping the slot releases it.
    fn run(&self, slot: Slot<W>) -> Task;
}

/// Name and value of one field of a message's description.
pub type Field = (Arc<str>, Box<str>);

/// Converts a message to internet mail, on any thread. `None` if the message is not one of the channel's.
pub type MakesMail = fn(&ConversionRequest) -> Option<Result<MailConversion, Failure>>;

/// The channels of a shard.
pub type Channels<W> = Vec<Rc<dyn Channel<W>>>;

/// Asks the channel of a recipient's route about its mailbox.
pub(crate) fn mailbox_check<W: World>(channels: &Channels<W>) -> MailboxCheck<W> {
    let channels = channels.clone();
    Rc::new(move |question| {
        let key = question.route.channel.key();
        let channel = channels.iter().find(|channel| channel.key() == key);
        channel.map_or_else(Decision::pass, |channel| channel.admit(question))
    })
}
