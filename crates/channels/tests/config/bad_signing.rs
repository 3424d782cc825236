//! Mistakes in what is signed at a listener.

use super::bad::LISTENER;

/// As the table of all mistakes.
pub(crate) const SIGNING: &[(&str, &str, &str)] = &[
    (
        LISTENER,
        "sign = false\nunsigned = \"refuse\"",
        "4:12: nothing is signed here that may go on",
    ),
    (LISTENER, "sign = false\nencode_before_signing = \"8bit\"", "4:25: nothing is signed here"),
    (
        LISTENER,
        "encode_before_signing = \"always\"",
        "3:25: `encode_before_signing` can't be \"always\"",
    ),
];
