//! A heap of deadlines, one for each of the densely numbered items, changed in place.

use mail::Mono;

const ABSENT: u32 = u32::MAX;

/// Deadlines by number.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Vec<(Mono, u32)>,
    /// Place in the heap by number.
    places: Vec<u32>,
}

impl Timers {
    /// The earliest deadline and its number.
    pub(crate) fn peek(&self) -> Option<(Mono, u32)> {
        self.heap.first().copied()
    }

    /// The deadline of `number`.
    pub(crate) fn get(&self, number: u32) -> Mono {
        match self.places.get(number as usize) {
            Some(&place) if place != ABSENT => self.heap[place as usize].0,
            _ => Mono::NEVER,
        }
    }

    /// Sets the deadline of `number`; [`Mono::NEVER`] removes it.
    pub(crate) fn set(&mut self, number: u32, at: Mono) {
        let place = self.places.get(number as usize).copied().unwrap_or(ABSENT);
        match (place, at) {
            (ABSENT, Mono::NEVER) => {}
            (ABSENT, _) => {
                if self.places.len() <= number as usize {
                    self.places.resize(number as usize + 1, ABSENT);
                }
                self.heap.push((at, number));
                self.up(self.heap.len() - 1);
            }
            (place, Mono::NEVER) => self.take_out(place as usize),
            (place, _) => {
                let place = place as usize;
                let before = std::mem::replace(&mut self.heap[place].0, at);
                if at < before {
                    self.up(place);
                } else if at > before {
                    self.down(place);
                }
            }
        }
    }

    /// Moves the deadline of `number` forward to `at` if it is later.
    pub(crate) fn hasten(&mut self, number: u32, at: Mono) {
        if at < self.get(number) {
            self.set(number, at);
        }
    }

    fn take_out(&mut self, place: usize) {
        self.places[self.heap[place].1 as usize] = ABSENT;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.places[self.heap[place].1 as usize] = place as u32;
            self.up(place);
            self.down(self.places[self.heap[place].1 as usize] as usize);
        }
    }

    fn up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= self.heap[place] {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.heap[right] < self.heap[left] {
                right
            } else {
                left
            };
            if self.heap[place] <= self.heap[child] {
                break;
            }
            self.swap(place, child);
            place = child;
        }
        self.places[self.heap[place].1 as usize] = place as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].1 as usize] = a as u32;
        self.places[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Random;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_a_sorted_map() {
        let mut random = Random::new(3);
        let mut timers = Timers::default();
        let mut model = BTreeMap::new();
        for _ in 0..20_000 {
            let number = random.below(50) as u32;
            let at = match random.below(4) {
                0 => Mono::NEVER,
                _ => Mono(random.below(1000)),
            };
            timers.set(number, at);
            model.insert(number, at);
            let first = model.iter().map(|(n, at)| (*at, *n)).min();
            let first = first.filter(|(at, _)| *at != Mono::NEVER);
            assert_eq!(timers.peek(), first);
            assert_eq!(timers.get(number), at);
        }
    }
}
