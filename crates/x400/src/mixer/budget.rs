//! What a message may become: budgets that all headings and bodies within it have in common. Each field, and each
//! message within another, could have as much as a limit of its own allows.

use super::{ConversionContext, NotConverted};
use crate::ber::{BerError, Reader};
use crate::reasons::Cause;
use std::cell::Cell;

/// Addresses and message identifiers of a message's headings at most, those of messages within it counted. An address
/// takes hundreds of octets in memory, in a field four. A field with more than are left goes along as text.
pub const ITEMS_MAX: usize = 10_000;
/// Body parts of a message at most, those of messages and multiparts within it counted.
pub const ALL_PARTS_MAX: usize = 10_000;
/// Elements (of BER) of a content that becomes mail at most: an empty recipient or body part has three of them, of
/// some octets, and takes hundreds in memory.
pub const ELEMENTS_MAX: usize = 500_000;

/// One conversion to X.400: who converts, and what is left of the budgets.
pub(super) struct ConversionBudget<'a> {
    pub here: &'a ConversionContext<'a>,
    items: Cell<usize>,
    parts: Cell<usize>,
}

impl<'a> ConversionBudget<'a> {
    pub(super) fn new(here: &'a ConversionContext<'a>) -> ConversionBudget<'a> {
        ConversionBudget { here, items: Cell::new(ITEMS_MAX), parts: Cell::new(ALL_PARTS_MAX) }
    }

    /// How many more addresses and identifiers there may be.
    pub(super) fn items_left(&self) -> usize {
        self.items.get()
    }

    /// So many are built.
    pub(super) fn spend_items(&self, count: usize) {
        self.items.set(self.items.get().saturating_sub(count));
    }

    /// A body part is built.
    pub(super) fn spend_part(&self) -> Result<(), NotConverted> {
        let left = self.parts.get().checked_sub(1);
        let left = left.ok_or_else(|| {
            NotConverted::new(Cause::ConversionImpractical, "too many body parts")
        })?;
        self.parts.set(left);
        Ok(())
    }
}

/// How many elements there are on all levels, one more than `max` at most, and the first mistake on any of them. A level
/// counts up to its mistake: who reads it comes no further, and one that nobody reads may be anything. It remembers where
/// it is on each level, and no element.
pub(super) fn elements(octets: &[u8], max: usize) -> (usize, Option<BerError>) {
    let mut levels = vec![Reader::new(octets)];
    let (mut count, mut mistake) = (0, None);
    while let Some(level) = levels.last_mut() {
        let inner = match level.next() {
            Some(Ok(element)) => {
                count += 1;
                if count > max {
                    break;
                }
                element.constructed.then(|| element.children()).transpose()
            }
            Some(Err(error)) => {
                levels.pop();
                Err(error)
            }
            None => {
                levels.pop();
                Ok(None)
            }
        };
        match inner {
            Ok(inner) => levels.extend(inner),
            Err(error) => mistake = mistake.or(Some(error)),
        }
    }
    (count, mistake)
}
