//! One request to a web server, over TLS with a certificate that is valid for its name, or in clear within
//! this machine.

use crate::secret_place::aside;
use crate::{peer_tls, pem};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mta::routing::addresses::{interleaved, is_private};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::{Future, pending};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Our User-Agent.
pub(crate) const USER_AGENT_NAME: &str = concat!("postrider/", env!("CARGO_PKG_VERSION"));

/// A connection to a web server.
pub(crate) trait HttpsStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<W: AsyncRead + AsyncWrite + Unpin + Send> HttpsStream for W {}

/// A TLS configuration that accepts certificates valid by these authorities, or by this machine's roots.
///
/// # Errors
/// Returns an error if no root is available.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut client = match ca_file {
        Some(path) => peer_tls::verifying_by(pem::roots(path)?),
        None => peer_tls::verifying(),
    }
    .map_err(|error| error.to_string())?;
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(client)
}

/// As [`client`], on a thread that may wait for the disk.
///
/// # Errors
/// Returns an error if no root is available, or the file of authorities hangs.
pub(crate) async fn client_aside(ca_file: Option<PathBuf>) -> Result<ClientConfig, String> {
    let what = match &ca_file {
        Some(path) => format!("ca_file {}", path.display()),
        None => "the root certificates of this machine".to_owned(),
    };
    aside(&what, move || client(ca_file.as_deref())).await
}

/// The addresses of a host to try, alternating between families: a machine without a route for one family must reach
/// the other before the timeout.
///
/// # Errors
/// Returns an error if none is allowed.
pub(crate) fn candidates(
    addresses: Vec<IpAddr>,
    public_only: bool,
) -> Result<Vec<IpAddr>, &'static str> {
    let is_allowed = |ip: &IpAddr| !public_only || !is_private(*ip);
    let (allowed, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_allowed);
    match allowed.is_empty() && !others.is_empty() {
        true => Err("it has only private addresses, which the route rejects"),
        false => Ok(interleaved(allowed)),
    }
}

/// Opens a connection, with TLS if a configuration is given.
///
/// # Errors
/// Returns the error as text.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    client: Option<Arc<ClientConfig>>,
) -> Result<Box<dyn HttpsStream>, String> {
    let told = |error: &dyn std::fmt::Display| format!("{host}: {error}");
    let stream = TcpStream::connect((host, port)).await.map_err(|error| told(&error))?;
    let Some(client) = client else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.to_owned()).map_err(|error| told(&error))?;
    let encrypted = TlsConnector::from(client).connect(name, stream).await;
    Ok(Box::new(encrypted.map_err(|error| told(&error))?))
}

/// Sends the request. Returns the status and the text of the response, up to a maximum length.
///
/// # Errors
/// Returns the error as text.
pub(crate) async fn exchange<B>(
    stream: Box<dyn HttpsStream>,
    request: Request<B>,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), String>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let response = exchange_whole(stream, request, bytes_max).await?;
    Ok((response.status(), response.into_body()))
}

/// As [`exchange`], with the header fields of the response.
///
/// # Errors
/// Returns the error as text.
pub(crate) async fn exchange_whole<B>(
    stream: Box<dyn HttpsStream>,
    request: Request<B>,
    bytes_max: usize,
) -> Result<Response<Bytes>, String>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, bytes_max).collect().await;
        Ok(Response::from_parts(parts, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    driven(exchange, connection).await
}

/// The result of an exchange over a connection that moves only while it is polled.
pub(crate) async fn driven<T>(exchange: impl Future<Output = T>, connection: impl Future) -> T {
    // The exchange reads data received before the connection's end.
    let connection = async {
        connection.await;
        pending::<()>().await;
    };
    tokio::pin!(connection);
    tokio::pin!(exchange);
    std::future::poll_fn(|cx| {
        let _ = connection.as_mut().poll(cx);
        exchange.as_mut().poll(cx)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_of_one_family_do_not_keep_those_of_the_other_away() {
        let all = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "192.0.2.1"];
        assert_eq!(candidates(ips(&all), false).unwrap()[..2], ips(&["2001:db8::1", "192.0.2.1"]));
    }

    #[test]
    fn strangers_do_not_lead_to_private_addresses_where_that_is_refused() {
        let all = ips(&["10.1.1.1", "::1", "192.0.2.1"]);
        assert_eq!(candidates(all.clone(), true), Ok(ips(&["192.0.2.1"])));
        assert_eq!(candidates(all, false).unwrap().len(), 3);
        assert!(candidates(ips(&["127.0.0.1", "64:ff9b::a00:1"]), true).is_err());
        assert_eq!(candidates(Vec::new(), true), Ok(Vec::new()));
    }
}
