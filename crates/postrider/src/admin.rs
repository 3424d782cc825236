//! The HTTP server for `/metrics` and `/healthz`; without authentication it serves nothing else. Runs on a separate
//! thread with the control socket, so that a slow reader never delays mail.
//!
//! Requests with a foreign `Host` field are refused: a browser directed here by DNS rebinding sends the attacker's host
//! name.

mod census;
mod classic;
mod live;
mod numbers;

use crate::control_socket::ControlSocket;
use crate::handed_sockets::OpenedSocket;
use crate::limited_listener::{ConnectionLimits, LimitedListener};
use crate::problems::sentence;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
pub(crate) use census::QueueCounts;
use classic::{CLASSIC, OPEN_METRICS, classic, wants_open_metrics};
pub(crate) use live::LiveNumbers;
use mta::commands::ControlPlane;
use mta::problems::{Problem, Severity};
pub(crate) use numbers::Numbers;
use prometheus_client::registry::Registry;
use serde::Serialize;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// Clients are the operator's own.
const LIMITS: ConnectionLimits =
    ConnectionLimits { connections_max: 64, life_max: Duration::from_secs(60) };

/// The server's health, for load balancers and watchdogs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Health {
    /// It is shutting down.
    pub(crate) stopping: bool,
    /// Current problems.
    pub(crate) problems: Vec<Problem>,
    /// A sentence about suspended next hops; clients need not use another server.
    pub(crate) suspended: Option<String>,
}

/// Asked at each `/healthz`.
pub(crate) type HealthCheck = Arc<dyn Fn() -> Health + Send + Sync>;

/// The parts of the admin thread.
pub(crate) struct AdminParts {
    /// The server's name, by which requests may be made.
    pub(crate) hostname: Arc<str>,
    /// For HTTP; `None`: no HTTP.
    pub(crate) address: Option<SocketAddr>,
    /// The socket for HTTP, if it was opened before.
    pub(crate) opened: Option<OpenedSocket>,
    /// The bound control socket, and its handler.
    pub(crate) control: Option<(ControlSocket, ControlPlane)>,
    /// For `/metrics`.
    pub(crate) numbers: Numbers,
    /// For `/healthz`.
    pub(crate) health: HealthCheck,
}

/// The running admin thread.
#[derive(Debug)]
pub(crate) struct AdminServer {
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Binds and starts the thread.
    ///
    /// # Errors
    /// When the address cannot be bound or the thread not be started.
    pub(crate) fn start(parts: AdminParts) -> io::Result<AdminServer> {
        let listener = match parts.opened {
            Some(socket) => Some(socket.listening(128)?.into()),
            None => parts.address.map(bind).transpose()?,
        };
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(async move {
                if let Some((socket, plane)) = parts.control {
                    tokio::spawn(socket.serve(Arc::new(plane)));
                }
                let router = router(parts.hostname, parts.numbers, parts.health);
                if let Some(listener) = listener.and_then(|l| LimitedListener::new(l, LIMITS).ok())
                {
                    tokio::spawn(async move { axum::serve(listener, router).await });
                }
                // A sender that is dropped stops the thread, too.
                let _ = stopped.await;
            });
        })?;
        Ok(AdminServer { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The HTTP address, with the actual port if port 0 is configured.
    #[must_use]
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop.take();
        // A panic was reported on standard error already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    // std sets SO_REUSEADDR, so that a restart needs no pause.
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[derive(Clone)]
struct Sources {
    registry: Arc<Registry>,
    counts: QueueCounts,
    health: HealthCheck,
}

fn router(hostname: Arc<str>, numbers: Numbers, health: HealthCheck) -> Router {
    let mut registry = Registry::with_prefix("postrider");
    let counts = numbers.live.counts.clone();
    registry.register_collector(Box::new(numbers));
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .layer(middleware::from_fn_with_state(hostname, check))
        .with_state(Sources { registry: Arc::new(registry), counts, health })
}

async fn metrics(State(sources): State<Sources>, headers: HeaderMap) -> Response {
    sources.counts.refresh().await;
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, &sources.registry).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    match wants_open_metrics(&headers) {
        true => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        false => ([(header::CONTENT_TYPE, CLASSIC)], classic(&text)).into_response(),
    }
}

async fn healthz(State(sources): State<Sources>) -> Response {
    let health = (sources.health)();
    let worst = health.problems.iter().map(|problem| problem.severity).min();
    let (status, word) = match (health.stopping, worst) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        (false, Some(Severity::Error)) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
        // Mail is accepted, so clients need not use another server.
        (false, Some(Severity::Warning)) => (StatusCode::OK, "degraded"),
        (false, Some(Severity::Notice) | None) => (StatusCode::OK, "ok"),
    };
    let sentences: Vec<String> = health.problems.iter().map(sentence).collect();
    let mut body = serde_json::json!({ "status": word, "problems": sentences });
    if !health.problems.is_empty() {
        body["problem_list"] = serde_json::json!(health.problems);
    }
    if let Some(suspended) = health.suspended {
        body["suspended"] = suspended.into();
    }
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// Passes requests to an IP address, to `localhost` or to the server's own name. All other hosts get 421 (RFC 9110
/// §15.5.20). A request without `Host` is not from a browser.
async fn check(State(own): State<Arc<str>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    match host.map(|host| host.to_str().is_ok_and(|host| is_ours(host, &own))) {
        None | Some(true) => next.run(request).await,
        Some(false) => StatusCode::MISDIRECTED_REQUEST.into_response(),
    }
}

fn is_ours(host: &str, own: &str) -> bool {
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = host.split_once(':').map_or(host, |(name, _)| name).trim_end_matches('.');
    is_address || name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(own)
}

#[cfg(test)]
mod tests;
