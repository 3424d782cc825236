//! Connections through a proxy (PROXY protocol), and identities that trusted clients or certificates assert.

use super::decisions::{Grace, decided};
use super::limits::ClientCount;
use super::login::{LoginSource, Logins};
use super::proxy_header::ProxyHeader;
use super::rights::Proof;
use super::session::Session;
use super::{Connection, Ingress};
use crate::alarm::Alarm;
use crate::answer::Answer;
use crate::login_failures::LoginSubject;
use crate::seams::{ClientCertificate, LoginServer, LoginTerms, Stream, World};
use crate::tables;
use auth::iprev;
use config::{CertificateIdentity, ClientCertificates, Listener};
use mail::Refusal;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Timeout for the PROXY header. The proxy has all its data before it connects.
pub const PROXY_HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// The reason for closing the connection.
enum ProxyError {
    /// The proxy only checked if the port is open.
    Silent,
    /// The header is invalid, or incomplete at the timeout.
    Bad(&'static str),
}

/// Reads the PROXY header and returns the client's address. It is the proxy's own address for LOCAL and UNKNOWN.
/// Returns `None` if the connection must be closed: the reason is logged.
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
        None => ProxyError::Bad("timeout"),
    };
    let name = &listener.name;
    match trouble {
        ProxyError::Silent => services
            .console
            .debug("proxy", format_args!("proxy sent no data proxy={proxy} listener={name}")),
        ProxyError::Bad(why) => {
            services.metrics.proxy_headers_refused.inc();
            services.console.warn(
                "proxy",
                format_args!("invalid PROXY header proxy={proxy} listener={name}: {why}"),
            );
        }
    }
    None
}

/// Reads no more than the header, since a TLS handshake may follow.
fn poll_header<W: World, S: Stream>(
    ingress: &Ingress<W>,
    stream: &mut S,
    header: &mut ProxyHeader,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<SocketAddr>, ProxyError>> {
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
            Ok(Err(mistake)) => Err(ProxyError::Bad(mistake.text())),
            Err(_) if header.is_empty() => Err(ProxyError::Silent),
            Err(_) => Err(ProxyError::Bad("truncated")),
        });
    }
}

impl<W: World> Connection<W> {
    /// Replaces the client by one that a trusted client announces, for example with XCLIENT. No decision about the
    /// previous client applies any longer, and the protocol has dropped its transactions. Call [`Connection::admit`]
    /// next. `name` saves the reverse DNS lookup.
    pub fn announce(&mut self, address: SocketAddr, name: Option<iprev::IprevCheck>) {
        let before = Arc::clone(self.session.client());
        let listener = Arc::clone(self.session.listener());
        let count = ClientCount::new(&self.ingress, self.count.socket, &listener, address.ip());
        // Dropping the old count releases its session permit.
        self.count = Rc::new(count);
        self.rights.announce(before.address.ip());
        self.ticket = None;
        let proxy = Some(before.proxy.unwrap_or(before.address.ip()));
        let nothing = self.ingress.router.nothing();
        let (may_relay, services) = (self.count.may_relay(), &self.ingress.services);
        let counted = (&services.metrics, &services.shared.outages);
        self.session = Session::new(address, proxy, &listener, may_relay, nothing, counted);
        if let Some(name) = name {
            self.session.note_name(name);
        }
        if let Some(encryption) = before.tls {
            self.session.note_encrypted(encryption);
        }
    }

    /// Logs in the user that a trusted client announces, by its canonical name. The user need not exist here.
    ///
    /// # Errors
    /// The lookup is not possible now (454).
    pub async fn note_login(
        &mut self,
        logins: &Logins,
        user: &str,
        terms: LoginTerms,
    ) -> Result<(), Refusal> {
        let (name, entry) = self.announced_as(logins, user, terms).await?;
        self.enter_as(&name)?;
        self.rights.log_in(user, Proof::Announced(entry), self.now());
        Ok(())
    }

    /// The canonical name of an announced user, and the entry if there is one.
    pub(super) async fn announced_as(
        &self,
        logins: &Logins,
        user: &str,
        terms: LoginTerms,
    ) -> Result<(String, Option<LoginSubject>), Refusal> {
        let key = || lookup::prepared(&logins.key_of(user)).into_owned();
        Ok(match &logins.source {
            LoginSource::Table(table) => {
                let kept = self.stored(table, user).await?;
                if kept.is_his { (kept.name, Some(kept.stamp)) } else { (key(), None) }
            }
            LoginSource::Server(server @ LoginServer::Directory(_)) => {
                let found = self.entry_elsewhere(server, user, terms).await?;
                let entry = found.entry.as_deref().map(LoginSubject::entry);
                (self.name_elsewhere(logins, server, user, found, terms).await?, entry)
            }
            LoginSource::Server(LoginServer::Dovecot(_)) | LoginSource::Nobody => (key(), None),
        })
    }
}

impl<W: World> Connection<W> {
    /// Derives the user from the client certificate, if it identifies one.
    pub(super) async fn recognise(
        &mut self,
        asked: &ClientCertificates,
        shown: &ClientCertificate,
    ) {
        let Some(identity) = shown.identity(asked.identity) else { return };
        let services = &self.ingress.services;
        let user = match &asked.users {
            // Case in an address makes no other user.
            None if asked.identity == CertificateIdentity::Name => {
                lookup::prepared(&identity).into_owned()
            }
            None => identity,
            Some(users) => {
                let found = tables::find(&services.world.tables(self.asker()), users, &identity);
                let found = found.then(|found| Answer::Now(Ok(found)));
                match decided(services, found, Grace::None).await {
                    Ok(Ok(Some(entry))) if !entry.text.trim().is_empty() => {
                        entry.text.trim().to_owned()
                    }
                    Ok(Err(trouble)) => {
                        let text =
                            format_args!("certificate authentication unavailable: {trouble}");
                        services.console.warn("tls", text);
                        return;
                    }
                    _ => return,
                }
            }
        };
        self.session.note_certificate(&user, asked.relay);
        self.count.set_may_relay(self.session.may_relay());
    }

    /// The user that the client certificate proves.
    #[must_use]
    pub fn certified_user(&self) -> Option<&str> {
        self.session.client().certified.as_deref()
    }
}
