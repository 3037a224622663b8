//! Caches documents that were read before, by their hash: a list that is read again and again need not have them read,
//! checked and parsed each time.

use std::any::{Any, TypeId};
use std::collections::HashMap;

/// The most documents that are kept.
const MOST: usize = 4_000;

#[derive(Default)]
pub(crate) struct DocumentCache(HashMap<TypeId, HashMap<String, Box<dyn Any + Send>>>);

impl DocumentCache {
    pub(crate) fn get<T: Clone + 'static>(&self, sha: &str) -> Option<T> {
        let found = self.0.get(&TypeId::of::<T>())?.get(sha)?;
        found.downcast_ref::<T>().cloned()
    }

    pub(crate) fn keep<T: Send + 'static>(&mut self, sha: String, value: T) {
        let seen = self.0.entry(TypeId::of::<T>()).or_default();
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(sha, Box::new(value));
    }
}
