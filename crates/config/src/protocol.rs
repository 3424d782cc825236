//! What a listener is told of the protocol that is spoken there.
//!
//! A protocol implements [`ProtocolSection`] for its keys in `[[listener]]` and is registered with
//! [`Schema::protocol`](crate::Schema::protocol).

use super::explainer::Explainer;
use super::reader::Reader;
use super::takes::Takes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

/// The keys of one protocol in `[[listener]]`, beside those that every listener has.
pub trait ProtocolSection: 'static {
    /// The value of `kind` that names the protocol.
    const KIND: &'static str;
    /// What comes to a listener that speaks it.
    const TAKES: Takes = Takes::Mail;
    /// The keys as they are written. Their doc comments are the reference page. A key that several
    /// protocols have means the same in all of them.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the keys of one listener. `None` when there is a mistake in them, which `reader` was
    /// told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>>;
}

/// What a protocol is told by one listener. Its owner knows the type.
pub trait ProtocolSettings: Any + Debug + Send + Sync {
    /// Whether a client may say that it speaks for another one, and is believed. The limits per client
    /// don't concern it then, but whom it speaks for.
    fn may_speak_for_others(&self, _client: IpAddr) -> bool {
        false
    }

    /// By which names rules know its clients, where the configuration has all of them.
    fn client_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Says what every message must pass here, beyond what holds for its recipient.
    fn explain(&self, _explainer: &mut Explainer<'_>) {}

    /// The key that lets clients log in by their certificates: they must be asked for them.
    fn login_by_certificate(&self) -> Option<&'static str> {
        None
    }
}

impl dyn ProtocolSettings {
    /// The settings as their protocol knows them; `None`: they are another's.
    #[must_use]
    pub fn of<T: ProtocolSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
