//! `sql = { … }`.

use super::query::{Flavour, Query};
use crate::tables::server::CONNECT_TIMEOUT;
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::ConnectOptions as _;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

/// A table in PostgreSQL, MySQL, MariaDB or SQLite. Placeholders in the query are sent as parameters and never inserted
/// into its text: `%s` is the key, `%u` the local part of an address (else the whole key), `%d` its domain, `%1` to
/// `%9` labels of the domain from its end, and `%%` a percent sign. A key without the required part is not looked up.
/// Several rows are one entry with several values. NULL is no value, and a key with NULL only is not in the table.
/// Columns can be texts, numbers and booleans; cast other types in the query. A result has at most 1,000 rows and
/// 100,000 bytes. The number of connections is `cache = { max_requests = … }`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SqlText {
    /// URL of the database: `postgres://user@host:port/database`, `mysql://user@host:port/database` or `sqlite:/path`,
    /// which is opened read-only. Required. `?sslmode=verify-full` and `&sslrootcert=FILE` (MySQL:
    /// `ssl-mode=VERIFY_IDENTITY`, `ssl-ca`) require TLS with a verified server name. A Unix socket is
    /// `?host=/run/postgresql` or `?socket=/run/mysqld/mysqld.sock`.
    #[schemars(extend("title" = "URL"))]
    url: String,
    /// The query: `"SELECT mailbox FROM users WHERE address = %s"`. Required.
    query: String,
    /// Columns of the result, by their names in the query. Default: all. Templates can use only columns named here.
    fields: Vec<String>,
    /// File with the password in its first line, read for each connection. Also `env:NAME` or
    /// `$CREDENTIALS_DIRECTORY/NAME`, see `docs/tls.md`. Default: no password.
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    /// Timeout for a connection.
    connect_timeout: Period,
}

impl Default for SqlText {
    fn default() -> SqlText {
        SqlText {
            url: String::new(),
            query: String::new(),
            fields: Vec::new(),
            password_file: None,
            connect_timeout: CONNECT_TIMEOUT.into(),
        }
    }
}

impl TableSection for SqlText {
    const KEY: &'static str = "sql";
    const SUMMARY: &'static str = "PostgreSQL, MySQL, MariaDB or SQLite.";
    const EXAMPLE: &'static str = "[[table]]\nsql = { … }";
    const IS_REMOTE: bool = true;
    type Text = SqlText;

    fn read(text: SqlText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        check_fields(&text.fields, reader);
        if text.url.is_empty() {
            let help = "for example url = \"postgres://postrider@127.0.0.1/mail\"";
            reader.error("", "an sql table without `url`", help);
            return None;
        }
        let database = match Database::parse(&text.url, text.connect_timeout.get()) {
            Ok(database) => database,
            Err((message, help)) => {
                reader.error("url", message, help);
                return None;
            }
        };
        if text.password_file.is_some() && database.flavour() == Flavour::Sqlite {
            reader.error("password_file", "a file of SQLite has no password", "leave it out");
        }
        if text.query.is_empty() {
            let help = "for example query = \"SELECT mailbox FROM users WHERE address = %s\"";
            reader.error("", "an sql table without `query`", help);
            return None;
        }
        reader.named_file("password_file", text.password_file.as_deref());
        if let Database::Sqlite(options) = &database {
            reader.named_file("url", Some(options.get_filename()));
        }
        match Query::parse(&text.query, database.flavour()) {
            Ok(query) => Some(Arc::new(Sql {
                url: text.url.into(),
                database,
                query,
                fields: text.fields.into_iter().map(String::into_boxed_str).collect(),
                password_file: text.password_file.map(PathBuf::into_boxed_path),
                connect_timeout: text.connect_timeout.get(),
            })),
            Err(mistake) => {
                reader.error("query", mistake.message, mistake.help);
                None
            }
        }
    }
}

fn check_fields(fields: &[String], reader: &mut Reader<'_, '_>) {
    for (index, name) in fields.iter().enumerate() {
        let before = fields.iter().take(index);
        if name.is_empty() {
            reader.error(&format!("fields[{index}]"), "a column without a name", "");
        } else if before.into_iter().any(|other| other.eq_ignore_ascii_case(name)) {
            let message = format!("the column \"{name}\" is listed twice");
            reader.error(&format!("fields[{index}]"), message, "");
        }
    }
}

/// Connection options of a database.
#[derive(Clone, Debug)]
pub(super) enum Database {
    Postgres(Box<PgConnectOptions>),
    Mysql(Box<MySqlConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
}

impl Database {
    fn flavour(&self) -> Flavour {
        match self {
            Database::Postgres(_) => Flavour::Postgres,
            Database::Mysql(_) => Flavour::Mysql,
            Database::Sqlite(_) => Flavour::Sqlite,
        }
    }

    /// Reads a URL; or what is wrong with it, and how it would be right.
    fn parse(url: &str, timeout: Duration) -> Result<Database, (String, &'static str)> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err((format!("\"{url}\" is not a URL"), SCHEMES));
        };
        let authority = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let has_password = user.contains(':') || rest.contains("password=");
        if has_password && scheme != "sqlite" {
            let help = "put it into a file: password_file = \"/etc/postrider/password\"";
            return Err(("a password in `url`".to_owned(), help));
        }
        let wrong = |error: sqlx::Error| (format!("\"{url}\" is not a database: {error}"), SCHEMES);
        match scheme {
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url).map_err(wrong)?;
                Ok(Database::Postgres(Box::new(options.disable_statement_logging())))
            }
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(url).map_err(wrong)?;
                Ok(Database::Mysql(Box::new(options.disable_statement_logging())))
            }
            "sqlite" => {
                if !rest.trim_start_matches("//").starts_with('/') {
                    let message = format!("\"{url}\" does not name a file");
                    return Err((message, "write its whole path: sqlite:/srv/mail/users.db"));
                }
                let options = SqliteConnectOptions::from_str(url).map_err(wrong)?;
                let options = options.read_only(true).create_if_missing(false);
                let options = options.busy_timeout(timeout).disable_statement_logging();
                Ok(Database::Sqlite(Box::new(options)))
            }
            _ => Err((format!("unknown kind of database \"{scheme}\""), SCHEMES)),
        }
    }
}

const SCHEMES: &str =
    "use postgres://user@host/database, mysql://user@host/database or sqlite:/path";

/// Settings of a table in a database.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(super) url: Box<str>,
    pub(super) database: Database,
    pub(super) query: Query,
    /// Empty: all columns.
    pub(super) fields: Box<[Box<str>]>,
    pub(super) password_file: Option<Box<Path>>,
    pub(super) connect_timeout: Duration,
}

impl TableSettings for Sql {
    fn builds_answers(&self) -> bool {
        true
    }

    fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(|field| &**field).collect()
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<Sql>().is_some_and(|other| {
            self.url == other.url
                && self.query == other.query
                && self.fields == other.fields
                && self.password_file == other.password_file
                && self.connect_timeout == other.connect_timeout
        })
    }
}
