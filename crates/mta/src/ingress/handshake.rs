//! Server-side TLS handshakes: permits, timeouts and client certificates.

use super::Connection;
use crate::alarm::Alarm;
use crate::pools::PoolId;
use crate::seams::{Net, Stream as _, World};
use crate::seats::{Seat, SeatLimits, unless_displaced};
use mail::{Mono, Refusal};
use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;

/// Maximum concurrent handshakes per client network and listener. Unlimited for clients that may relay or are known.
const HANDSHAKES_PER_NETWORK: u32 = 10;

impl<W: World> Connection<W> {
    /// Reserves a permit for a handshake, if necessary by displacing one that has not begun. Clients that may relay,
    /// and recent users, are never displaced.
    ///
    /// # Errors
    /// All permits that the configuration allows are in use.
    pub fn may_encrypt(&mut self) -> Result<(), Refusal> {
        let (services, shared) = (&self.ingress.services, &self.ingress.services.shared);
        let limits = SeatLimits { all: shared.handshakes.max(), network: HANDSHAKES_PER_NETWORK };
        let (ip, rank) = (self.session.client().address.ip(), self.count.rank());
        self.handshake = shared.handshakes.enter(self.count.socket, ip, rank, limits);
        if self.handshake.as_ref().is_none_or(Seat::has_displaced) {
            services.note_turned_away(PoolId::Handshakes);
        }
        match self.handshake {
            Some(_) => Ok(()),
            None => Err(Refusal::transient((7, 0), "Too many TLS handshakes; try again later")),
        }
    }

    /// Returns true if a server certificate is available now.
    #[must_use]
    pub fn can_encrypt(&self) -> bool {
        self.ingress.services.world.net().can_encrypt()
    }

    /// Performs the TLS handshake with a timeout at `until`. Call [`Connection::may_encrypt`] first.
    ///
    /// # Errors
    /// The handshake failed or timed out. The connection is closed.
    pub async fn encrypt(
        &mut self,
        stream: <W::Net as Net>::Stream,
        alarm: &mut Alarm<W::Time>,
        until: Mono,
    ) -> io::Result<<W::Net as Net>::Stream> {
        let services = &self.ingress.services;
        let asked = self.session.listener().client_certificates.clone();
        let mut seat = self.handshake.take();
        let activity = seat.as_ref().map(Seat::activity);
        let mut stream = stream;
        let begun = async {
            poll_fn(|cx| stream.poll_readable(cx)).await;
            if let Some(activity) = activity {
                activity.store(true, Ordering::Relaxed);
            }
            match &asked {
                Some(asked) => services.world.net().encrypt_asking(stream, asked).await,
                None => {
                    let (stream, encryption) =
                        services.world.net().encrypt_accepted(stream).await?;
                    Ok((stream, encryption, None))
                }
            }
        };
        let done = alarm.within(|_| until, unless_displaced(begun, &mut seat)).await;
        match done.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
            Ok((stream, encryption, certificate)) => {
                services.metrics.tls_handshakes.inc();
                self.session.note_encrypted(encryption);
                if let (Some(asked), Some(certificate)) = (asked, certificate) {
                    self.recognise(&asked, &certificate).await;
                }
                Ok(stream)
            }
            Err(error) => {
                services.metrics.tls_handshakes_failed.inc();
                let client = self.session.client();
                let (address, listener) = (client.address, &client.listener);
                let text = format_args!(
                    "TLS handshake failed client={address} listener={listener}: {error}"
                );
                services.console.debug("tls", text);
                Err(error)
            }
        }
    }
}
