//! Token introspection by an OAuth 2.0 server (RFC 7662).

mod verdict;

use super::turns::{LoginLines, place};
use crate::https;
use crate::mutex::lock;
use crate::secret_place::first_line_aside;
use crate::world::clock::wall_now;
use auth::sasl::bearer::{self, Token};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use lookup::{LookupError, LookupErrorKind};
use mta::line::FairSemaphore;
use mta::seams::{Introspection, LoginTerms};
use rustls::ClientConfig;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use verdict::IntrospectionResult;

/// Maximum number of concurrent requests; further ones wait.
pub(super) const QUESTIONS_MAX: u64 = 64;
/// An answer has no more bytes.
const ANSWER_BYTES_MAX: usize = 65_536;
/// A secret has no more bytes.
const SECRET_BYTES_MAX: usize = 1_024;
/// Answers that are remembered; then all are forgotten.
const KNOWN_MAX: usize = 10_000;
/// Maximum cache time of a valid token, regardless of its lifetime.
const KNOWN_FOR: Duration = Duration::from_secs(300);
/// Cache time of an invalid token.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// A handle to one server; clones share it.
#[derive(Clone)]
pub(super) struct Introspector(Arc<IntrospectionClient>);

struct IntrospectionClient {
    settings: Arc<Introspection>,
    /// The authorities' certificates are read when they are needed first.
    client: Mutex<Option<Arc<ClientConfig>>>,
    /// By the hashes of tokens.
    known: Mutex<BTreeMap<[u8; 32], CachedToken>>,
    questions: Arc<FairSemaphore>,
}

/// The cached result for a token.
struct CachedToken {
    /// `None` for an invalid token.
    user: Option<String>,
    until: Instant,
}

impl Introspector {
    pub(super) fn new(settings: &Arc<Introspection>, lines: &LoginLines) -> Introspector {
        Introspector(Arc::new(IntrospectionClient {
            settings: Arc::clone(settings),
            client: Mutex::default(),
            known: Mutex::default(),
            questions: lines.open(QUESTIONS_MAX),
        }))
    }

    /// Returns true if the settings are equal.
    pub(super) fn is_of(&self, settings: &Introspection) -> bool {
        *self.0.settings == *settings
    }

    /// The user of a token; `None` if the token is invalid or lacks the scope. The time limit includes the wait for a
    /// turn.
    ///
    /// # Errors
    /// Returns an error if the server does not decide.
    pub(super) async fn check(
        self,
        token: Token,
        terms: LoginTerms,
    ) -> Result<Option<String>, LookupError> {
        let key = token.digest();
        let known = lock(&self.0.known)
            .get(&key)
            .filter(|known| Instant::now() < known.until)
            .map(|known| known.user.clone());
        if let Some(user) = known {
            return Ok(user);
        }
        let patience = terms.patience;
        let verdict = match timeout(patience, self.ask(&token, terms)).await {
            Ok(asked) => asked?,
            Err(_) => {
                let text = format!("no answer within {patience:?}");
                return Err(LookupError::new(LookupErrorKind::Timeout, text));
            }
        };
        let (user, lasts) = match verdict {
            IntrospectionResult::User { name, left } => {
                (Some(name), left.map_or(KNOWN_FOR, |left| left.min(KNOWN_FOR)))
            }
            IntrospectionResult::Nobody => (None, UNKNOWN_FOR),
        };
        let mut all = lock(&self.0.known);
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(key, CachedToken { user: user.clone(), until: Instant::now() + lasts });
        Ok(user)
    }

    async fn ask(
        &self,
        token: &Token,
        terms: LoginTerms,
    ) -> Result<IntrospectionResult, LookupError> {
        let unreachable = |why: String| LookupError::new(LookupErrorKind::Unreachable, why);
        let wrong = |why: String| LookupError::new(LookupErrorKind::Wrong, why);
        let settings = &self.0.settings;
        let _turn = place(&self.0.questions, terms).await?;
        let authorization = self.authorization().await.map_err(unreachable)?;
        let request = Request::post(&*settings.at.path)
            .header(HOST, &*settings.at.authority)
            .header(USER_AGENT, https::USER_AGENT_NAME)
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, authorization.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::<Bytes>::from(token.question().as_bytes().to_vec()))
            .map_err(|error| unreachable(error.to_string()))?;
        let client = match settings.at.is_encrypted {
            true => Some(self.client().await.map_err(unreachable)?),
            false => None,
        };
        let (host, port) = (&settings.at.host, settings.at.port);
        let stream = https::connect(host, port, client).await.map_err(unreachable)?;
        let (status, text) =
            https::exchange(stream, request, ANSWER_BYTES_MAX).await.map_err(wrong)?;
        // RFC 7662 §2.2, §2.3. Redirects are not followed, and a refusal is an error of our configuration.
        if status != StatusCode::OK {
            return Err(wrong(format!("it returned {status}")));
        }
        let read = IntrospectionResult::read(
            &text,
            wall_now(),
            &settings.user_claim,
            settings.scope.as_deref(),
        );
        read.map_err(|why| wrong(why.to_owned()))
    }

    /// RFC 6749 §2.3.1. The secret is read each time, so that a new one needs no reload.
    async fn authorization(&self) -> Result<impl Deref<Target = String>, String> {
        let Introspection { client_id, secret_file, .. } = &*self.0.settings;
        let secret = first_line_aside("secret_file", secret_file, SECRET_BYTES_MAX).await?;
        Ok(bearer::authorization(client_id, &secret))
    }

    async fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let known = lock(&self.0.client).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        // Release the lock before a file is read.
        let ca_file = self.0.settings.ca_file.clone();
        let client = Arc::new(https::client_aside(ca_file).await?);
        *lock(&self.0.client) = Some(Arc::clone(&client));
        Ok(client)
    }
}
