//! Differences between databases: conversion of values to text, and meaning of errors.

use crate::tables::connections::RequestError;
use lookup::{LookupError, LookupErrorKind};
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySql, MySqlConnectOptions, MySqlRow};
use sqlx::postgres::{PgConnectOptions, PgRow, Postgres};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteRow};
use sqlx::{Connection, Decode, Row, TypeInfo as _, ValueRef as _};

/// A value's bytes; `None` for NULL.
type Bytes = Option<Vec<u8>>;

/// A kind of database.
pub(super) trait Dialect: sqlx::Database {
    /// The options with a password.
    fn with_password(
        options: <Self::Connection as Connection>::Options,
        password: &str,
    ) -> <Self::Connection as Connection>::Options;

    /// A value as text.
    ///
    /// # Errors
    /// Returns the reason as text if it cannot be converted.
    fn value(row: &Self::Row, index: usize) -> Result<Bytes, String>;

    /// The code of an error.
    fn code(error: &dyn DatabaseError) -> Option<String> {
        error.code().map(|code| code.into_owned())
    }

    /// Classifies an error code.
    fn failure(code: &str, trouble: impl Fn(LookupErrorKind) -> LookupError) -> RequestError {
        of_state(code, trouble)
    }
}

/// Classifies an SQLSTATE (SQL:2016 part 2, §24; PostgreSQL's errcodes).
fn of_state(state: &str, trouble: impl Fn(LookupErrorKind) -> LookupError) -> RequestError {
    match state.get(..2).unwrap_or_default() {
        // The connection ends, or a prepared statement or plan is no longer valid.
        "08" => RequestError::Gone(trouble(LookupErrorKind::Unreachable)),
        _ if matches!(state, "57P01" | "57P02" | "57P03" | "57P05") => {
            RequestError::Gone(trouble(LookupErrorKind::Unreachable))
        }
        _ if matches!(state, "0A000" | "26000") => {
            RequestError::Gone(trouble(LookupErrorKind::Wrong))
        }
        _ if matches!(state, "57014" | "70100") => {
            RequestError::Answered(trouble(LookupErrorKind::Timeout))
        }
        // Errors of the query with this key: not a number, a NUL, two rows instead of one.
        "22" | "21" => RequestError::Answered(trouble(LookupErrorKind::Key)),
        _ => RequestError::Answered(trouble(LookupErrorKind::Wrong)),
    }
}

/// A value of this type.
fn decoded<'r, R, T>(row: &'r R, index: usize) -> Result<T, String>
where
    R: Row,
    usize: sqlx::ColumnIndex<R>,
    T: Decode<'r, R::Database>,
{
    row.try_get_unchecked(index).map_err(|error| error.to_string())
}

fn no_text(kind: &str) -> Result<Bytes, String> {
    Err(format!("a value of type {kind} is not text: cast it in the query"))
}

fn shown(value: impl ToString) -> Result<Bytes, String> {
    Ok(Some(value.to_string().into_bytes()))
}

impl Dialect for Postgres {
    fn with_password(options: PgConnectOptions, password: &str) -> PgConnectOptions {
        options.password(password)
    }

    fn value(row: &PgRow, index: usize) -> Result<Bytes, String> {
        let raw = row.try_get_raw(index).map_err(|error| error.to_string())?;
        if raw.is_null() {
            return Ok(None);
        }
        let kind = raw.type_info();
        match kind.name() {
            "TEXT" | "VARCHAR" | "CHAR" | "NAME" | "UNKNOWN" | "citext" => {
                decoded::<_, String>(row, index).map(|text| Some(text.into()))
            }
            "BYTEA" => decoded(row, index).map(Some),
            // As PostgreSQL itself writes them.
            "BOOL" => decoded(row, index).and_then(|is: bool| shown(if is { 't' } else { 'f' })),
            "INT2" => decoded(row, index).and_then(|n: i16| shown(n)),
            "INT4" => decoded(row, index).and_then(|n: i32| shown(n)),
            "INT8" => decoded(row, index).and_then(|n: i64| shown(n)),
            "FLOAT4" => decoded(row, index).and_then(|n: f32| shown(n)),
            "FLOAT8" => decoded(row, index).and_then(|n: f64| shown(n)),
            name => no_text(name),
        }
    }
}

impl Dialect for MySql {
    fn with_password(options: MySqlConnectOptions, password: &str) -> MySqlConnectOptions {
        options.password(password)
    }

    fn value(row: &MySqlRow, index: usize) -> Result<Bytes, String> {
        let raw = row.try_get_raw(index).map_err(|error| error.to_string())?;
        if raw.is_null() {
            return Ok(None);
        }
        let kind = raw.type_info();
        match kind.name() {
            "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "MEDIUMINT" | "BIGINT" => {
                decoded(row, index).and_then(|n: i64| shown(n))
            }
            "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "INT UNSIGNED" | "MEDIUMINT UNSIGNED"
            | "BIGINT UNSIGNED" | "YEAR" => decoded(row, index).and_then(|n: u64| shown(n)),
            "FLOAT" => decoded(row, index).and_then(|n: f32| shown(n)),
            "DOUBLE" => decoded(row, index).and_then(|n: f64| shown(n)),
            // Decimals are sent as digits, and text types unchanged.
            "DECIMAL" | "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT"
            | "ENUM" | "SET" | "JSON" | "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB"
            | "MEDIUMBLOB" | "LONGBLOB" => decoded(row, index).map(Some),
            name => no_text(name),
        }
    }
}

impl Dialect for Sqlite {
    fn with_password(options: SqliteConnectOptions, _: &str) -> SqliteConnectOptions {
        options
    }

    fn value(row: &SqliteRow, index: usize) -> Result<Bytes, String> {
        let raw = row.try_get_raw(index).map_err(|error| error.to_string())?;
        if raw.is_null() {
            return Ok(None);
        }
        // The type of the value itself, not of its column.
        let kind = raw.type_info();
        match kind.name() {
            "INTEGER" | "BOOLEAN" => decoded(row, index).and_then(|n: i64| shown(n)),
            "REAL" => decoded(row, index).and_then(|n: f64| shown(n)),
            _ => decoded(row, index).map(Some),
        }
    }

    /// <https://sqlite.org/rescode.html>: the lowest byte of an extended code is the class.
    fn failure(code: &str, trouble: impl Fn(LookupErrorKind) -> LookupError) -> RequestError {
        const BUSY: i32 = 5;
        const LOCKED: i32 = 6;
        const TOO_BIG: i32 = 18;
        const MISMATCH: i32 = 20;
        match code.parse::<i32>().unwrap_or_default() & 0xff {
            BUSY | LOCKED => RequestError::Answered(trouble(LookupErrorKind::Timeout)),
            TOO_BIG | MISMATCH => RequestError::Answered(trouble(LookupErrorKind::Key)),
            // The file may be damaged, or another one by now.
            _ => RequestError::Broken(trouble(LookupErrorKind::Wrong)),
        }
    }
}
