//! Clients that are known by their certificates.

use super::Connection;
use super::decisions::{Grace, decided};
use crate::answer::Answer;
use crate::seams::{ClientCertificate, World};
use crate::tables;
use config::{CertificateIdentity, ClientCertificates};

impl<W: World> Connection<W> {
    /// Who the client is by its certificate, if it is anybody.
    pub(super) async fn recognise(
        &mut self,
        asked: &ClientCertificates,
        shown: &ClientCertificate,
    ) {
        let Some(identity) = shown.identity(asked.identity) else { return };
        let services = &self.ingress.services;
        let user = match &asked.users {
            // Capitals in an address make no other user.
            None if asked.identity == CertificateIdentity::Name => {
                lookup::prepared(&identity).into_owned()
            }
            None => identity,
            Some(users) => {
                let found = tables::find(services.world.tables(), users, &identity);
                let found = found.then(|found| Answer::Now(Ok(found)));
                match decided(services, found, Grace::None).await {
                    Ok(Ok(Some(entry))) if !entry.text.trim().is_empty() => {
                        entry.text.trim().to_owned()
                    }
                    Ok(Err(trouble)) => {
                        let text = format_args!("nobody is known by a certificate: {trouble}");
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

    /// Whom the client's certificate has proved it to be.
    #[must_use]
    pub fn certified_user(&self) -> Option<&str> {
        self.session.client().certified.as_deref()
    }
}
