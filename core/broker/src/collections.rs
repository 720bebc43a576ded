//! Maps and sets with the hasher that the broker uses: fast, and seeded anew in each process.

use hashbrown::{HashMap, HashSet};

pub(crate) type Set<K> = HashSet<K, foldhash::fast::RandomState>;
pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
