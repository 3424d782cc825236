//! Connections that a proxy passes on: it says first whose each is.

use super::Ingress;
use super::proxy_header::ProxyHeader;
use crate::alarm::Alarm;
use crate::seams::{Stream, World};
use config::Listener;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a proxy may take to say it: it knows before it connects.
pub const PROXY_HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// Why there is no client.
enum Trouble {
    /// The proxy only looked whether somebody listens.
    Silent,
    /// It said what makes no sense, or not enough in time.
    Bad(&'static str),
}

/// Who the client is whose connection a proxy passes on; the proxy itself, if it says so. `None`: the
/// connection is to be closed, and why was told.
pub(super) async fn client_behind<W: World, S: Stream>(
    ingress: &Ingress<W>,
    stream: &mut S,
    proxy: SocketAddr,
    listener: &Listener,
) -> Option<SocketAddr> {
    let services = &ingress.services;
    let mut header = ProxyHeader::default();
    let until = services.now() + PROXY_HEADER_TIME_MAX;
    let mut alarm = Alarm::new(services.world.time().clone());
    let read = poll_fn(|cx| poll_header(ingress, stream, &mut header, cx));
    let trouble = match alarm.within(|_| until, read).await {
        Some(Ok(client)) => return Some(client.unwrap_or(proxy)),
        Some(Err(trouble)) => trouble,
        None => Trouble::Bad("it did not come in time"),
    };
    let name = &listener.name;
    match trouble {
        Trouble::Silent => services
            .console
            .debug("proxy", format_args!("a proxy said nothing proxy={proxy} listener={name}")),
        Trouble::Bad(why) => {
            services.metrics.proxy_headers_refused.inc();
            services.console.warn(
                "proxy",
                format_args!("a bad PROXY header proxy={proxy} listener={name}: {why}"),
            );
        }
    }
    None
}

/// Reads no more than the header: what follows may be a TLS handshake.
fn poll_header<W: World, S: Stream>(
    ingress: &Ingress<W>,
    stream: &mut S,
    header: &mut ProxyHeader,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<SocketAddr>, Trouble>> {
    loop {
        let mut scratch = ingress.services.scratch.borrow_mut();
        let wanted = header.wanted().min(scratch.len());
        let read = match stream.poll_read(cx, &mut scratch[..wanted]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read,
        };
        let taken = match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => Ok(header.take(&mut &scratch[..n])),
            Err(error) => Err(error),
        };
        return Poll::Ready(match taken {
            Ok(Ok(None)) => continue,
            Ok(Ok(Some(announced))) => Ok(announced.client),
            Ok(Err(mistake)) => Err(Trouble::Bad(mistake.text())),
            Err(_) if header.is_empty() => Err(Trouble::Silent),
            Err(_) => Err(Trouble::Bad("it ends too soon")),
        });
    }
}
