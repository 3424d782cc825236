//! A connection to a directory on which much is read.

use super::super::connection::MESSAGE_BYTES_MAX;
use super::super::opening::{self, Stream};
use super::super::server::LdapServer;
use super::super::settings::LdapSettings;
use ldap::{RequestControl, Response, Search};
use lookup::{LookupError, LookupErrorKind};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

/// Room for what is read at once.
const READ_BYTES: usize = 256 << 10;
/// Numbers of requests before this were used to open the connection.
const FIRST_ID: i32 = 3;

/// A connection to one server.
pub(super) struct SyncConnection {
    stream: Box<dyn Stream>,
    server: String,
    bytes: Vec<u8>,
    /// How much of `bytes` was taken.
    taken: usize,
    next_id: i32,
    patience: Duration,
}

impl SyncConnection {
    /// Opens one, up to and with the bind.
    ///
    /// # Errors
    /// As [`opening::open`].
    pub(super) async fn open(
        settings: &LdapSettings,
        server: &LdapServer,
    ) -> Result<SyncConnection, LookupError> {
        let stream = opening::open(settings, server).await?;
        let (server, patience) = (server.to_string(), settings.timeout);
        Ok(SyncConnection {
            stream,
            server,
            bytes: Vec::new(),
            taken: 0,
            next_id: FIRST_ID,
            patience,
        })
    }

    /// How long an answer may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// The server, for people.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Sends a search; its number.
    ///
    /// # Errors
    /// The connection is gone.
    pub(super) async fn send(
        &mut self,
        search: &Search<'_>,
        ask: Option<&RequestControl<'_>>,
    ) -> Result<i32, LookupError> {
        let id = self.next_id;
        self.next_id = id.checked_add(1).unwrap_or(FIRST_ID);
        let request = search.request(id, ask);
        let sent = async {
            self.stream.write_all(&request).await?;
            self.stream.flush().await
        };
        match timeout(self.patience, sent).await {
            Ok(Ok(())) => Ok(id),
            Ok(Err(error)) => Err(self.trouble(LookupErrorKind::Unreachable, &error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    /// The next message, which must come within the time that the settings name.
    ///
    /// # Errors
    /// Nothing comes, the connection is gone, or it says what is no LDAP.
    pub(super) async fn next(&mut self) -> Result<Response, LookupError> {
        timeout(self.patience, self.wait_next()).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// The next message, whenever it comes. Nothing is lost when this is dropped before.
    ///
    /// # Errors
    /// The connection is gone, or it says what is no LDAP.
    pub(super) async fn wait_next(&mut self) -> Result<Response, LookupError> {
        loop {
            // A large directory that is read quickly leaves turns to other services.
            consume_budget().await;
            if let Some(response) = self.take()? {
                return Ok(response);
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.bytes).await {
                Ok(0) => {
                    let text = "the server closed the connection";
                    return Err(self.trouble(LookupErrorKind::Unreachable, text));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(self.trouble(LookupErrorKind::Unreachable, &error.to_string()));
                }
            }
        }
    }

    /// A message that is there.
    fn take(&mut self) -> Result<Option<Response>, LookupError> {
        let wrong = |error: ldap::Malformed| self.trouble(LookupErrorKind::Wrong, error.0);
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(frame) = ldap::frame(rest, MESSAGE_BYTES_MAX).map_err(wrong)? else {
            return Ok(None);
        };
        let Some(message) = rest.get(..frame) else { return Ok(None) };
        let response = Response::read(message).map_err(wrong)?;
        self.taken += frame;
        Ok(Some(response))
    }

    /// Trouble with the server's name before it.
    pub(super) fn trouble(&self, kind: LookupErrorKind, text: &str) -> LookupError {
        LookupError::new(kind, format!("{}: {text}", self.server))
    }

    fn silent(&self) -> LookupError {
        self.trouble(LookupErrorKind::Timeout, &format!("nothing within {:?}", self.patience))
    }
}
