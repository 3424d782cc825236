//! `redis = { … }`.

use super::resp::command;
use crate::tables::server::{CONNECT_TIMEOUT, TableServer};
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use ldap::{Key, Template};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Default port.
const PORT: u16 = 6379;

/// Maximum number of fields.
const FIELDS_MAX: usize = 64;

/// A table in Redis, Valkey or another RESP server. The result is the value of a key (GET), or with `field` or `fields`
/// the values of fields of a hash (HGET, HMGET). Placeholders in `key` and `field`: `%s` is the key to look up, `%u`
/// its local part, `%d` its domain, `%1` to `%9` labels of the domain from its end, and `%%` a percent sign. A key
/// without the required part is not looked up. Values have at most 100,000 bytes. Up to 100 keys are sent in one
/// request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RedisText {
    /// Address of the server: `redis://host:port/database`, or `unix:` and the path of a socket; the defaults are port
    /// 6379 and database 0. Required. TLS is not supported, so use a socket or a trusted network.
    #[schemars(extend("title" = "redis://host:port/database or unix:path"))]
    server: String,
    /// Number of the database, if `server` does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 65_535))]
    database: Option<u16>,
    /// User to log in as (Redis 6 and later). Default: the default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// File with the password in its first line, read for each connection. Also `env:NAME` or
    /// `$CREDENTIALS_DIRECTORY/NAME`, see `docs/tls.md`. Default: no password.
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    /// Key in the server: `"user:%s"`. Required.
    key: String,
    /// Field of the hash at `key` with the result: `key = "virtual"`, `field = "%s"` for a whole table in one hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Fields of the hash at `key` that form the result, under these names. A key with none of the fields is not in the
    /// table.
    fields: Vec<String>,
    /// Timeout for a connection.
    connect_timeout: Period,
}

impl Default for RedisText {
    fn default() -> RedisText {
        RedisText {
            server: String::new(),
            database: None,
            user: None,
            password_file: None,
            key: String::new(),
            field: None,
            fields: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT.into(),
        }
    }
}

impl TableSection for RedisText {
    const KEY: &'static str = "redis";
    const SUMMARY: &'static str = "Redis or Valkey.";
    const EXAMPLE: &'static str = "[[table]]\nredis = { … }";
    const IS_REMOTE: bool = true;
    type Text = RedisText;

    fn read(text: RedisText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        let place = place(&text, reader);
        check_fields(&text, reader);
        if text.user.is_some() && text.password_file.is_none() {
            reader.error("user", "a user without `password_file`", "add `password_file`");
        }
        if text.key.is_empty() {
            let help = "name the key in the server, for example key = \"user:%s\"";
            reader.error("", "a redis table without `key`", help);
            return None;
        }
        let key = template("key", &text.key, reader);
        let field = match &text.field {
            Some(field) => Some(template("field", field, reader)?),
            None => None,
        };
        let (key, (server, database)) = (key?, place?);
        if !key.has_parts() && !field.as_ref().is_some_and(Template::has_parts) {
            let help = "write %s in place of the key, here or in `field`";
            reader.error("key", "the query does not depend on the key", help);
            return None;
        }
        reader.named_file("password_file", text.password_file.as_deref());
        Some(Arc::new(Redis {
            server,
            database,
            user: text.user.map(String::into_boxed_str),
            password_file: text.password_file.map(PathBuf::into_boxed_path),
            key,
            field,
            fields: text.fields.into_iter().map(String::into_boxed_str).collect(),
            connect_timeout: text.connect_timeout.get(),
        }))
    }
}

/// The server, and the number of the database.
fn place(text: &RedisText, reader: &mut Reader<'_, '_>) -> Option<(TableServer, u16)> {
    if text.server.starts_with("rediss:") {
        let help = "use a Unix socket, or a tunnel";
        reader.error("server", "TLS to Redis servers is not supported", help);
        return None;
    }
    let rest = ["redis://", "valkey://"].iter().find_map(|scheme| text.server.strip_prefix(scheme));
    if rest.unwrap_or(&text.server).contains('@') && !text.server.starts_with("unix:") {
        let help = "set `user` and `password_file`";
        reader.error("server", "user and password in `server`", help);
        return None;
    }
    let (address, path) = match rest {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => (&*text.server, ""),
    };
    let server = TableServer::read(address, PORT, reader);
    let database = match (path, text.database) {
        ("", database) => database.unwrap_or_default(),
        (_, Some(_)) => {
            let help = "leave one out";
            reader.error("database", "`server` already has a database", help);
            return None;
        }
        (path, None) => match path.parse() {
            Ok(database) => database,
            Err(_) => {
                let message = format!("\"{path}\" is not a database number");
                reader.error("server", message, "");
                return None;
            }
        },
    };
    Some((server?, database))
}

fn check_fields(text: &RedisText, reader: &mut Reader<'_, '_>) {
    if text.field.is_some() && !text.fields.is_empty() {
        reader.error("field", "`field` and `fields` exclude each other", "leave one out");
    }
    if text.fields.len() > FIELDS_MAX {
        reader.error("fields", format!("more than {FIELDS_MAX} fields"), "");
    }
    for (index, name) in text.fields.iter().enumerate() {
        let before = text.fields.iter().take(index);
        if name.is_empty() {
            reader.error(&format!("fields[{index}]"), "a field without a name", "");
        } else if before.into_iter().any(|other| other.eq_ignore_ascii_case(name)) {
            let message = format!("the field \"{name}\" is listed twice");
            reader.error(&format!("fields[{index}]"), message, "");
        }
    }
}

fn template(key: &str, text: &str, reader: &mut Reader<'_, '_>) -> Option<Template> {
    let template = Template::parse(text);
    if let Err(why) = &template {
        reader.error(key, why.to_string(), "write %% for a percent sign");
    }
    template.ok()
}

/// Settings of a table in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redis {
    pub(super) server: TableServer,
    pub(super) database: u16,
    pub(super) user: Option<Box<str>>,
    pub(super) password_file: Option<Box<Path>>,
    key: Template,
    field: Option<Template>,
    /// Empty: the answer is one text.
    pub(super) fields: Box<[Box<str>]>,
    pub(super) connect_timeout: Duration,
}

impl TableSettings for Redis {
    fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(|field| &**field).collect()
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of() == Some(self)
    }
}

impl Redis {
    /// The command for a key; `None` if the key lacks a required part.
    pub(super) fn question(&self, key: &str) -> Option<Vec<u8>> {
        let key = Key::new(key);
        let name = self.key.fill(&key)?;
        let field = match &self.field {
            Some(field) => Some(field.fill(&key)?),
            None => None,
        };
        let verb = match (&field, &*self.fields) {
            (None, []) => "GET",
            (Some(_), _) => "HGET",
            (None, _) => "HMGET",
        };
        let fields = field.iter().map(Vec::as_slice);
        let fields = fields.chain(self.fields.iter().map(|field| field.as_bytes()));
        let words = [verb.as_bytes(), &name].into_iter().chain(fields);
        Some(command(&words.collect::<Vec<_>>()))
    }
}
