//! Mistakes in what is signed at a listener.

use super::bad::LISTENER;

/// As the table of all mistakes.
pub(crate) const SIGNING: &[(&str, &str, &str)] = &[
    (
        LISTENER,
        "sign = false\nunsigned = \"refuse\"",
        "4:12: sign = false, but the listener may relay only signed mail",
    ),
    (
        LISTENER,
        "sign = false\nencode_before_signing = \"8bit\"",
        "4:25: sign = false disables signing on this listener",
    ),
    (
        LISTENER,
        "encode_before_signing = \"always\"",
        "3:25: invalid value \"always\" for `encode_before_signing`",
    ),
];
