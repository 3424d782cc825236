//! What sections about daily reports have in common.

use config::Reader;

/// Octets of a text that readers of reports see.
const TEXT_BYTES_MAX: usize = 200;

/// Checks texts that stand in reports by their keys, where there are any.
pub(crate) fn check_texts(
    from: Option<&str>,
    texts: [(&str, Option<&str>); 2],
    reader: &mut Reader<'_, '_>,
) {
    for (key, text) in texts {
        let Some(text) = text else { continue };
        if from.is_none() {
            let help = "say whom reports come from, such as from = \"reports@example.org\"";
            reader.error(key, format!("`{key}` without `from`"), help);
        }
        let is_text = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || !is_text {
            let message = format!("1 to {TEXT_BYTES_MAX} printable ASCII characters are wanted");
            reader.error(key, message, "");
        }
    }
}
