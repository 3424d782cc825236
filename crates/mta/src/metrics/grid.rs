//! Metrics with one name and a label: one cell for each value of the label, so that each exists and has the same
//! description.

use super::{Counter, Description, Gauge, Histogram, Metric, Value};
use std::marker::PhantomData;
use std::ops::Index;

/// Values of a label.
pub trait Label: Copy + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Its values, in the order of output.
    const VALUES: &'static [&'static str];

    /// Index in [`Label::VALUES`].
    fn index(self) -> usize;

    /// The exported value.
    fn value(self) -> &'static str {
        Self::VALUES[self.index()]
    }
}

/// Makes a type a [`Label`]: `label! { Type, "name": Variant = "value", Other | Another = "value" }`.
#[macro_export]
macro_rules! label {
    ($type:ty, $name:literal: $($first:ident $(| $more:ident)* = $value:literal),* $(,)?) => {
        impl $crate::metrics::Label for $type {
            const NAME: &'static str = $name;
            const VALUES: &'static [&'static str] = &[$($value),*];

            fn index(self) -> usize {
                enum Cell { $($first),* }
                let cell = match self {
                    $(Self::$first { .. } $(| Self::$more { .. })* => Cell::$first,)*
                };
                cell as usize
            }
        }
    };
}

/// A metric for each value of a label.
#[derive(Debug)]
pub struct Grid<L, M = Counter> {
    cells: Box<[M]>,
    label: PhantomData<L>,
}

impl<L: Label, M: Default> Default for Grid<L, M> {
    fn default() -> Grid<L, M> {
        Grid { cells: L::VALUES.iter().map(|_| M::default()).collect(), label: PhantomData }
    }
}

impl<L: Label, M> Grid<L, M> {
    /// Each value of the label with its metric.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &M)> {
        L::VALUES.iter().copied().zip(&self.cells)
    }
}

impl<L: Label, M> Index<L> for Grid<L, M> {
    type Output = M;

    fn index(&self, value: L) -> &M {
        &self.cells[value.index()]
    }
}

/// An entry of a table of metrics: one metric, or a grid.
pub trait Show {
    /// Shows each metric, with the labels of the entry and its own.
    fn show(&self, row: &Description<'_>, show: &mut dyn FnMut(&Description<'_>, Value));
}

macro_rules! show_one {
    ($({$($bound:tt)*} $metric:ty),*) => {
        $(impl<$($bound)*> Show for $metric {
            fn show(&self, row: &Description<'_>, show: &mut dyn FnMut(&Description<'_>, Value)) {
                show(row, self.read());
            }
        })*
    };
}
show_one!({} Counter, {} Gauge, {B: super::Bounds} Histogram<B>);

impl<L: Label, M: Metric> Show for Grid<L, M> {
    fn show(&self, row: &Description<'_>, show: &mut dyn FnMut(&Description<'_>, Value)) {
        let mut labels = row.labels.to_vec();
        for (value, cell) in self.iter() {
            labels.push((L::NAME, value));
            show(&Description { labels: &labels, ..*row }, cell.read());
            labels.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Meal {
        Breakfast,
        Lunch(()),
        Brunch,
    }
    label! { Meal, "meal": Breakfast = "breakfast", Lunch | Brunch = "lunch" }

    #[test]
    fn a_grid_has_a_cell_for_each_value_under_the_labels_of_its_row() {
        let grid: Grid<Meal> = Grid::default();
        grid[Meal::Lunch(())].inc();
        grid[Meal::Brunch].inc();
        let row = Description { name: "meals", labels: &[("day", "monday")], help: "Meals." };
        let mut seen = Vec::new();
        grid.show(&row, &mut |d, v| seen.push((d.name, d.labels.to_vec(), v)));
        let labels = |meal| vec![("day", "monday"), ("meal", meal)];
        let expected = [
            ("meals", labels("breakfast"), Value::Counter(0)),
            ("meals", labels("lunch"), Value::Counter(2)),
        ];
        assert_eq!(seen, expected);
        assert_eq!(grid[Meal::Breakfast].get(), 0);
    }
}
