//! Collects the rows of an answer.

use super::databases::Dialect;
use crate::tables::text::value;
use lookup::{Entry, LookupError, LookupErrorKind};
use sqlx::{Column as _, ColumnIndex, Row as _};

/// No answer has more rows.
const ROWS_MAX: usize = 1_000;

/// No answer has more bytes in its values.
const ANSWER_BYTES_MAX: usize = 100_000;

/// Values by column.
type ColumnValues = Vec<(Box<str>, Vec<Box<str>>)>;

/// Gathers rows.
pub(super) struct RowCollector<'f> {
    /// The columns that are wanted; empty: all.
    names: &'f [Box<str>],
    /// Their positions in a row, known from the first row on.
    columns: Vec<usize>,
    fields: ColumnValues,
    rows_count: usize,
    bytes: usize,
}

impl<'f> RowCollector<'f> {
    pub(super) fn new(names: &'f [Box<str>]) -> RowCollector<'f> {
        RowCollector { names, columns: Vec::new(), fields: Vec::new(), rows_count: 0, bytes: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns an error for too many rows, a missing column, or a value that is not text.
    pub(super) fn row<D: Dialect>(&mut self, row: &D::Row) -> Result<(), LookupError>
    where
        usize: ColumnIndex<D::Row>,
    {
        if self.rows_count == 0 {
            self.find_columns::<D>(row)?;
        }
        self.rows_count += 1;
        if self.rows_count > ROWS_MAX {
            return Err(trouble(format!("the answer has more than {ROWS_MAX} rows")));
        }
        for (index, (name, values)) in self.columns.iter().zip(&mut self.fields) {
            let bytes = D::value(row, *index)
                .map_err(|why| trouble(format!("column \"{name}\": {why}")))?;
            let Some(bytes) = bytes else { continue };
            self.bytes += bytes.len();
            if self.bytes > ANSWER_BYTES_MAX {
                return Err(trouble(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
            values.push(value(&bytes)?);
        }
        Ok(())
    }

    fn find_columns<D: Dialect>(&mut self, row: &D::Row) -> Result<(), LookupError> {
        let columns = row.columns();
        if self.names.is_empty() {
            self.columns = (0..columns.len()).collect();
            let name = |column: &<D as sqlx::Database>::Column| (column.name().into(), Vec::new());
            self.fields = columns.iter().map(name).collect();
            return Ok(());
        }
        for name in self.names {
            let is_it =
                |column: &<D as sqlx::Database>::Column| column.name().eq_ignore_ascii_case(name);
            let Some(index) = columns.iter().position(is_it) else {
                return Err(trouble(format!("the answer has no column \"{name}\"")));
            };
            self.columns.push(index);
            self.fields.push((name.clone(), Vec::new()));
        }
        Ok(())
    }

    /// The answer; `None`: there is no value in it.
    pub(super) fn entry(self) -> Option<Entry> {
        if self.fields.iter().all(|(_, values)| values.is_empty()) {
            return None;
        }
        let fields = self.fields.into_iter().map(|(name, values)| (name, values.into()));
        Some(Entry::fields(fields.collect::<Vec<_>>()))
    }
}

fn trouble(text: String) -> LookupError {
    LookupError::new(LookupErrorKind::Key, text)
}
