//! Facts that the spool keeps about a message beside envelope and content, each under its tag.

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

/// The table: tag, name and type of each fact, in the order of tags.
macro_rules! facts {
    ($($(#[$doc:meta])* $tag:ident $name:ident: $type:ty,)*) => {
        /// All facts, to be written to the spool.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Facts<'a> {
            $($(#[$doc])* pub(crate) $name: Option<$type>,)*
        }

        impl Facts<'_> {
            /// The encoded facts.
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

        // Some facts are only written, for people and for later versions.
        #[allow(dead_code)]
        impl<'a> StoredFacts<'a> {
            $($(#[$doc])* pub(crate) fn $name(self) -> Option<$type> {
                Fact::read(self.field(tag::$tag)?)
            })*
        }
    };
}

facts! {
    /// Tenant of the mail.
    TENANT tenant: &'a str,
    /// Campaign of the mail.
    CAMPAIGN campaign: &'a str,
    /// Egress pool, in place of the route's.
    EGRESS_POOL pool: &'a str,
    PRIORITY priority: Priority,
    /// Earliest time of sending.
    NOT_BEFORE not_before: Wall,
    /// Time from which it is not sent any more.
    EXPIRES_AT expires: Wall,
    /// The client's authenticated login.
    AUTHENTICATED login: &'a str,
    /// The listener that accepted it.
    LISTENER listener: &'a str,
    /// The client's address.
    CLIENT_ADDRESS client: ClientAddress<'a>,
    /// The client's EHLO argument.
    CLIENT_EHLO helo: &'a str,
    /// Recipients that take the route of postmaster mail instead of their domain's.
    POSTMASTER postmasters: Places<'a>,
    /// For a body in a file.
    BODY_CHECKSUMS checksums: &'a Bytes,
    /// The client may not relay. Absent in messages from before this was recorded.
    STRANGER stranger: Stranger,
    /// Recipients that get it from a rewritten sender.
    FORWARDED forwarded: Runs<'a>,
    /// Recipients that get it from the owner of a list.
    OWNERS owners: Owners<'a>,
    /// Parts of the body that are never sent.
    OMITTED omitted: Ranges<'a>,
    /// TLS requirement (REQUIRETLS, TLS-Required: No).
    REQUIRE_TLS require_tls: RequireTls,
    /// It is a TLS report of this server.
    TLS_REPORT tls_report: Present,
    /// Sending window: the hours in which it may be sent.
    WINDOW window: &'a str,
    /// Deliver-by time.
    DELIVER_BY deliver_by: DeliverBy,
    /// The channel's own data, if it is not internet mail.
    X400 x400: &'a Bytes,
    /// Recipients that were rejected when it was accepted.
    REFUSED refused: Refusals<'a>,
    /// Held by a check.
    HELD held: Hold<'a>,
    /// Origin of an imported message.
    ORIGIN origin: &'a str,
    /// It is an alert of this server.
    ALERT alert: Present,
}

/// The facts of a message as stored in the spool. Each is decoded on access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredFacts<'a>(&'a Meta);

impl<'a> StoredFacts<'a> {
    pub(crate) fn of(meta: &'a Meta) -> StoredFacts<'a> {
        StoredFacts(meta)
    }

    fn field(self, tag: u16) -> Option<&'a Bytes> {
        self.0.fields.iter().find(|(field, _)| *field == tag).map(|(_, value)| value)
    }

    /// Time at which it expires, whatever the retry policy is.
    pub(crate) fn given_up_at(self) -> Option<Wall> {
        earlier_end(self.expires(), self.deliver_by())
    }

    /// Returns true if the client may not relay.
    pub(crate) fn is_from_stranger(self) -> bool {
        self.field(tag::STRANGER).is_some()
    }

    /// Returns true if the client may not relay, and its sender address is not authenticated.
    pub(crate) fn is_unvouched(self) -> bool {
        self.stranger() == Some(Stranger { is_vouched: false })
    }

    /// Returns true if a recipient takes the route of postmaster mail instead of its domain's.
    pub(crate) fn is_for_postmaster(self, index: u32) -> bool {
        self.postmasters().is_some_and(|places| places.has(index))
    }

    /// Returns true if a recipient gets it from a rewritten sender.
    pub(crate) fn is_forwarded(self, index: u32) -> bool {
        self.forwarded().is_some_and(|runs| runs.has(index))
    }

    /// The owner of a list from which a recipient gets it.
    pub(crate) fn owner_of(self, index: u32) -> Option<KeptOwner<'a>> {
        self.owners()?.of(index)
    }

    /// The reason for which a recipient was rejected, in the form of its route.
    pub(crate) fn refusal_of(self, index: u32) -> Option<&'a str> {
        self.refused()?.of(index)
    }

    /// The labels of its events, with the operator's `overrides`; `None` if it has none.
    pub(crate) fn labels(self, overrides: Option<&Overrides>) -> Option<Labels> {
        // Most messages have no labels, and these tags come first.
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

/// Time at which a message with these facts expires.
pub(crate) fn earlier_end(expires: Option<Wall>, deliver_by: Option<DeliverBy>) -> Option<Wall> {
    let returned = deliver_by.filter(|by| by.mode == ByMode::Return).map(|by| by.at);
    expires.into_iter().chain(returned).min()
}

#[cfg(test)]
mod tests;
