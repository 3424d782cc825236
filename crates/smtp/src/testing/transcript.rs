//! Messages and replies as lines of a transcript.

use super::escape::escape;
use crate::server::Transaction;
use mail::{EnhancedStatus, Notify, Reply, Ret};

/// The reply that a line such as `550 5.1.1 Text` stands for.
///
/// # Panics
/// If there is no code in front.
#[must_use]
pub fn reply(text: &str) -> Reply {
    let (code, rest) = text.split_once(' ').expect("a blank behind the code");
    let code = code.parse().expect("a code");
    match EnhancedStatus::parse_prefix(rest) {
        Some((status, text)) => {
            Reply { code, enhanced: Some(status), text: text.to_owned().into() }
        }
        None => Reply::bare(code, rest.to_owned()),
    }
}

/// `<ann@a.example> to <bob@b.example> with ESMTP from client.example`.
pub(super) fn envelope(transaction: &Transaction) -> String {
    let envelope = &transaction.envelope;
    let path = envelope.reverse_path.as_ref().map_or("", |path| path.as_str());
    let mut text = format!("<{path}>");
    if envelope.body != mail::BodyType::SevenBit {
        text.push_str(" 8bit");
    }
    if envelope.smtputf8 {
        text.push_str(" smtputf8");
    }
    if transaction.require_tls {
        text.push_str(" requiretls");
    }
    match envelope.ret {
        Some(Ret::Full) => text.push_str(" ret=full"),
        Some(Ret::Headers) => text.push_str(" ret=hdrs"),
        None => {}
    }
    if let Some(envid) = &envelope.envid {
        text.push_str(&format!(" envid={}", &**envid));
    }
    for recipient in &envelope.recipients {
        text.push_str(&format!(" to <{}>", recipient.mailbox));
        if recipient.notify.is_specified() {
            let names = [
                (Notify::SUCCESS, "success"),
                (Notify::FAILURE, "failure"),
                (Notify::DELAY, "delay"),
            ];
            let wanted: Vec<_> = names
                .iter()
                .filter(|(event, _)| recipient.notify.wants(*event))
                .map(|(_, name)| *name)
                .collect();
            text.push_str(&format!(" notify=[{}]", wanted.join(",")));
        }
        if let Some(orcpt) = &recipient.orcpt {
            text.push_str(&format!(" orcpt={orcpt}"));
        }
    }
    format!("{text} with {} from {}", transaction.protocol, transaction.helo)
}

/// Content, or its length where it is long.
pub(super) fn shortened(content: &[u8]) -> String {
    if content.len() > 200 {
        return format!("({} bytes)", content.len());
    }
    escape(content)
}
