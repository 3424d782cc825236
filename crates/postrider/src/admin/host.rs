//! Which `Host` fields are answered: a browser that was led to this address by somebody's name
//! server (DNS rebinding) says that somebody's name.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Passes requests that were made to an address, to `localhost` or to the server's own name.
/// Others get 421 (RFC 9110 §15.5.20). A request without `Host` comes from no browser.
pub(super) async fn check(State(own): State<Arc<str>>, request: Request, next: Next) -> Response {
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
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_own_names_are_ours() {
        let ours = [
            "127.0.0.1",
            "127.0.0.1:8025",
            "[::1]",
            "[::1]:8025",
            "localhost:8025",
            "LocalHost",
            "mx.example.org",
            "MX.example.org.:8025",
        ];
        for host in ours {
            assert!(is_ours(host, "mx.example.org"), "{host}");
        }
        let others =
            ["", "evil.example", "evil.example:8025", "127.0.0.1.evil.example", "localhost.evil"];
        for host in others {
            assert!(!is_ours(host, "mx.example.org"), "{host}");
        }
    }
}
