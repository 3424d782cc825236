//! What a policy service is asked.

use mail::{Mailbox, Recipient};
use mta::ingress::TransactionView;

/// A question about a recipient.
pub(super) struct Request<'a> {
    pub(super) transaction: &'a TransactionView,
    pub(super) recipient: &'a Recipient,
    /// See `Asker::run`.
    pub(super) run: u64,
}

impl Request<'_> {
    /// `name=value` lines and an empty one. Values that are not known are empty, as Postfix sends
    /// them; none can hold a line end.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let TransactionView { session, sender, size, serial, .. } = self.transaction;
        let client = session.client();
        let mut out = String::with_capacity(512);
        let mut put = |name: &str, value: &str| {
            out.push_str(name);
            out.push('=');
            out.extend(value.chars().filter(|c| !c.is_control()));
            out.push('\n');
        };
        put("request", "smtpd_access_policy");
        put("protocol_state", "RCPT");
        put("protocol_name", client.protocol);
        put("client_address", &client.address.ip().to_canonical().to_string());
        put("client_port", &client.address.port().to_string());
        // It is known where `checks` ask for it.
        let name = client.confirmed_name().unwrap_or("unknown");
        put("client_name", name);
        put("reverse_client_name", name);
        put("server_address", &session.listener().address.ip().to_canonical().to_string());
        put("server_port", &session.listener().address.port().to_string());
        put("helo_name", &client.helo);
        put("sender", sender.as_ref().map_or("", Mailbox::as_str));
        put("recipient", self.recipient.mailbox.as_str());
        put("recipient_count", "0");
        put("queue_id", "");
        put("instance", &format!("{:x}.{serial:x}", self.run));
        put("size", &size.unwrap_or(0).to_string());
        put("etrn_domain", "");
        put("stress", "");
        put("sasl_method", "");
        put("sasl_username", client.login.as_deref().unwrap_or(""));
        put("sasl_sender", "");
        for name in ["ccert_subject", "ccert_issuer", "ccert_fingerprint"] {
            put(name, "");
        }
        for name in ["encryption_protocol", "encryption_cipher"] {
            put(name, "");
        }
        put("encryption_keysize", "0");
        put("policy_context", "");
        out.push('\n');
        out.into_bytes()
    }
}
