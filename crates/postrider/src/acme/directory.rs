//! Requests to an authority: over HTTPS only, each bounded in time and octets.

use crate::https;
use crate::mutex::lock;
use crate::terminal;
use httpdate::parse_http_date;
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Request, StatusCode, Uri};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use rustls::ClientConfig;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// All of a request, from the connection to the last octet.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// An answer has no more bytes: a chain of certificates is a tenth of it.
const ANSWER_BYTES_MAX: usize = 256 * 1_024;

/// The authority is asked how an order stands no later than after this, whatever it says.
const POLL_MAX: Duration = Duration::from_secs(60);

/// Octets of what is told of a failure.
const WORDS_MAX: usize = 512;

const PORT: u16 = 443;

/// A request as the library makes it.
type AcmeRequest = Request<BodyWrapper<Bytes>>;

/// What an authority is asked by.
#[derive(Clone)]
pub(super) struct AcmeClient {
    client: Arc<ClientConfig>,
    request_max: Duration,
    /// So long it does not want to be asked again.
    pause: Arc<Mutex<Option<Duration>>>,
}

impl AcmeClient {
    pub(super) fn new(client: &Arc<ClientConfig>) -> AcmeClient {
        AcmeClient { client: Arc::clone(client), request_max: REQUEST_MAX, pause: Arc::default() }
    }

    /// For how long it wants not to be asked, if it has said so.
    pub(super) fn pause(&self) -> Option<Duration> {
        *lock(&self.pause)
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// It is not, in words.
    pub(super) async fn reach(&self, url: &str) -> Result<(), String> {
        let request = Request::get(url).body(BodyWrapper::default());
        let request = request.map_err(|error| error.to_string())?;
        let response = self.clone().ask(request).await?;
        match response.parts.status {
            StatusCode::OK => Ok(()),
            status => Err(format!("its directory returned {status}")),
        }
    }

    async fn ask(self, request: AcmeRequest) -> Result<BytesResponse, String> {
        let most = self.request_max;
        let late = |_| Err(format!("no answer within {most:?}"));
        tokio::time::timeout(most, self.exchange(request)).await.unwrap_or_else(late)
    }

    async fn exchange(self, request: AcmeRequest) -> Result<BytesResponse, String> {
        let (mut parts, body) = request.into_parts();
        let (authority, path) = place(&parts.uri)?;
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        parts.headers.insert(HOST, value(authority.as_str())?);
        // RFC 8555 §6.1: who asks, and by what.
        let library = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = format!("{} {}", https::USER_AGENT_NAME, library.unwrap_or_default());
        parts.headers.insert(USER_AGENT, value(agent.trim_end())?);
        parts.uri = Uri::from(path);
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(PORT);
        let stream = https::connect(host, port, Some(self.client)).await?;
        let request = Request::from_parts(parts, body);
        let response = https::exchange_whole(stream, request, ANSWER_BYTES_MAX).await?;
        let (mut parts, body) = response.into_parts();
        let asked = retry_after(&parts.headers, SystemTime::now());
        if matches!(parts.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            *lock(&self.pause) = asked;
        }
        // RFC 8555 §6.7: what it refuses it does in words of its own, unless somebody else answers for it.
        let status = parts.status;
        let is_failure = status.is_client_error() || status.is_server_error();
        if is_failure && serde_json::from_slice::<Problem>(&body).is_err() {
            return Err(format!("it returned {status}"));
        }
        // The library adds it to the time as it comes, and sleeps for so long.
        parts.headers.remove(RETRY_AFTER);
        if let Some(asked) = asked {
            parts.headers.insert(RETRY_AFTER, HeaderValue::from(asked.min(POLL_MAX).as_secs()));
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: AcmeRequest,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let this = self.clone();
        Box::pin(async move { this.ask(request).await.map_err(|why| Error::Other(why.into())) })
    }
}

/// Who is asked, and for what. RFC 8555 §6.1: nothing but HTTPS, wherever the directory leads.
fn place(uri: &Uri) -> Result<(Authority, PathAndQuery), String> {
    let is_https = uri.scheme_str() == Some("https");
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    match authority {
        Some(authority) if is_https => {
            let path = uri.path_and_query().cloned();
            Ok((authority.clone(), path.unwrap_or_else(|| PathAndQuery::from_static("/"))))
        }
        _ => Err("it has a URL that is not https".to_owned()),
    }
}

/// RFC 9110 §10.2.3.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

/// What went wrong, in the authority's words where it has some.
pub(super) fn in_words(error: &Error) -> String {
    match error {
        Error::Api(problem) => problem_in_words(problem),
        error => short(&error.to_string()),
    }
}

/// What an authority says of a failure (RFC 8555 §6.7), of each name if it tells them apart.
pub(super) fn problem_in_words(problem: &Problem) -> String {
    let mut text = said(problem.detail.as_deref(), problem.r#type.as_deref());
    for one in &problem.subproblems {
        text.push_str("; ");
        text.push_str(&said(one.detail.as_deref(), one.r#type.as_deref()));
    }
    short(&text)
}

fn said(detail: Option<&str>, kind: Option<&str>) -> String {
    let kind = kind.map(|kind| kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind));
    match (detail, kind) {
        (Some(detail), Some(kind)) => format!("{detail} ({kind})"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => "no reason was given".to_owned(),
    }
}

/// Few words, which drive no terminal: they are somebody else's.
pub(super) fn short(text: &str) -> String {
    let mut words = terminal::clean(&text[..text.floor_char_boundary(WORDS_MAX)]);
    if text.len() > WORDS_MAX {
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests;
