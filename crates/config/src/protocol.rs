//! What a listener is told of the protocol that is spoken there.
//!
//! A protocol implements [`ProtocolSection`] for its keys in `[[listener]]` and is registered with
//! [`Schema::protocol`](crate::Schema::protocol).

use super::explainer::Explainer;
use super::reader::Reader;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The keys of one protocol in `[[listener]]`, beside those that every listener has.
pub trait ProtocolSection: 'static {
    /// The value of `kind` that names the protocol.
    const KIND: &'static str;
    /// The keys as they are written. Their doc comments are the reference page. A key that several
    /// protocols have means the same in all of them.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the keys of one listener. `None` when there is a mistake in them, which `reader` was
    /// told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>>;
}

/// What a protocol is told by one listener. Its owner knows the type.
pub trait ProtocolSettings: Any + Debug + Send + Sync {
    /// Only who has logged in may send, and then to any domain. That takes encryption, and networks
    /// are no matter.
    fn needs_login(&self) -> bool {
        false
    }

    /// The key that lets clients log in by their certificates: they must be asked for them.
    fn login_by_certificate(&self) -> Option<&'static str> {
        None
    }

    /// Says what a message from a stranger must pass here, beyond what holds for its recipient.
    fn explain_for_strangers(&self, _explainer: &mut Explainer<'_>) {}
}

impl dyn ProtocolSettings {
    /// The settings as their protocol knows them; `None`: they are another's.
    #[must_use]
    pub fn of<T: ProtocolSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
