//! `[steering]`.

use crate::listener::Listener;
use crate::resolver::Resolver;
use crate::steering::{Steering, SteeringKey};
use crate::written::SteeringText;

/// What no message may be sent without, or what is said of it on its way.
const NEEDED: [&str; 12] = [
    "From",
    "Sender",
    "To",
    "Cc",
    "Date",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Received",
    "Return-Path",
    "DKIM-Signature",
];

impl Resolver<'_> {
    pub(super) fn steering(&mut self, written: &SteeringText, listeners: &[Listener]) -> Steering {
        let keys = [
            ("tenant", SteeringKey::Tenant, &written.tenant),
            ("campaign", SteeringKey::Campaign, &written.campaign),
            ("pool", SteeringKey::Pool, &written.pool),
            ("priority", SteeringKey::Priority, &written.priority),
            ("not_before", SteeringKey::NotBefore, &written.not_before),
            ("expires", SteeringKey::Expires, &written.expires),
            ("window", SteeringKey::Window, &written.window),
        ];
        let mut fields: Vec<(SteeringKey, Box<str>)> = Vec::new();
        for (key, meaning, name) in keys {
            let Some(name) = name else { continue };
            let path = format!("steering.{key}");
            // RFC 5322 §2.2.
            let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
            if name.is_empty() || name.len() > 76 || !name.bytes().all(is_name) {
                let help = "1 to 76 printable ASCII characters without blanks and colons";
                self.error(&path, format!("\"{name}\" is not the name of a field"), help);
            } else if NEEDED.iter().any(|needed| needed.eq_ignore_ascii_case(name)) {
                let help = "name a field of your own, such as \"X-Tenant\"";
                self.error(&path, format!("{name} would be left out of what is sent"), help);
            } else if fields.iter().any(|(_, other)| other.eq_ignore_ascii_case(name)) {
                self.error(&path, format!("{name} says something else already"), "");
            } else {
                fields.push((meaning, name.as_str().into()));
            }
        }
        let is_obeyed = listeners.iter().any(|listener| !listener.steering_from.is_empty());
        if !fields.is_empty() && !is_obeyed {
            let help =
                "say whose fields are obeyed: steering_from = [\"127.0.0.0/8\"] in a [[listener]]";
            self.warn("steering", "nobody's steering fields are obeyed", help);
        }
        Steering { fields }
    }
}
