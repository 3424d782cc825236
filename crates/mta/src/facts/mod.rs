//! What the spool keeps about a message beside envelope and content: a table of facts, each under its tag.

mod of_recipients;
mod values;

pub use of_recipients::Owner;
pub(crate) use of_recipients::{KeptOwner, Places, RecipientRecords, SentFrom, failure_of_refused};
pub(crate) use values::{ClientAddress, Hold, Present, Ranges, Stranger};

use crate::event::Labels;
use crate::overrides::Overrides;
use bytes::Bytes;
use mail::{ByMode, DeliverBy, Priority, RequireTls, Wall};
use of_recipients::{Owners, Refusals, Runs};
use spool::Meta;
use spool::record::tag;
use std::sync::Arc;
use values::Fact;

/// The table: tag, name and type of each, in the order of tags.
macro_rules! facts {
    ($($(#[$doc:meta])* $tag:ident $name:ident: $type:ty,)*) => {
        /// All of them, on their way into the spool.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Facts<'a> {
            $($(#[$doc])* pub(crate) $name: Option<$type>,)*
        }

        impl Facts<'_> {
            /// As they are kept.
            pub(crate) fn to_meta(self) -> Meta {
                let Facts { $($name),* } = self;
                let count = [$($name.is_some()),*].into_iter().filter(|is_there| *is_there).count();
                let mut fields = Vec::with_capacity(count);
                $(if let Some(fact) = $name {
                    fields.push((tag::$tag, fact.write()));
                })*
                Meta { fields }
            }
        }

        // Some are written for people and later versions alone.
        #[allow(dead_code)]
        impl<'a> StoredFacts<'a> {
            $($(#[$doc])* pub(crate) fn $name(self) -> Option<$type> {
                Fact::read(self.field(tag::$tag)?)
            })*
        }
    };
}

facts! {
    /// Whose mail it is.
    TENANT tenant: &'a str,
    /// With what it waits.
    CAMPAIGN campaign: &'a str,
    /// From which pool it is sent, in place of its route's.
    EGRESS_POOL pool: &'a str,
    /// How urgent it is.
    PRIORITY priority: Priority,
    /// It is not sent before.
    NOT_BEFORE not_before: Wall,
    /// It is not sent from then on.
    EXPIRES_AT expires: Wall,
    /// As whom its client has logged in.
    AUTHENTICATED login: &'a str,
    /// The listener that it came to.
    LISTENER listener: &'a str,
    /// Where its client is.
    CLIENT_ADDRESS client: ClientAddress<'a>,
    /// As what its client has introduced itself.
    CLIENT_EHLO helo: &'a str,
    /// Recipients that go the postmaster's way and not their domain's.
    POSTMASTER postmasters: Places<'a>,
    /// Of a body in a file of its own.
    BODY_CHECKSUMS checksums: &'a Bytes,
    /// Its client may not send to any domain. Of what was accepted before that was recorded it is not known.
    STRANGER stranger: Stranger,
    /// Recipients that get it from a rewritten sender.
    FORWARDED forwarded: Runs<'a>,
    /// Recipients that get it from the owner of a list.
    OWNERS owners: Owners<'a>,
    /// Parts of the body that go nowhere.
    OMITTED omitted: Ranges<'a>,
    /// What it asks of TLS on its way.
    REQUIRE_TLS require_tls: RequireTls,
    /// It is a report of ours about TLS.
    TLS_REPORT tls_report: Present,
    /// In which hours it may be sent.
    WINDOW window: &'a str,
    /// When it should be delivered.
    DELIVER_BY deliver_by: DeliverBy,
    /// What its channel needs, where it is no internet mail.
    X400 x400: &'a Bytes,
    /// Recipients that were refused when it was accepted.
    REFUSED refused: Refusals<'a>,
    /// A check holds it.
    HELD held: Hold<'a>,
}

/// The facts of a message as the spool keeps them. Each is read when somebody asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredFacts<'a>(&'a Meta);

impl<'a> StoredFacts<'a> {
    pub(crate) fn of(meta: &'a Meta) -> StoredFacts<'a> {
        StoredFacts(meta)
    }

    fn field(self, tag: u16) -> Option<&'a Bytes> {
        self.0.fields.iter().find(|(field, _)| *field == tag).map(|(_, value)| value)
    }

    /// When it is given up, whatever the retry policy says.
    pub(crate) fn given_up_at(self) -> Option<Wall> {
        earlier_end(self.expires(), self.deliver_by())
    }

    /// Whether a client handed it in that may not send to any domain.
    pub(crate) fn is_from_stranger(self) -> bool {
        self.field(tag::STRANGER).is_some()
    }

    /// Whether it came from such a client, and nobody vouches for its sender.
    pub(crate) fn is_unvouched(self) -> bool {
        self.stranger() == Some(Stranger { is_vouched: false })
    }

    /// Whether a recipient goes the postmaster's way and not its domain's.
    pub(crate) fn is_for_postmaster(self, index: u32) -> bool {
        self.postmasters().is_some_and(|places| places.has(index))
    }

    /// Whether a recipient gets it from a rewritten sender.
    pub(crate) fn is_forwarded(self, index: u32) -> bool {
        self.forwarded().is_some_and(|runs| runs.has(index))
    }

    /// From whom of the owners of lists a recipient gets it.
    pub(crate) fn owner_of(self, index: u32) -> Option<KeptOwner<'a>> {
        self.owners()?.of(index)
    }

    /// Why a recipient was refused, as the route by which it does not go.
    pub(crate) fn refusal_of(self, index: u32) -> Option<&'a str> {
        self.refused()?.of(index)
    }

    /// Whose mail it is, as events tell it, once an operator has chosen `overrides`; `None`: nothing was said.
    pub(crate) fn labels(self, overrides: Option<&Overrides>) -> Option<Labels> {
        // Of most nothing was, and these tags are the first.
        if overrides.is_none() && self.0.fields.iter().all(|(tag, _)| *tag > tag::EGRESS_POOL) {
            return None;
        }
        let of = |said: Option<&str>, chosen: Option<&String>| match chosen {
            Some(chosen) => (!chosen.is_empty()).then(|| Arc::from(chosen.as_str())),
            None => said.map(Arc::from),
        };
        Some(Labels {
            tenant: self.tenant().map(Arc::from),
            campaign: of(self.campaign(), overrides.and_then(|o| o.campaign.as_ref())),
            pool: of(self.pool(), overrides.and_then(|o| o.pool.as_ref())),
        })
    }
}

/// When a message is given up that says this of it.
pub(crate) fn earlier_end(expires: Option<Wall>, deliver_by: Option<DeliverBy>) -> Option<Wall> {
    let returned = deliver_by.filter(|by| by.mode == ByMode::Return).map(|by| by.at);
    expires.into_iter().chain(returned).min()
}

#[cfg(test)]
mod tests;
