//! `[steering]`: by which header fields clients say how a message is to be sent.

/// What such a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteeringKey {
    /// Whose mail it is.
    Tenant,
    /// With what it waits.
    Campaign,
    /// From where it is sent.
    Pool,
    /// Before what it is sent.
    Priority,
    /// From when on.
    NotBefore,
    /// Until when.
    Expires,
    /// In which hours.
    Window,
}

/// `[steering]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// The names of the fields, each once, whatever its case.
    pub fields: Vec<(SteeringKey, Box<str>)>,
}
