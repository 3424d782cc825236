//! What macros stand for.

use mail::Mailbox;
use mta::ingress::{Session, TransactionView};
use std::net::SocketAddr;

/// No name is looked up; filters know this one for that.
pub(super) const NO_NAME: &str = "unknown";

/// What is known when a filter is told something.
pub(super) struct Known<'a> {
    pub(super) host: &'a str,
    pub(super) session: &'a Session,
    pub(super) transaction: Option<&'a TransactionView>,
    pub(super) recipient: Option<&'a Mailbox>,
    /// The message's id, once its content is complete.
    pub(super) id: Option<String>,
}

/// The address of a client, in its own family.
pub(super) fn address_of(session: &Session) -> SocketAddr {
    let address = session.client().address;
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Known<'_> {
    /// What a macro stands for: those of Sendmail that Postfix has, as far as they are known here.
    pub(super) fn symbol(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let (client, listener) = (self.session.client(), self.session.listener());
        let address = address_of(self.session);
        let sender = self.transaction.map(|transaction| transaction.sender.as_ref());
        Some(match name {
            "j" => self.host.to_owned(),
            "v" => concat!("Postrider ", env!("CARGO_PKG_VERSION")).to_owned(),
            "_" => format!("{NO_NAME} [{}]", address.ip()),
            "i" => self.id.clone()?,
            "daemon_name" => listener.name.to_string(),
            "daemon_addr" => listener.address.ip().to_canonical().to_string(),
            "daemon_port" => listener.address.port().to_string(),
            "client_addr" => address.ip().to_string(),
            "client_port" => address.port().to_string(),
            "client_name" | "client_ptr" => NO_NAME.to_owned(),
            "tls_version" => client.tls?.version.to_owned(),
            "cipher" => client.tls?.cipher.to_owned(),
            "cipher_bits" => bits_of(client.tls?.cipher)?.to_owned(),
            "auth_type" => self.session.mechanism()?.to_owned(),
            "auth_authen" => client.login.as_ref()?.to_string(),
            "mail_addr" => sender?.map_or("", Mailbox::as_str).to_owned(),
            "mail_host" => sender??.domain_str().to_owned(),
            "rcpt_addr" => self.recipient?.as_str().to_owned(),
            "rcpt_host" => self.recipient?.domain_str().to_owned(),
            "mail_mailer" | "rcpt_mailer" => "smtp".to_owned(),
            _ => return None,
        })
    }
}

/// How long the key of a suite is.
fn bits_of(cipher: &str) -> Option<&'static str> {
    let is = |part: &str| cipher.contains(part);
    match () {
        () if is("AES_256") || is("CHACHA20") => Some("256"),
        () if is("AES_128") => Some("128"),
        () => None,
    }
}
