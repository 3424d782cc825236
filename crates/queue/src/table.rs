//! Things numbered densely, whose numbers are used again.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// A table of boxed rows: it grows by eight bytes a row, whatever the row's size.
pub(crate) struct Table<T> {
    rows: Vec<Option<Box<T>>>,
    /// The number that was freed first is used first, so that a stale one lives long unused.
    free: VecDeque<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new(), free: VecDeque::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        let number = self.free.pop_front().unwrap_or(self.rows.len() as u32);
        match self.rows.get_mut(number as usize) {
            Some(place) => *place = Some(Box::new(row)),
            None => self.rows.push(Some(Box::new(row))),
        }
        number
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(place) = self.rows.get_mut(number as usize)
            && place.take().is_some()
        {
            self.free.push_back(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.rows.get(number as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.rows.get_mut(number as usize)?.as_deref_mut()
    }

    /// One more than the highest number ever given.
    pub(crate) fn end(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        self.rows.iter().zip(0..).filter_map(|(row, n)| Some((n, row.as_deref()?)))
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("a queue that is in use")
    }
}

impl<T> IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("a queue that is in use")
    }
}
