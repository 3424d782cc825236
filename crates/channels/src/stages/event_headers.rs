//! `[events] headers`: header fields that are copied to the `received` event.

use config::{Config, LogFormat};
use mail::FieldWatch;
use mail::field_watch::WatchedField;
use mta::answer::Decision;
use mta::console::Console;
use mta::event::EventSettings;
use mta::ingress::{Draft, Observer, Placed, Stage, StageKind, TransactionView, observed};
use mta::pressure::Pressures;
use mta::seams::World;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum octets of a value in an event. A longer one is cut and ends with [`MORE`].
const VALUE_BYTES_MAX: usize = 512;
const MORE: &str = " …";
const MESSAGE_ID: &str = "Message-ID";

/// Notes the fields, if any are configured.
pub(crate) struct EventHeaders;

impl<W: World> StageKind<W> for EventHeaders {
    fn stages(
        &self,
        config: &Config,
        _world: &W,
        _console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let events = config.of::<EventSettings>();
        let mut names = events.map_or_else(Arc::default, |events| Arc::clone(&events.headers));
        // Postfix's `cleanup` logs it for each message.
        let has_id = names.iter().any(|name| name.eq_ignore_ascii_case(MESSAGE_ID));
        if config.log.deliveries && config.log.format == LogFormat::Postfix && !has_id {
            names = names.iter().cloned().chain([MESSAGE_ID.into()]).collect();
        }
        if names.is_empty() {
            return Vec::new();
        }
        let stage = EventHeadersStage { names };
        // Last in order: a message refused by an earlier stage has no `received` event.
        vec![Placed { line: u32::MAX, stage: Rc::new(stage) }]
    }
}

struct EventHeadersStage {
    names: Arc<[Arc<str>]>,
}

/// Notes these fields as the header arrives.
type EventFieldWatch = FieldWatch<Arc<[Arc<str>]>>;

impl Stage for EventHeadersStage {
    fn name(&self) -> &'static str {
        "event_headers"
    }

    fn observe(&self, _transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        Some(Box::new(EventFieldWatch::new(Arc::clone(&self.names))))
    }

    fn content<'a>(
        &'a self,
        _transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let seen = observed::<EventFieldWatch>(observer);
        if let Some(watch) = seen {
            draft.note_headers(noted(&self.names, &watch.finish()));
        }
        Decision::pass()
    }
}

/// The first field of each name, in the order of the names.
fn noted(names: &[Arc<str>], fields: &[WatchedField]) -> Vec<(Arc<str>, Box<str>)> {
    let first = |name: usize| fields.iter().find(|field| field.name == name);
    let named = names.iter().enumerate();
    named.filter_map(|(at, name)| Some((Arc::clone(name), shown(first(at)?)))).collect()
}

/// A value for an event. Invalid UTF-8 is replaced by U+FFFD; RFC 2047 encoding is kept.
fn shown(field: &WatchedField) -> Box<str> {
    let value = field.value();
    let text = String::from_utf8_lossy(&value);
    if text.len() <= VALUE_BYTES_MAX && !field.is_cut {
        return text.into();
    }
    let end = text.floor_char_boundary(VALUE_BYTES_MAX - MORE.len());
    [&text[..end], MORE].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(content: &[u8]) -> Vec<(String, String)> {
        let names: Arc<[Arc<str>]> = ["Subject", "List-Id"].map(Arc::from).into();
        let mut watch = FieldWatch::new(Arc::clone(&names));
        watch.push(content);
        let noted = noted(&names, &watch.finish());
        noted.into_iter().map(|(name, value)| (name.to_string(), value.into_string())).collect()
    }

    #[test]
    fn the_first_of_each_name_counts_and_is_one_line() {
        let found = headers(
            b"LIST-ID: <a.x>\r\nX: y\r\nSubject: =?utf-8?q?one?=\r\n two\r\nSubject: b\r\n\r\nSubject: c",
        );
        let one = ("Subject".to_owned(), "=?utf-8?q?one?= two".to_owned());
        assert_eq!(found, [one, ("List-Id".to_owned(), "<a.x>".to_owned())]);
        assert_eq!(headers(b"From: x\r\n\r\n"), []);
        assert_eq!(headers(b"Subject: \xff\r\n\r\n")[0].1, "\u{fffd}");
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let of = |value: &str| headers(format!("Subject: {value}\r\n\r\n").as_bytes()).remove(0).1;
        let fits = "x".repeat(VALUE_BYTES_MAX);
        assert_eq!(of(&fits), fits);
        let cut = of(&"\u{e9}".repeat(VALUE_BYTES_MAX));
        assert!(cut.len() <= VALUE_BYTES_MAX && cut.ends_with("\u{e9} …"), "{cut}");
        assert!(of(&"x".repeat(100_000)).len() <= VALUE_BYTES_MAX);
    }
}
