//! Tables in Redis, Valkey and their kin.

mod resp;
mod settings;

pub(crate) use settings::{Redis, RedisText};

use super::connections;
use super::connections::{Connections, RequestError};
use super::server::within;
use super::text::{value, words};
use lookup::{Answers, Backend, Entry, Fetch, LookupError, LookupErrorKind};
use resp::{Reply, RespSession, command};
use zeroize::Zeroizing;

/// Keys of one request: they are sent together, and answered together.
const KEYS_MAX: usize = 100;

const NOT_ASKED_FOR: &str = "unexpected type of reply";

struct RedisDriver {
    settings: Redis,
    connections: Connections<RespSession>,
}

impl Redis {
    /// The driver, for the table thread.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        Box::new(RedisDriver { settings: self.clone(), connections: Connections::new() })
    }
}

impl Backend for RedisDriver {
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

impl RedisDriver {
    async fn find(&self, keys: &[Box<str>]) -> Answers {
        // A key without a part that its question needs is in no table.
        let mut answers: Answers = keys.iter().map(|_| Ok(None)).collect();
        let (places, questions): (Vec<usize>, Vec<Vec<u8>>) = (keys.iter().enumerate())
            .filter_map(|(place, key)| Some((place, self.settings.question(key)?)))
            .unzip();
        let found = self.ask_each(&questions).await;
        for (place, answer) in places.into_iter().zip(found) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = answer;
            }
        }
        answers
    }

    /// Sends all questions at once, or one by one if the answer is too large: a large value of one key is no error for
    /// the other keys.
    async fn ask_each(&self, questions: &[Vec<u8>]) -> Answers {
        match self.ask(questions).await {
            Ok(answers) => answers,
            Err(trouble) if trouble.kind == LookupErrorKind::Key && questions.len() > 1 => {
                let mut answers = Vec::with_capacity(questions.len());
                for question in questions {
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

    async fn ask(&self, questions: &[Vec<u8>]) -> Result<Answers, LookupError> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let server = &self.settings.server;
        let open = async || within(server, self.settings.connect_timeout, self.open()).await;
        let question = async |session: &mut RespSession| {
            self.exchange(session, questions).await.map_err(|failure| failure.of(server))
        };
        self.connections.ask(open, question).await
    }

    async fn exchange(
        &self,
        session: &mut RespSession,
        questions: &[Vec<u8>],
    ) -> Result<Answers, RequestError> {
        session.send(&questions.concat()).await?;
        let mut answers = Vec::with_capacity(questions.len());
        for number in 0..questions.len() {
            let reply = session.reply(self.settings.fields.len(), number == 0).await?;
            answers.push(self.entry(reply).map_err(|trouble| trouble.of(&self.settings.server)));
        }
        Ok(answers)
    }

    async fn open(&self) -> Result<RespSession, String> {
        let Redis { server, database, user, password_file, .. } = &self.settings;
        let mut session = RespSession::new(server.open().await.map_err(|error| error.to_string())?);
        if let Some(file) = password_file {
            let password = connections::read(file).await?;
            let user = user.as_deref().map(str::as_bytes);
            let words = [Some(&b"AUTH"[..]), user, Some(password.as_bytes())];
            let login = command(&words.into_iter().flatten().collect::<Vec<_>>());
            tell(&mut session, &Zeroizing::new(login)).await?;
        }
        if *database != 0 {
            let number = database.to_string();
            tell(&mut session, &command(&[b"SELECT", number.as_bytes()])).await?;
        }
        Ok(session)
    }

    /// The entry of a key, from a reply.
    fn entry(&self, reply: Reply) -> Result<Option<Entry>, LookupError> {
        let fields = &self.settings.fields;
        let values = match reply {
            Reply::Nil => return Ok(None),
            Reply::Value(bytes) if fields.is_empty() => {
                return Ok(Some(Entry::text(value(&bytes)?)));
            }
            Reply::Values(values) if !fields.is_empty() && values.len() == fields.len() => values,
            Reply::Error(error) => return Err(error_of(&error)),
            _ => return Err(LookupError::new(LookupErrorKind::Wrong, NOT_ASKED_FOR)),
        };
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut of_fields = Vec::with_capacity(fields.len());
        for (name, bytes) in fields.iter().zip(&values) {
            let of_field = bytes.as_deref().map(value).transpose()?;
            of_fields.push((name.clone(), of_field.into_iter().collect()));
        }
        Ok(Some(Entry::fields(of_fields)))
    }
}

/// Sends a command.
///
/// # Errors
/// Returns the server's error, or the reason for a missing reply.
async fn tell(session: &mut RespSession, command: &[u8]) -> Result<(), String> {
    let said = match session.send(command).await {
        Ok(()) => session.reply(0, true).await,
        Err(failure) => Err(failure),
    };
    match said {
        Ok(Reply::Done) => Ok(()),
        Ok(Reply::Error(error)) => Err(words(&error)),
        Ok(_) => Err(NOT_ASKED_FOR.to_owned()),
        Err(failure) => Err(failure.into_trouble().text.into()),
    }
}

/// Classifies an error by its kind, the first token.
fn error_of(error: &[u8]) -> LookupError {
    let kind = match error.split(|byte| *byte == b' ').next() {
        // The key exists, but with a list or hash in place of a text, or vice versa.
        Some(b"WRONGTYPE") => LookupErrorKind::Key,
        Some(b"NOAUTH" | b"WRONGPASS") => LookupErrorKind::Unreachable,
        _ => LookupErrorKind::Wrong,
    };
    LookupError::new(kind, words(error))
}

#[cfg(test)]
mod tests;
