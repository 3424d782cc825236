//! Asking a token endpoint (RFC 6749 §4.4, §6).

use super::answer::TokenGrant;
use crate::https;
use crate::replacement::Replacement;
use crate::secret_place::{SecretLocation, aside, first_line_aside};
use auth::sasl::bearer;
use auth::sasl::client::SECRET_BYTES_MAX;
use config::TokenSource;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use std::io::Write as _;
use std::sync::Arc;
use zeroize::Zeroizing;

/// An answer has no more bytes.
const ANSWER_BYTES_MAX: usize = 65_536;

/// Asks one source, once at a time.
pub(super) struct TokenClient {
    source: TokenSource,
    /// One that could not be written to its place: with what was read there when it came.
    newer: Option<(Zeroizing<String>, Zeroizing<String>)>,
    /// Why it could not.
    unkept: Option<String>,
}

impl TokenClient {
    pub(super) fn new(source: TokenSource) -> TokenClient {
        TokenClient { source, newer: None, unkept: None }
    }

    /// As messages name it.
    pub(super) fn source(&self) -> String {
        format!("a token of {} for {}", self.source.at.authority, self.source.client_id)
    }

    /// Why a refresh token is known in memory only, if that was not told yet.
    pub(super) fn take_unkept(&mut self) -> Option<String> {
        self.unkept.take()
    }

    /// A new token.
    ///
    /// # Errors
    /// Why there is none, in words that have nothing of a secret.
    pub(super) async fn ask(&mut self) -> Result<TokenGrant, String> {
        let at = self.source.at.clone();
        let written = self.written().await?;
        let form = self.form(written.as_deref().map(String::as_str));
        let mut request = Request::post(&*at.path)
            .header(HOST, &*at.authority)
            .header(USER_AGENT, https::USER_AGENT_NAME)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(secret) = &self.source.client_secret {
            let secret = first_line_aside("client_secret_file", secret, SECRET_BYTES_MAX).await?;
            let authorization = bearer::authorization(&self.source.client_id, &secret);
            request = request.header(AUTHORIZATION, authorization.as_str());
        }
        let body = Full::<Bytes>::from(form.as_bytes().to_vec());
        let request = request.body(body).map_err(|_| "the request cannot be created".to_owned())?;
        let client = match at.is_encrypted {
            true => {
                let ca_file = self.source.ca_file.clone();
                Some(Arc::new(https::client_aside(ca_file).await?))
            }
            false => None,
        };
        let stream = https::connect(&at.host, at.port, client).await?;
        let (status, text) = https::exchange(stream, request, ANSWER_BYTES_MAX).await?;
        let text = Zeroizing::new(text.to_vec());
        let mut granted = TokenGrant::read(status, &text)?;
        if let (Some(new), Some(written)) = (granted.refresh_token.take(), written) {
            self.keep(new, written).await;
        }
        Ok(granted)
    }

    /// The refresh token as it stands at its place, where it has one.
    async fn written(&self) -> Result<Option<Zeroizing<String>>, String> {
        match &self.source.refresh_token {
            Some(at) => {
                first_line_aside("refresh_token_file", at, SECRET_BYTES_MAX).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// What is asked.
    fn form(&self, written: Option<&str>) -> Zeroizing<String> {
        let mut form = Zeroizing::new(String::with_capacity(1_024));
        let mut push = |key: &str, value: &str| {
            let separator = if form.is_empty() { "" } else { "&" };
            let value = Zeroizing::new(bearer::form_encoded(value));
            for part in [separator, key, "=", &value] {
                form.push_str(part);
            }
        };
        match written {
            None => push("grant_type", "client_credentials"),
            Some(written) => {
                push("grant_type", "refresh_token");
                // What an operator has written there since is newer still.
                let newer = self.newer.as_ref().filter(|(_, seen)| seen.as_str() == written);
                push("refresh_token", newer.map_or(written, |(newer, _)| newer));
            }
        }
        if let Some(scope) = &self.source.scope {
            push("scope", scope);
        }
        if self.source.client_secret.is_none() {
            push("client_id", &self.source.client_id);
        }
        form
    }

    /// Keeps a refresh token that takes the place of what stands there (§6): the old one may be good no
    /// longer.
    async fn keep(&mut self, new: Zeroizing<String>, written: Zeroizing<String>) {
        if new == written {
            return;
        }
        if let Err(why) = self.write(&new).await {
            let text = "a new refresh token is lost at the next restart";
            self.unkept = Some(format!("{text}, it cannot be written: {why}"));
            self.newer = Some((new, written));
        } else {
            self.newer = None;
        }
    }

    async fn write(&self, new: &Zeroizing<String>) -> Result<(), String> {
        let place = self.source.refresh_token.clone().ok_or("no writable file")?;
        let content = Zeroizing::new(format!("{}\n", **new));
        let what = format!("refresh_token_file {}", place.display());
        aside(&what, move || {
            let SecretLocation::File(path) = SecretLocation::of(&place)? else {
                return Err("the environment cannot be changed".to_owned());
            };
            let replacement = Replacement::create(&path, None)?;
            let mut file = replacement.file();
            file.write_all(content.as_bytes()).map_err(|error| error.to_string())?;
            replacement.place()
        })
        .await
    }
}
