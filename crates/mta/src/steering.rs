//! What the sender of a message says of how it is to be sent: kept in the message's meta, read from there
//! whenever it is queued.

use crate::meta;
use bytes::Bytes;
use mail::Priority;
use spool::Meta;
use spool::record::tag;
use std::sync::Arc;

/// What is said of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Whose mail it is.
    pub tenant: Option<Arc<str>>,
    /// With what it waits.
    pub campaign: Option<Arc<str>>,
    /// From which pool it is sent, in place of its route's.
    pub pool: Option<Arc<str>>,
    /// How urgent it is.
    pub priority: Option<Priority>,
}

impl Steering {
    /// As it is kept, in the order of tags.
    pub(crate) fn to_fields(&self) -> Vec<(u16, Bytes)> {
        let text = |tag: u16, text: &Option<Arc<str>>| {
            text.as_ref().map(|text| (tag, Bytes::copy_from_slice(text.as_bytes())))
        };
        let priority = self.priority.map(|priority| {
            (tag::PRIORITY, Bytes::copy_from_slice(&priority.value().to_le_bytes()))
        });
        let fields = [
            text(tag::TENANT, &self.tenant),
            text(tag::CAMPAIGN, &self.campaign),
            text(tag::EGRESS_POOL, &self.pool),
            priority,
        ];
        fields.into_iter().flatten().collect()
    }

    /// The same from where it is kept.
    pub(crate) fn of(meta: &Meta) -> Steering {
        let text = |tag: u16| meta::text(meta, tag).map(Arc::from);
        Steering {
            tenant: text(tag::TENANT),
            campaign: text(tag::CAMPAIGN),
            pool: text(tag::EGRESS_POOL),
            priority: meta::priority(meta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() {
        let steering = Steering {
            tenant: Some("acme".into()),
            campaign: Some("spring".into()),
            pool: Some("bulk".into()),
            priority: Priority::new(-9),
        };
        let meta = Meta { fields: steering.to_fields() };
        assert!(meta.fields.is_sorted_by_key(|(tag, _)| *tag));
        assert_eq!(Steering::of(&meta), steering);
        assert_eq!(Steering::of(&Meta::default()), Steering::default());
        assert!(Steering::default().to_fields().is_empty());
    }
}
