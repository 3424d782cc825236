//! Limits of conversion: budgets shared by all nested headings and bodies. Limits per field or per nested message alone
//! would multiply.

use super::{ConversionContext, NotConverted};
use crate::ber::{BerError, Reader};
use crate::reasons::Cause;
use std::cell::Cell;

/// Addresses and message identifiers of a message's headings at most, those of messages within it counted. An address
/// takes hundreds of octets in memory, in a field four. A field with more than are left goes along as text.
pub const ITEMS_MAX: usize = 10_000;
/// Body parts of a message at most, those of messages and multiparts within it counted.
pub const ALL_PARTS_MAX: usize = 10_000;
/// Maximum number of BER elements in a content converted to mail. An empty recipient or body part has three elements of
/// a few octets, and needs hundreds of octets in memory.
pub const ELEMENTS_MAX: usize = 500_000;

/// A conversion to X.400: its context, and the rest of the budgets.
pub(super) struct ConversionBudget<'a> {
    pub here: &'a ConversionContext<'a>,
    items: Cell<usize>,
    parts: Cell<usize>,
}

impl<'a> ConversionBudget<'a> {
    pub(super) fn new(here: &'a ConversionContext<'a>) -> ConversionBudget<'a> {
        ConversionBudget { here, items: Cell::new(ITEMS_MAX), parts: Cell::new(ALL_PARTS_MAX) }
    }

    /// Remaining number of addresses and identifiers.
    pub(super) fn items_left(&self) -> usize {
        self.items.get()
    }

    /// Deducts created items.
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

/// Number of elements on all levels, at most one more than `max`, and the first error on any level. A level is counted
/// up to its error: its reader gets no further, and unread levels may contain anything. Only positions are kept in
/// memory, no elements.
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
