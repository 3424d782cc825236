//! Named limits, shared by several ready queues whatever else differs between them.
//!
//! By default each route has one for every set of hosts, so that domains with the same hosts in another order share
//! connections and rate. Providers, sources and tenants add further names. A ready queue obeys all limits that it
//! names.

use crate::lease::{LimitTerms, OwnedLimit, Share, owner_of};
use crate::limits::{NamedLimit, Rate};
use mail::Mono;
use smallvec::SmallVec;
use std::sync::Arc;

/// The owner's side of a named limit.
pub(crate) struct Limit {
    pub(crate) name: Arc<str>,
    pub(crate) pool: OwnedLimit,
    /// Last use, for dropping it.
    pub(crate) used: Mono,
}

/// A ready queue's side of a named limit.
#[derive(Clone, Debug)]
pub(crate) struct Borrowed {
    pub(crate) name: Arc<str>,
    pub(crate) terms: LimitTerms,
    /// The shard that lends.
    pub(crate) owner: u16,
    pub(crate) share: Share,
    /// The ready queue no longer obeys it: the share is returned.
    pub(crate) retired: bool,
}

impl Borrowed {
    pub(crate) fn is_limited(&self) -> bool {
        !self.retired && self.terms.connections_max > 0
    }

    pub(crate) fn is_rated(&self) -> bool {
        !self.retired && self.terms.messages_per_second > 0.0
    }

    /// Additional tokens that could be used by this many waiting messages. Of another shard a little more is requested
    /// than needed at once: otherwise each message would need a request.
    pub(crate) fn lack_of_tokens(&self, waiting: u32, shard: u16) -> u32 {
        let rate = Rate::new(self.terms.messages_per_second).filter(|_| self.is_rated());
        let Some(rate) = rate.filter(|_| waiting > 0) else { return 0 };
        let (tokens, batch) = (self.share.tokens, rate.batch());
        let advance = if self.owner == shard { 0 } else { rate.advance() };
        let is_enough = tokens >= waiting && tokens >= advance / 2;
        if is_enough || tokens >= batch.div_ceil(2) || self.share.tokens_asked > 0 {
            return 0;
        }
        waiting.max(advance).min(batch).saturating_sub(tokens)
    }

    /// Returns true if the name and the terms are those of `limit`.
    pub(crate) fn obeys(&self, limit: &NamedLimit) -> bool {
        !self.retired
            && self.name == limit.name
            && self.terms.connections_max == limit.connections_max
            && self.terms.messages_per_second == limit.messages_per_second
    }
}

/// Shares of a ready queue in its limits, in the order of their names. Several limits are requested in this order.
pub(crate) type Borrows = SmallVec<[Borrowed; 1]>;

/// Makes `borrows` obey exactly `limits`, with the terms of `epoch`.
pub(crate) fn adopt(borrows: &mut Borrows, limits: &[NamedLimit], epoch: u32, shards: u16) {
    for borrowed in borrows.iter_mut() {
        borrowed.retired = !limits.iter().any(|limit| limit.name == borrowed.name);
    }
    for limit in limits {
        let terms = LimitTerms::new(epoch, limit);
        match borrows.binary_search_by(|b| b.name.cmp(&limit.name)) {
            Ok(at) => borrows[at].terms = terms,
            Err(at) => borrows.insert(
                at,
                Borrowed {
                    name: Arc::clone(&limit.name),
                    terms,
                    owner: owner_of(&limit.name, shards),
                    share: Share::default(),
                    retired: false,
                },
            ),
        }
    }
    borrows.retain(|b| !b.retired || !b.share.is_home());
}
