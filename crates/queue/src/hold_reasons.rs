//! Why messages are held, each reason kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The reasons of all that is held; the same words once, however many messages they hold.
#[derive(Default)]
pub(crate) struct HoldReasons {
    numbers: BTreeMap<Arc<str>, u32>,
    /// By number: the words, and how many entries name them.
    rows: Vec<Option<(Arc<str>, u32)>>,
    free: Vec<u32>,
}

impl HoldReasons {
    /// The number of the words, counted once more.
    pub(crate) fn take(&mut self, words: &Arc<str>) -> u32 {
        if let Some(&number) = self.numbers.get(words) {
            if let Some(Some((_, count))) = self.rows.get_mut(number as usize) {
                *count += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() as u32 - 1
        });
        if let Some(row) = self.rows.get_mut(number as usize) {
            *row = Some((Arc::clone(words), 1));
        }
        self.numbers.insert(Arc::clone(words), number);
        number
    }

    pub(crate) fn give_back(&mut self, number: u32) {
        let Some(row) = self.rows.get_mut(number as usize) else { return };
        let Some((words, count)) = row else { return };
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(words);
            *row = None;
            self.free.push(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.rows.get(number as usize)?.as_ref().map(|(words, _)| words)
    }
}
