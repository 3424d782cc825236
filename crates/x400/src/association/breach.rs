//! What a peer does against the protocol.

use super::Layer;

/// A breach of protocol by the peer, on its way to the abort.
#[derive(Debug)]
pub(super) struct Breach {
    pub(super) layer: Layer,
    pub(super) text: String,
}

impl Breach {
    pub(super) fn new(layer: Layer, text: impl Into<String>) -> Self {
        Breach { layer, text: text.into() }
    }

    /// Of the session protocol.
    pub(super) fn session(text: impl Into<String>) -> Self {
        Breach::new(Layer::Session, text)
    }
}
