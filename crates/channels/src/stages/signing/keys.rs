//! Signing keys in a table, for any number of domains.

use super::settings::NoKey;
use auth::dkim::{SigningIdentity, SigningKey};
use config::TableEntry;
use lookup::{Entry, Requester};
use mail::{Domain, Mono, Recent};
use mta::answer::Answer;
use mta::seams::{Time as _, World};
use mta::tables;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of parsed keys in each shard's cache, about 4 KiB each.
const KEYS_KEPT_MAX: usize = 10_000;
/// Time after which a key file is read again.
const FRESH: Duration = Duration::from_secs(60);

/// Signing keys in tables.
pub(super) struct KeyTables<W: World> {
    world: W,
    kept: KeyCache,
}

#[derive(Clone)]
struct CachedKey {
    key: Arc<SigningKey>,
    read_at: Mono,
}

/// Keys by the text of their entry.
type KeyCache = Rc<RefCell<Recent<Arc<str>, CachedKey>>>;

/// The identity in a table's entry. `None` if the table has no entry.
type IdentityLookup = Answer<'static, Result<Option<SigningIdentity>, NoKey>>;

impl<W: World> KeyTables<W> {
    pub(super) fn new(world: &W) -> KeyTables<W> {
        KeyTables { world: world.clone(), kept: Rc::new(RefCell::new(Recent::new(KEYS_KEPT_MAX))) }
    }

    /// The identity that signs as `domain` for an author's domain, if the table has it.
    pub(super) fn identity(
        &self,
        table: &Arc<TableEntry>,
        author: &str,
        domain: String,
        requester: Requester,
    ) -> IdentityLookup {
        let (world, kept) = (self.world.clone(), Rc::clone(&self.kept));
        let key = author.to_owned();
        tables::find(&self.world.tables(requester), table, author).then(move |found| {
            let entry = match found {
                Ok(Some(entry)) => entry,
                Ok(None) => return Answer::Now(Ok(None)),
                Err(trouble) => return Answer::Now(Err(NoKey(trouble.to_string().into()))),
            };
            let Some((selector, text)) = selector_and_key(&entry) else {
                let why = format!("the entry of {key} is not a selector with a key");
                return Answer::Now(Err(NoKey(why.into())));
            };
            key_of(&world, kept, text).then(move |key| {
                Answer::Now(key.map(|key| Some(SigningIdentity { domain, selector, key })))
            })
        })
    }
}

/// The selector, and the path of a key file or PEM text.
fn selector_and_key(entry: &Entry) -> Option<(String, Arc<str>)> {
    let (selector, key) = match (entry.field("selector"), entry.field("key")) {
        (Some(selector), Some(key)) => (selector, key),
        _ => entry.text.trim().split_once([' ', '\t', ','])?,
    };
    let key = key.trim();
    (!key.is_empty()).then_some((Domain::dns_name(selector)?, Arc::from(key)))
}

/// The key in a file or text.
fn key_of<W: World>(
    world: &W,
    kept: KeyCache,
    text: Arc<str>,
) -> Answer<'static, Result<Arc<SigningKey>, NoKey>> {
    let now = world.time().now();
    let is_file = !text.starts_with("-----BEGIN");
    let known = kept.borrow_mut().get(&text);
    if let Some(held) = known.filter(|held| !is_file || now < held.read_at + FRESH) {
        return Answer::Now(Ok(held.key));
    }
    let read = match is_file {
        true => world.key_files().read(Path::new(&*text)),
        false => Answer::Now(world.key_files().parse(&text)),
    };
    read.then(move |read| {
        let kept_as = |key: &Arc<SigningKey>| CachedKey { key: Arc::clone(key), read_at: now };
        Answer::Now(match read {
            Ok(key) => {
                kept.borrow_mut().insert(text, kept_as(&key));
                Ok(key)
            }
            Err(why) => Err(NoKey(why.into())),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::dkim::Algorithm;

    #[test]
    fn entries_have_a_selector_and_a_key() {
        let of = |entry: Entry| selector_and_key(&entry).map(|(s, key)| format!("{s}|{key}"));
        let field = |name: &str, value: &str| (Box::from(name), [Box::from(value)].into());
        let named = Entry::fields([field("Key", "/k.pem"), field("selector", "S1")]);
        assert_eq!(of(named).as_deref(), Some("s1|/k.pem"));
        assert_eq!(of(Entry::text("s1  /a b.pem ")).as_deref(), Some("s1|/a b.pem"));
        assert_eq!(of(Entry::text("s1,-----BEGIN x")).as_deref(), Some("s1|-----BEGIN x"));
        for none in ["", "s1", "s1 ", "a..b /k.pem"] {
            assert_eq!(of(Entry::text(none)), None, "{none:?}");
        }
    }

    #[test]
    fn no_more_keys_are_kept_than_may_be_and_those_in_use_stay() {
        let key = Arc::new(SigningKey::generate(Algorithm::Ed25519Sha256).unwrap());
        let held = |n| CachedKey { key: Arc::clone(&key), read_at: Mono(n) };
        let mut kept = Recent::new(KEYS_KEPT_MAX);
        let name = |n: u64| Arc::<str>::from(n.to_string());
        for n in 0..3 * KEYS_KEPT_MAX as u64 {
            kept.insert(name(n), held(n));
            assert!(kept.get(&name(0)).is_some(), "{n}");
            assert!(kept.len() <= KEYS_KEPT_MAX, "{n}");
        }
        assert!(kept.get(&name(1)).is_none());
    }
}
