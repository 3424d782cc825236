//! What a client hears who is turned away.

use mail::{Refusal, RefusalClass, Reply};

/// The greeting of a session that is turned away (RFC 5321 §3.1).
pub(super) fn greeting(host: &str, refusal: Refusal) -> Reply {
    if refusal.class != RefusalClass::Permanent {
        return last_words(host, refusal);
    }
    let text = format!("{host} {}", refusal.text).into();
    Reply { code: 554, enhanced: Some(refusal.status), text }
}

/// The reply that ends a session. RFC 5321 §4.2.2: the text of 421 begins with the host's name.
pub(super) fn last_words(host: &str, refusal: Refusal) -> Reply {
    let reply = Reply::from(refusal.closing());
    Reply { text: format!("{host} {}", reply.text).into(), ..reply }
}
