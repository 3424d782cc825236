//! Tables in SQL databases.

mod answer;
mod databases;
mod query;
mod settings;

pub(crate) use settings::{Sql, SqlText};

use super::connections;
use super::connections::{Connections, RequestError, in_turn};
use super::server::within;
use super::text::words;
use answer::RowCollector;
use databases::Dialect;
use lookup::{Backend, Entry, Fetch, LookupError, LookupErrorKind};
use settings::Database;
use sqlx::mysql::MySql;
use sqlx::postgres::Postgres;
use sqlx::sqlite::Sqlite;
use sqlx::{
    AssertSqlSafe, ColumnIndex, ConnectOptions, Connection, Encode, Error, Executor, IntoArguments,
    Type,
};
use std::future::poll_fn;
use std::sync::Arc;

impl Sql {
    /// The driver, for the table thread.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        match &self.database {
            Database::Postgres(options) => SqlDriver::<Postgres>::boxed(self, options),
            Database::Mysql(options) => SqlDriver::<MySql>::boxed(self, options),
            Database::Sqlite(options) => SqlDriver::<Sqlite>::boxed(self, options),
        }
    }
}

type ConnectOptionsOf<D> = <<D as sqlx::Database>::Connection as Connection>::Options;

struct SqlDriver<D: Dialect> {
    settings: Sql,
    options: ConnectOptionsOf<D>,
    connections: Connections<D::Connection>,
}

impl<D> SqlDriver<D>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    for<'k> String: Encode<'k, D> + Type<D>,
    usize: ColumnIndex<D::Row>,
{
    fn boxed(settings: &Sql, options: &ConnectOptionsOf<D>) -> Box<dyn Backend> {
        let (settings, options) = (settings.clone(), options.clone());
        Box::new(SqlDriver::<D> { settings, options, connections: Connections::new() })
    }

    async fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let Some(values) = self.settings.query.values(key) else { return Ok(None) };
        let server = &self.settings.url;
        let open = async || within(server, self.settings.connect_timeout, self.open()).await;
        let question = async |connection: &mut D::Connection| {
            self.ask(connection, &values).await.map_err(|failure| failure.of(server))
        };
        self.connections.ask(open, question).await
    }

    async fn open(&self) -> Result<D::Connection, String> {
        let password = match &self.settings.password_file {
            Some(file) => Some(connections::read(file).await?),
            None => None,
        };
        let options = match password {
            Some(password) => D::with_password(self.options.clone(), &password),
            None => self.options.clone(),
        };
        options.connect().await.map_err(|error| told::<D>(&error))
    }

    async fn ask(
        &self,
        connection: &mut D::Connection,
        values: &[&str],
    ) -> Result<Option<Entry>, RequestError> {
        // The statement is only text of the configuration: keys are parameters.
        let sql = AssertSqlSafe(Arc::clone(&self.settings.query.sql));
        let mut query = sqlx::query::<D>(sql);
        for value in values {
            query = query.bind((*value).to_owned());
        }
        let mut rows = connection.fetch(query);
        let mut gathering = RowCollector::new(&self.settings.fields);
        while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
            let row = row.map_err(|error| failure::<D>(&error))?;
            // The connection is closed: keeping it would mean to read the rest of the answer first.
            gathering.row::<D>(&row).map_err(RequestError::Broken)?;
        }
        Ok(gathering.entry())
    }
}

impl<D> Backend for SqlDriver<D>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    for<'k> String: Encode<'k, D> + Type<D>,
    usize: ColumnIndex<D::Row>,
{
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(in_turn(keys, async |key| self.find(key).await))
    }

    fn server(&self) -> Option<String> {
        self.connections.is_answering().then(|| self.settings.url.to_string())
    }
}

/// The text of an error, with the server's code, if any.
fn told<D: Dialect>(error: &Error) -> String {
    let text = match error {
        Error::Database(error) => match D::code(&**error) {
            Some(code) => format!("{} ({code})", error.message()),
            None => error.message().to_owned(),
        },
        Error::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    words(text.as_bytes())
}

/// Classifies an error for its request and its connection.
fn failure<D: Dialect>(error: &Error) -> RequestError {
    let trouble = |kind| LookupError::new(kind, told::<D>(error));
    let code = match error {
        Error::Io(_) | Error::WorkerCrashed => {
            return RequestError::Gone(trouble(LookupErrorKind::Unreachable));
        }
        Error::Database(error) => D::code(&**error).unwrap_or_default(),
        _ => return RequestError::Broken(trouble(LookupErrorKind::Wrong)),
    };
    D::failure(&code, trouble)
}

#[cfg(test)]
mod tests;
