//! How much queues have in memory and in the store alone, and when their publishers wait for that.
//!
//! Relies on who puts messages into queues and takes them out to count them. Invariant: whether a queue is full is told
//! when it changes.

use tiderace_base::{Key, MemoryUse};

use crate::effect::Effect;
use crate::queues::Queues;

impl Queues {
    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.charge(MemoryUse::Queues, bytes);
    }

    pub(crate) fn forget_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.memory.refund(MemoryUse::Queues, bytes);
    }

    /// Says whether a queue is full, if that has changed.
    pub(crate) fn review(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        // What goes to the store alone is in memory until the store has it.
        let most = if self.has_store { queue.bytes_max.saturating_mul(2) } else { queue.bytes_max };
        // Once full, a queue stays so until a quarter has gone: publishers move in long strides.
        let disk_level =
            if queue.is_disk_full { queue.disk_bytes_max / 4 * 3 } else { queue.disk_bytes_max };
        queue.is_disk_full = queue.swapped_bytes() > disk_level;
        let level = queue.bytes;
        let full = if queue.full {
            let room = self.memory.max() / 4;
            level > most / 4 * 3 || (level > 0 && !self.memory.has_room(MemoryUse::Queues, room))
        } else {
            level > most || (level > 0 && self.memory.is_full())
        };
        let full = full || queue.is_disk_full;
        if full != queue.full {
            queue.full = full;
            if full {
                self.full.insert(key);
            } else {
                self.full.remove(&key);
            }
            effects.push(Effect::Full { path: queue.path.clone(), on: full });
        }
    }
}
