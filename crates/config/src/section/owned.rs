//! Values of registered keys, found by their owner's type.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::Arc;

/// The value of an owner's keys.
trait Value: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Value for T {}

/// Values by their owners' types. There are a handful, so they stand in a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned(Vec<(TypeId, Arc<dyn Value>)>);

impl Owned {
    /// Keeps the value of the owner `S`, in the place of the one before.
    pub(crate) fn put<S: 'static, V: Any + Debug + Send + Sync>(&mut self, value: V) {
        let owner = TypeId::of::<S>();
        self.0.retain(|(other, _)| *other != owner);
        self.0.push((owner, Arc::new(value)));
    }

    /// The value of the owner `S`.
    pub(crate) fn get<S: 'static, V: Any>(&self) -> Option<&V> {
        let owner = TypeId::of::<S>();
        let (_, value) = self.0.iter().find(|(other, _)| *other == owner)?;
        let value: &dyn Any = &**value;
        value.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct First;
    struct Second;

    #[test]
    fn each_owner_finds_its_own_value() {
        let mut owned = Owned::default();
        owned.put::<First, u32>(1);
        owned.put::<Second, u32>(2);
        assert_eq!(owned.get::<First, u32>(), Some(&1));
        owned.put::<First, u32>(3);
        assert_eq!(owned.get::<First, u32>(), Some(&3));
        assert_eq!(owned.get::<Second, u32>(), Some(&2));
        assert_eq!(owned.get::<Second, u64>(), None, "of another type");
    }
}
