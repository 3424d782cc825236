//! Tokens that routes log in with, fetched from OAuth 2.0 servers and renewed in time (RFC 6749).
//!
//! Nothing waits for a server but mail that has no token. Each source has a task of its own, on the thread of
//! services: it asks once at a time, however many routes have the token, and goes on over reloads.

mod answer;
mod request;

use crate::console::ConsoleLog;
use crate::mutex::lock;
use crate::services::{
    Adoption, CandidateConfig, Service, ServiceRuntime, TaskSpawner, nothing_to_adopt,
};
use config::{Config, Problem, Secret, SecretFile, SecretSource, TokenSource};
use mta::console::{Console as _, Level};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// A server answers within so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// After a failure it is asked again after so long, and then twice as long each time …
const RETRY_FIRST: Duration = Duration::from_secs(5);
/// … up to this.
const RETRY_LONGEST: Duration = Duration::from_secs(300);
/// A token that a host refuses is renewed, but no sooner after the last was fetched.
const REFUSED_AFTER: Duration = Duration::from_secs(60);
/// How often it is seen whether one was refused.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Those who renew tokens.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<TokenRenewals>);

struct TokenRenewals {
    sources: Mutex<Vec<(TokenSource, mpsc::UnboundedSender<Weak<SecretFile>>)>>,
    runtime: ServiceRuntime,
    console: Arc<ConsoleLog>,
}

/// One source, and the files that its token goes to.
struct Task {
    source: TokenSource,
    files: mpsc::UnboundedReceiver<Weak<SecretFile>>,
    console: Arc<ConsoleLog>,
}

impl Tokens {
    /// None, before a configuration is adopted.
    pub(crate) fn new(runtime: &ServiceRuntime, console: &Arc<ConsoleLog>) -> Tokens {
        Tokens(Arc::new(TokenRenewals {
            sources: Mutex::default(),
            runtime: runtime.clone(),
            console: Arc::clone(console),
        }))
    }
}

impl Service for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        if tokens_of(next.config).next().is_none() {
            return Ok(nothing_to_adopt());
        }
        let tasks = self.0.runtime.start();
        let tasks = tasks.map_err(|why| vec![next.config.mistake_at("route", why)])?;
        let (inner, config) = (Arc::clone(&self.0), Arc::clone(next.config));
        Ok(Box::new(move || {
            tokens_of(&config).for_each(|(source, file)| inner.renew(&tasks, source, file));
        }))
    }
}

/// The tokens that a configuration names, with their sources.
fn tokens_of(config: &Config) -> impl Iterator<Item = (&TokenSource, &Arc<SecretFile>)> {
    config.secret_files().filter_map(|(_, file)| match file.source() {
        SecretSource::Token(source) => Some((&**source, file)),
        _ => None,
    })
}

impl TokenRenewals {
    /// Renews a token for as long as the configuration that names it is in force. The task of a source ends with the
    /// process: all that is sent is received.
    fn renew(&self, tasks: &TaskSpawner, source: &TokenSource, file: &Arc<SecretFile>) {
        let mut sources = lock(&self.sources);
        if let Some((_, files)) = sources.iter().find(|(of, _)| of == source) {
            let _ = files.send(Arc::downgrade(file));
            return;
        }
        let (sender, files) = mpsc::unbounded_channel();
        let task = Task { source: source.clone(), files, console: Arc::clone(&self.console) };
        let _ = sender.send(Arc::downgrade(file));
        sources.push((source.clone(), sender));
        tasks.spawn(move || renew(task));
    }
}

/// What is known of one source.
struct State {
    /// The token, and when it ends.
    token: Option<(Secret, Instant)>,
    /// Why there is none.
    why: Box<str>,
    asked_at: Option<Instant>,
    /// When it is asked next.
    due: Instant,
    failures: u32,
}

impl State {
    /// What routes log in with.
    fn content(&self) -> Result<Secret, Box<str>> {
        match &self.token {
            Some((token, ends)) if Instant::now() < *ends => Ok(token.clone()),
            _ => Err(self.why.clone()),
        }
    }

    /// Takes what came of a request.
    fn take(&mut self, answered: Result<answer::TokenGrant, String>) {
        let now = Instant::now();
        self.asked_at = Some(now);
        match answered {
            Ok(granted) => {
                self.failures = 0;
                self.why = "expired and not renewed yet".into();
                self.due = now + granted.renewed_after();
                self.token = Some((granted.token, now + granted.lasts));
            }
            Err(why) => {
                let wait = RETRY_FIRST * 2_u32.saturating_pow(self.failures.min(10));
                self.failures = self.failures.saturating_add(1);
                self.due = now + wait.min(RETRY_LONGEST);
                self.why = why.into();
            }
        }
    }

    /// Says when it begins to fail, and when that is over.
    fn log(&self, console: &ConsoleLog, was_well: bool, whose: &str) {
        match self.failures {
            0 if !was_well => {
                console.line(Level::Info, "token", format_args!("renewed again: {whose}"))
            }
            1 => console.line(
                Level::Error,
                "token",
                format_args!("not renewed: {whose}: {}", self.why),
            ),
            _ => {}
        }
    }
}

async fn renew(task: Task) {
    let Task { source, mut files, console } = task;
    let mut asker = request::TokenClient::new(source);
    let mut state = State {
        token: None,
        why: "not obtained yet".into(),
        asked_at: None,
        due: Instant::now(),
        failures: 0,
    };
    let mut routes: Vec<Arc<SecretFile>> = Vec::new();
    let mut weak: Vec<Weak<SecretFile>> = Vec::new();
    loop {
        routes.clear();
        while let Ok(file) = files.try_recv() {
            weak.push(file);
        }
        weak.retain(|file| file.strong_count() > 0);
        if weak.is_empty() {
            // Nobody wants it, until a reload brings somebody.
            match files.recv().await {
                Some(file) => weak.push(file),
                None => return,
            }
            continue;
        }
        routes.extend(weak.iter().filter_map(Weak::upgrade));
        let now = Instant::now();
        let is_refused = routes.iter().any(|file| file.is_refused())
            && state.asked_at.is_none_or(|at| now >= at + REFUSED_AFTER);
        let is_asked = now >= state.due || is_refused;
        if is_asked {
            let answered = timeout(PATIENCE, asker.ask()).await;
            let answered =
                answered.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
            let was_well = state.failures == 0;
            state.take(answered);
            let whose = asker.source();
            state.log(&console, was_well, &whose);
            if let Some(why) = asker.take_unkept() {
                console.line(Level::Error, "token", format_args!("{whose}: {why}"));
            }
        }
        for file in &routes {
            let content = state.content();
            if is_asked || file.secret() != content {
                file.put(content);
            }
        }
        sleep_until(state.due.min(now + LOOK_EVERY).max(Instant::now())).await;
    }
}
