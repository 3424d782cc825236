//! `[events] headers`.

use crate::resolver::Resolver;
use crate::written::EventsText;
use std::sync::Arc;

/// So many fields of a header an event may have.
const HEADERS_MAX: usize = 16;

impl Resolver<'_> {
    /// The names of the fields, each once, whatever its case.
    pub(super) fn event_headers(&mut self, written: &EventsText) -> Arc<[Arc<str>]> {
        let EventsText::Table(table) = written else { return Arc::default() };
        if table.headers.len() > HEADERS_MAX {
            let message = format!("more than {HEADERS_MAX} header fields");
            self.error("events.headers", message, "");
            return Arc::default();
        }
        let mut names: Vec<Arc<str>> = Vec::new();
        for (index, name) in table.headers.iter().enumerate() {
            let path = format!("events.headers[{index}]");
            // RFC 5322 §2.2.
            let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
            if name.is_empty() || name.len() > 76 || !name.bytes().all(is_name) {
                let help = "1 to 76 printable ASCII characters without blanks and colons";
                self.error(&path, format!("\"{name}\" is not the name of a field"), help);
            } else if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                self.error(&path, format!("{name} is there twice"), "");
            } else {
                names.push(name.as_str().into());
            }
        }
        names.into()
    }
}
