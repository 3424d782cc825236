//! SCRAM salts for users without stored SCRAM keys. They must not differ visibly from real salts: not after a restart,
//! and not between servers with the same secret.

use auth::password::scram_keys::SaltForm;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of counted forms of salts, over all tables.
const FORMS_MAX: usize = 256;

/// Salts, over all shards.
#[derive(Debug, Default)]
pub struct Salts {
    secret: OnceLock<[u8; 16]>,
    /// Number of real salts of each form, by table.
    seen: Mutex<BTreeMap<(Arc<str>, SaltForm), u64>>,
}

impl Salts {
    /// Sets the secret for generated salts, unless it is set already.
    pub fn set_secret(&self, secret: [u8; 16]) {
        let _ = self.secret.set(secret);
    }

    /// The secret from which they are derived.
    pub(crate) fn secret(&self, make: impl FnOnce() -> [u8; 16]) -> [u8; 16] {
        *self.secret.get_or_init(make)
    }

    /// Notes the form of a real salt in this table.
    pub(crate) fn note(&self, table: &Arc<str>, form: SaltForm) {
        let mut seen = self.seen();
        let has_room = seen.len() < FORMS_MAX;
        let key = (Arc::clone(table), form);
        if let Some(count) = seen.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if has_room {
            seen.insert(key, 1);
        }
    }

    /// The most frequent form of salts in this table, as far as seen.
    pub(crate) fn usual(&self, table: &str) -> SaltForm {
        let mut usual = (SaltForm::default(), 0);
        for ((of, form), count) in &*self.seen() {
            if **of == *table && *count > usual.1 {
                usual = (*form, *count);
            }
        }
        usual.0
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<(Arc<str>, SaltForm), u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_what_most_have() {
        let salts = Salts::default();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        let strong = SaltForm { iterations: 10_000, bytes: 24 };
        assert_eq!(salts.usual(&a), SaltForm::default());
        salts.note(&a, strong);
        assert_eq!((salts.usual(&a), salts.usual(&b)), (strong, SaltForm::default()));
        (0..2).for_each(|_| salts.note(&a, SaltForm::default()));
        assert_eq!(salts.usual(&a), SaltForm::default());
        // One odd user changes nothing, and many do not exceed the bound.
        for iterations in 5_000..6_000 {
            salts.note(&a, SaltForm { iterations, bytes: 16 });
        }
        assert_eq!(salts.usual(&a), SaltForm::default());
        assert_eq!(salts.seen().len(), FORMS_MAX);
    }

    #[test]
    fn the_secret_that_came_first_holds() {
        let salts = Salts::default();
        salts.set_secret([1; 16]);
        salts.set_secret([2; 16]);
        assert_eq!(salts.secret(|| [3; 16]), [1; 16]);
    }
}
