//! `client_certificates` of `[[listener]]`.

use crate::listener::{CertificateIdentity, ClientCertificates};
use crate::protocol::ProtocolSettings;
use crate::resolver::Resolver;
use crate::takes::Takes;
use crate::written::{CertificateIdentityText, ClientCertificatesText, ListenerText, ListenerTls};
use std::sync::Arc;

impl Resolver<'_> {
    /// What clients are asked for; `None`: nothing.
    pub(super) fn client_certificates(
        &mut self,
        at: &str,
        text: &ListenerText,
        tls: ListenerTls,
        protocol: Option<(&dyn ProtocolSettings, Takes)>,
    ) -> Option<Arc<ClientCertificates>> {
        let Some(asked) = &text.client_certificates else {
            if let Some(key) = protocol.and_then(|(protocol, _)| protocol.login_by_certificate()) {
                let help = "add client_certificates = { authorities = \"/path/of/ca.pem\" }";
                self.error(
                    &format!("{at}.{key}"),
                    "logins by certificates that nobody is asked for",
                    help,
                );
            }
            return None;
        };
        let path = format!("{at}.client_certificates");
        if tls == ListenerTls::Off {
            self.error(
                &path,
                "certificates of clients without TLS",
                "add a [[certificate]], and leave `tls` out",
            );
        }
        if asked.authorities.is_none() {
            self.check_without_authorities(&path, asked);
        }
        if asked.relay && protocol.is_some_and(|(_, takes)| takes == Takes::MailOfUsers) {
            let help = "clients log in by them: mechanisms = [\"external\"]";
            self.error(&format!("{path}.relay"), "`relay` where clients log in", help);
        }
        let users = asked.users.as_ref();
        let users =
            users.map(|users| self.table_named(&format!("{path}.users.table"), &users.table));
        let authorities = asked.authorities.as_ref();
        Some(Arc::new(ClientCertificates {
            authorities: authorities
                .map(|file| self.file_path(&format!("{path}.authorities"), file)),
            required: asked.required,
            identity: match asked.identity {
                CertificateIdentityText::Name => CertificateIdentity::Name,
                CertificateIdentityText::Certificate => CertificateIdentity::Certificate,
                CertificateIdentityText::Key => CertificateIdentity::Key,
            },
            // One that isn't there is a mistake, which was told.
            users: users.map_or(Some(None), |found| found.map(Some))?,
            relay: asked.relay,
        }))
    }

    /// Anybody can make a certificate with any name in it.
    fn check_without_authorities(&mut self, path: &str, asked: &ClientCertificatesText) {
        if asked.users.is_none() {
            let help = "name the authorities that sign them, or the users by their fingerprints";
            self.error(path, "any certificate would do", help);
        } else if asked.identity == CertificateIdentityText::Name {
            let help = "without `authorities` only fingerprints tell whose it is: identity = \"certificate\" \
                        or \"key\"";
            self.error(path, "anybody can put any name into a certificate", help);
        }
    }
}
