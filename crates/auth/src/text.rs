//! What strangers wrote, as text that others can be shown.

/// Replies and reasons to hold are text; what strangers wrote need not be.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()
}
