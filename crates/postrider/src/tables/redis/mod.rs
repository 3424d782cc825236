//! Tables in Redis, Valkey and their kin.

mod limited;
mod settings;

pub(crate) use settings::{Redis, RedisText};

use super::connections::{Connections, Failure};
use super::password;
use super::server::within;
use super::text::{value, words};
use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    Value,
};
use limited::{Allowance, Limited};
use lookup::{Answers, Backend, Entry, Fetch, Trouble, TroubleKind};
use std::sync::Arc;

/// Keys of one request: they are sent together, and answered together.
const KEYS_MAX: usize = 100;

/// No value is longer.
const VALUE_BYTES_MAX: usize = 100_000;

/// What the protocol adds to a value, its length and ends of lines, or says in its stead: an error.
const AROUND_VALUE_BYTES_MAX: usize = 1_024;

/// What a server may say while a connection is opened.
const OPENING_BYTES_MAX: usize = 64 * 1024;

/// A connection that one request at a time is made on.
struct Session {
    connection: MultiplexedConnection,
    allowance: Arc<Allowance>,
}

struct Driver {
    settings: Redis,
    connections: Connections<Session>,
}

impl Redis {
    /// A driver, for the thread that asks it.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        Box::new(Driver { settings: self.clone(), connections: Connections::new() })
    }
}

impl Backend for Driver {
    fn batch_max(&self) -> usize {
        KEYS_MAX
    }

    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(self.find(keys))
    }

    fn server(&self) -> Option<String> {
        self.connections.is_answering().then(|| self.settings.server.to_string())
    }
}

impl Driver {
    async fn find(&self, keys: &[Box<str>]) -> Answers {
        // A key without a part that its question needs is in no table.
        let mut answers: Answers = keys.iter().map(|_| Ok(None)).collect();
        let (places, questions): (Vec<usize>, Vec<Cmd>) = (keys.iter().enumerate())
            .filter_map(|(place, key)| Some((place, self.settings.question(key)?)))
            .unzip();
        let found = self.ask_each(questions).await;
        for (place, answer) in places.into_iter().zip(found) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = answer;
            }
        }
        answers
    }

    /// Asks all at once, and one after the other if that is too much of an answer: what one key has too
    /// much of is no trouble of the others.
    async fn ask_each(&self, questions: Vec<Cmd>) -> Answers {
        match self.ask(&questions).await {
            Ok(answers) => answers,
            Err(trouble) if trouble.kind == TroubleKind::Key && questions.len() > 1 => {
                let mut answers = Vec::with_capacity(questions.len());
                for question in &questions {
                    match self.ask(std::slice::from_ref(question)).await {
                        Ok(answer) => answers.extend(answer),
                        Err(trouble) => answers.push(Err(trouble)),
                    }
                }
                answers
            }
            Err(trouble) => questions.iter().map(|_| Err(trouble.clone())).collect(),
        }
    }

    async fn ask(&self, questions: &[Cmd]) -> Result<Answers, Trouble> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::with_capacity(questions.len());
        for question in questions {
            pipeline.add_command(question.clone());
        }
        pipeline.ignore_errors();
        let server = &self.settings.server;
        let values = self.settings.fields.len().max(1);
        let bytes = questions.len() * values * (VALUE_BYTES_MAX + AROUND_VALUE_BYTES_MAX);
        let open = async || within(server, self.settings.connect_timeout, self.open()).await;
        let question = async |session: &mut Session| {
            session.allowance.set(bytes);
            let replies: RedisResult<Vec<RedisResult<Value>>> =
                pipeline.query_async(&mut session.connection).await;
            match replies {
                Ok(replies) if replies.len() == questions.len() => {
                    Ok(replies.into_iter().map(|reply| self.answer(reply)).collect())
                }
                Ok(_) => Err(Failure::Broken(wrong("not an answer for each question"))),
                Err(_) if session.allowance.is_exceeded() => Err(Failure::Broken(too_much())),
                Err(error) => Err(failure(&error)),
            }
            .map_err(|failure| failure.of(server))
        };
        self.connections.ask(open, question).await
    }

    async fn open(&self) -> Result<Session, String> {
        let Redis { server, database, user, password_file, .. } = &self.settings;
        let mut info = RedisConnectionInfo::default().set_db((*database).into());
        if let Some(user) = user {
            info = info.set_username(user);
        }
        if let Some(file) = password_file {
            info = info.set_password(&*password::read(file)?);
        }
        let wire = server.open().await.map_err(|error| error.to_string())?;
        let allowance = Allowance::new(OPENING_BYTES_MAX);
        let stream = Limited { wire, allowance: Arc::clone(&allowance) };
        // How long is decided here, and by whoever asks.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = opened.map_err(|error| told(&error))?;
        // It ends with the connection.
        tokio::task::spawn_local(driver);
        Ok(Session { connection, allowance })
    }

    /// What a reply says of a key.
    fn answer(&self, reply: RedisResult<Value>) -> Result<Option<Entry>, Trouble> {
        let server = &self.settings.server;
        let named = |trouble: Trouble| Trouble::new(trouble.kind, format!("{server}: {trouble}"));
        let reply = reply.map_err(|error| named(error_of(&error)))?;
        self.entry(reply).map_err(named)
    }

    fn entry(&self, reply: Value) -> Result<Option<Entry>, Trouble> {
        let fields = &self.settings.fields;
        let replies = match reply {
            Value::Nil => return Ok(None),
            Value::BulkString(bytes) if fields.is_empty() => {
                return Ok(Some(Entry::text(short_value(&bytes)?)));
            }
            Value::Array(replies) if !fields.is_empty() && replies.len() == fields.len() => replies,
            _ => return Err(wrong("the answer is of a kind that was not asked for")),
        };
        if replies.iter().all(|reply| *reply == Value::Nil) {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(fields.len());
        for (name, reply) in fields.iter().zip(replies) {
            let of_field = match reply {
                Value::Nil => Box::default(),
                Value::BulkString(bytes) => Box::from([short_value(&bytes)?]),
                _ => return Err(wrong("the answer is of a kind that was not asked for")),
            };
            values.push((name.clone(), of_field));
        }
        Ok(Some(Entry::fields(values)))
    }
}

fn short_value(bytes: &[u8]) -> Result<Box<str>, Trouble> {
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(too_much());
    }
    value(bytes)
}

fn too_much() -> Trouble {
    let text = format!("the answer has a value of more than {VALUE_BYTES_MAX} bytes");
    Trouble::new(TroubleKind::Key, text)
}

fn wrong(text: &str) -> Trouble {
    Trouble::new(TroubleKind::Wrong, text)
}

/// An error for people: the server's words where it is its own.
fn told(error: &RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    words(text.as_bytes())
}

/// Why there is no reply at all.
fn failure(error: &RedisError) -> Failure {
    let text = told(error);
    if error.is_connection_dropped() {
        return Failure::Gone(Trouble::new(TroubleKind::Unreachable, text));
    }
    Failure::Broken(Trouble::new(TroubleKind::Wrong, text))
}

/// What a reply means that is an error.
fn error_of(error: &RedisError) -> Trouble {
    let kind = match error.code() {
        // The key is there, and is a list or a hash where a text is wanted, or the other way round.
        Some("WRONGTYPE") => TroubleKind::Key,
        Some("NOAUTH") => TroubleKind::Unreachable,
        _ if error.kind() == ErrorKind::AuthenticationFailed => TroubleKind::Unreachable,
        _ => TroubleKind::Wrong,
    };
    Trouble::new(kind, told(error))
}

#[cfg(test)]
mod tests;
