//! Keys of a listener with an owner other than its protocol: `checks`, `milters`.
//!
//! An owner implements [`ListenerSection`] for its keys and registers it with
//! [`Schema::listener`](crate::Schema::listener). All listeners with a suitable kind of input have the keys, and
//! [`Listener::of`](crate::Listener::of) returns their value.

use super::explainer::Explainer;
use super::listener::Listener;
use super::reader::Reader;
use crate::listener::takes::Takes;
use crate::schema::json_schema::keys_of;
use crate::section::owned::Owned;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt::Debug;

/// Keys of `[[listener]]` with one owner.
pub trait ListenerSection: 'static {
    /// The keys as they are written, of which each has a default. Their doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;
    /// Their value.
    type Value: Any + Debug + Send + Sync;

    /// Returns true if listeners with this kind of input have the keys: usually those for internet mail.
    #[must_use]
    fn is_for(takes: Takes) -> bool {
        takes != Takes::Foreign
    }

    /// Reads the keys of one listener, after those of its protocol. `None` if they have no effect, or after an error,
    /// which was reported to `reader`.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Self::Value>;

    /// Explains checks of all messages there.
    fn explain(value: &Self::Value, explainer: &mut Explainer<'_>) {
        let _ = (value, explainer);
    }

    /// Explains checks of messages from unauthenticated clients.
    fn explain_for_strangers(value: &Self::Value, explainer: &mut Explainer<'_>) {
        let _ = (value, explainer);
    }
}

impl Listener {
    /// The value of keys not owned by the protocol; `None` if they have no effect.
    #[must_use]
    pub fn of<S: ListenerSection>(&self) -> Option<&S::Value> {
        self.sections.get::<S, S::Value>()
    }
}

/// Says something of a listener.
type Explain = fn(&Listener, &mut Explainer<'_>);

/// Keys of a listener, as [`ListenerSection`] describes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerKind {
    /// Name of the definition in the JSON schema.
    pub(super) definition: fn() -> String,
    pub(super) define: fn(&mut SchemaGenerator) -> schemars::Schema,
    pub(super) keys: fn() -> Vec<String>,
    pub(super) is_for: fn(Takes) -> bool,
    pub(super) read: fn(toml::Table, &mut Reader<'_, '_>, &mut Owned),
    pub(super) explain: Explain,
    pub(super) explain_for_strangers: Explain,
}

impl ListenerKind {
    pub(super) fn of<S: ListenerSection>() -> ListenerKind {
        ListenerKind {
            definition: || S::Text::schema_name().into_owned(),
            define: SchemaGenerator::subschema_for::<S::Text>,
            keys: keys_of::<S::Text>,
            is_for: S::is_for,
            read: |written, reader, owned| {
                let text = reader.text(written);
                if let Some(value) = text.and_then(|text| S::read(text, reader)) {
                    owned.put::<S, S::Value>(value);
                }
            },
            explain: |listener, explainer| {
                listener.of::<S>().iter().for_each(|value| S::explain(value, explainer));
            },
            explain_for_strangers: |listener, explainer| {
                let value = listener.of::<S>();
                value.iter().for_each(|value| S::explain_for_strangers(value, explainer));
            },
        }
    }
}
