//! The mailbox in the spool's directory that stores postmaster mail if no route accepts it. Any client may write to the
//! postmaster (RFC 5321 §4.5.1), and the disk is the spool's. The mailbox therefore has a quota, which is checked
//! before the mail is accepted.

use config::Config;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Quota in octets, including messages in transit.
pub use config::OWN_MAILBOX_BYTES_MAX;

/// Reserved for envelope and header fields of a message in transit.
const FIELDS_BYTES: u64 = 4 * 1024;

/// The mailbox, as last checked.
#[derive(Debug, Default)]
pub struct OwnMailbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `None`: a route accepts postmaster mail.
    path: Option<PathBuf>,
    found: MailboxUsage,
    /// Octets accepted since the last check, and between the last two checks: these may be counted in `found`, too.
    recent: u64,
    before: u64,
}

/// Messages and octets found in the mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxUsage {
    pub messages: u64,
    pub bytes: u64,
}

/// The quota has no space for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Until mail is fetched.
    Now,
    /// Even if it is empty.
    Always,
}

impl OwnMailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the configuration.
    pub(crate) fn adopt(&self, config: &Config) {
        self.lock().path = config.own_mailbox();
    }

    /// Its path, if mail is stored there.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.lock().path.clone()
    }

    /// Notes the result of a check.
    pub fn note(&self, found: MailboxUsage) {
        let mut state = self.lock();
        state.found = found;
        state.before = std::mem::take(&mut state.recent);
    }

    /// The last usage found, if mail is stored there.
    #[must_use]
    pub fn found(&self) -> Option<MailboxUsage> {
        let state = self.lock();
        state.path.is_some().then_some(state.found)
    }

    /// Reserves space for this number of octets of content.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Full> {
        let bytes = bytes.saturating_add(FIELDS_BYTES);
        let mut state = self.lock();
        match state.used().saturating_add(bytes) {
            _ if bytes > OWN_MAILBOX_BYTES_MAX => Err(Full::Always),
            after if after > OWN_MAILBOX_BYTES_MAX => Err(Full::Now),
            _ => {
                state.recent = state.recent.saturating_add(bytes);
                Ok(())
            }
        }
    }

    /// The used octets, including messages in transit.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// Returns true if there is no space for any message.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().used().saturating_add(FIELDS_BYTES) > OWN_MAILBOX_BYTES_MAX
    }
}

impl State {
    fn used(&self) -> u64 {
        self.found.bytes.saturating_add(self.recent).saturating_add(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailbox_takes_its_quota_and_no_more() {
        let mailbox = OwnMailbox::default();
        let most = OWN_MAILBOX_BYTES_MAX - FIELDS_BYTES;
        assert_eq!(mailbox.take(most + 1), Err(Full::Always));
        assert_eq!(mailbox.take(most), Ok(()));
        assert!(mailbox.is_full());
        assert_eq!(mailbox.take(0), Err(Full::Now));
        // Messages in transit during a check are in the mailbox at the next check but one.
        mailbox.note(MailboxUsage::default());
        assert_eq!(mailbox.take(0), Err(Full::Now));
        mailbox.note(MailboxUsage { messages: 1, bytes: most });
        assert!(!mailbox.is_full());
        assert_eq!((mailbox.take(0), mailbox.take(0)), (Ok(()), Err(Full::Now)));
        mailbox.note(MailboxUsage::default());
        mailbox.note(MailboxUsage::default());
        assert_eq!(mailbox.take(most), Ok(()));
    }
}
