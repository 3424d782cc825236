//! Messages that come from the queue of another mail server, not from a client: their stored facts, and the hold that
//! makes an import safe.
//!
//! A message is accepted on hold first. Once it is durable, its file is moved aside there, and only then the hold is
//! released. After a crash in between, the message is here with its origin and this hold, and cannot be sent twice.

use crate::facts::{ClientAddress, Facts, StoredFacts};
use bytes::Bytes;
use mail::RequireTls;
use spool::Meta;
use std::fmt;

/// Beginning of the reason of the hold until the original is moved aside.
const UNFINISHED: &str = "import not finished";

/// The facts of an imported message. Absent ones are not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportedFacts<'a> {
    /// The login of its submitter.
    pub login: Option<&'a str>,
    /// The client's address, as in Received.
    pub client: Option<&'a str>,
    /// The client's EHLO argument.
    pub helo: Option<&'a str>,
    /// Checksums of a body in a file.
    pub checksums: Option<&'a Bytes>,
    pub require_tls: RequireTls,
    /// Its origin ([`MessageOrigin`]).
    pub origin: &'a str,
}

impl ImportedFacts<'_> {
    /// The facts in the form in which the spool keeps them.
    #[must_use]
    pub fn to_meta(self) -> Meta {
        let ImportedFacts { login, client, helo, checksums, require_tls, origin } = self;
        let facts = Facts {
            login,
            client: client.map(ClientAddress),
            helo,
            checksums,
            require_tls: Some(require_tls).filter(|asked| *asked != RequireTls::Unsaid),
            origin: Some(origin),
            ..Facts::default()
        };
        facts.to_meta()
    }
}

/// The identity of an original, and the reason for which its copy stays on hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOrigin {
    /// The program with that queue.
    pub program: Box<str>,
    /// Its id in that queue.
    pub queue_id: Box<str>,
    /// The inode of its file.
    pub inode: u64,
    /// The reason of the hold once the import is finished.
    pub hold: Option<Box<str>>,
}

impl MessageOrigin {
    /// The origin of a message in the spool. `None` if it was not imported.
    #[must_use]
    pub fn of(meta: &Meta) -> Option<MessageOrigin> {
        let text = StoredFacts::of(meta).origin()?;
        let (place, hold) = text.split_once('\n').unwrap_or((text, ""));
        let mut words = place.split(' ');
        let (program, queue_id) = (words.next()?.into(), words.next()?.into());
        let inode = words.next()?.parse().ok()?;
        let hold = (!hold.is_empty()).then(|| hold.into());
        Some(MessageOrigin { program, queue_id, inode, hold })
    }

    /// The reason of the hold until the original is moved aside.
    #[must_use]
    pub fn unfinished(&self) -> String {
        let MessageOrigin { program, queue_id, .. } = self;
        format!("{UNFINISHED}: run the import again ({program} {queue_id})")
    }
}

impl fmt::Display for MessageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageOrigin { program, queue_id, inode, hold } = self;
        write!(f, "{program} {queue_id} {inode}\n{}", hold.as_deref().unwrap_or_default())
    }
}

/// Returns true if a message is held because its import is not finished.
#[must_use]
pub fn is_unfinished(hold: Option<&str>) -> bool {
    hold.is_some_and(|reason| reason.starts_with(UNFINISHED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_read_as_it_was_written() {
        for hold in [None, Some("held in Postfix")] {
            let origin = MessageOrigin {
                program: "postfix".into(),
                queue_id: "4abcDz12".into(),
                inode: u64::MAX,
                hold: hold.map(Into::into),
            };
            let text = origin.to_string();
            let facts = ImportedFacts { origin: &text, login: Some("jo"), ..Default::default() };
            assert_eq!(MessageOrigin::of(&facts.to_meta()).as_ref(), Some(&origin));
            assert!(is_unfinished(Some(&origin.unfinished())) && !is_unfinished(hold));
        }
        let cut = ImportedFacts { origin: "postfix 4abc", ..Default::default() };
        assert_eq!(MessageOrigin::of(&cut.to_meta()), None);
        assert_eq!(MessageOrigin::of(&Meta::default()), None);
    }
}
