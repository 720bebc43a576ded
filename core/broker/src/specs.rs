//! What topics are: the specifications that they were created with, each kept once.
//!
//! Relies on topics sharing what this gives out. Invariant: a specification counts as memory once, from
//! when it is shared until it is found that no topic has it any more.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Memory, MemoryUse};
use tiderace_wire::{SpecError, TopicSpec};

use crate::collections::Set;

/// Specifications that are kept although no topic has them any more, at most; or twice as many as
/// are in use.
const SPECS_KEPT: usize = 64;

/// The specifications of one shard's topics.
#[derive(Debug)]
pub(crate) struct Specs {
    shared: Set<Arc<TopicSpec>>,
    swept_at: usize,
    /// The one that was read last.
    last: Option<ReadSpec>,
    /// What temporary topics are.
    temporary: Arc<TopicSpec>,
    memory: Rc<Memory>,
}

/// A specification's text and what it says: topics of one kind are created one after the other.
#[derive(Debug)]
struct ReadSpec {
    text: Box<[u8]>,
    /// What it does not name is taken from this.
    base: Arc<TopicSpec>,
    spec: Arc<TopicSpec>,
}

impl Specs {
    pub(crate) fn new(temporary: TopicSpec, memory: Rc<Memory>) -> Specs {
        Specs {
            shared: Set::default(),
            swept_at: 0,
            last: None,
            temporary: Arc::new(temporary),
            memory,
        }
    }

    /// What temporary topics are.
    pub(crate) fn temporary(&self) -> &Arc<TopicSpec> {
        &self.temporary
    }

    /// What a text says on top of a base, if that was asked last.
    pub(crate) fn read_before(&self, text: &[u8], base: &Arc<TopicSpec>) -> Option<Arc<TopicSpec>> {
        let last = self.last.as_ref()?;
        let same = *last.text == *text && Arc::ptr_eq(&last.base, base);
        same.then(|| last.spec.clone())
    }

    /// What a text says on top of a base; not shared yet.
    ///
    /// # Errors
    /// When the text is no specification.
    pub(crate) fn read(
        &self,
        text: &[u8],
        base: &Arc<TopicSpec>,
    ) -> Result<Arc<TopicSpec>, SpecError> {
        let spec = TopicSpec::parse(text, base)?;
        Ok(if spec == **base { base.clone() } else { Arc::new(spec) })
    }

    /// Notes what was read, for the next topic of the same kind.
    pub(crate) fn note_read(&mut self, text: &[u8], base: &Arc<TopicSpec>, spec: &Arc<TopicSpec>) {
        let (base, spec) = (base.clone(), spec.clone());
        self.last = Some(ReadSpec { text: text.into(), base, spec });
    }

    /// Whether there is room for it, or it is there already.
    pub(crate) fn has_room(&mut self, spec: &Arc<TopicSpec>) -> bool {
        let bytes = spec.bytes();
        if self.shared.contains(spec) || self.memory.has_room(MemoryUse::Names, bytes) {
            return true;
        }
        self.sweep();
        self.memory.has_room(MemoryUse::Names, bytes)
    }

    /// The same specification as other topics have it, if any has. The caller has asked for room.
    pub(crate) fn share(&mut self, spec: Arc<TopicSpec>) -> Arc<TopicSpec> {
        if let Some(known) = self.shared.get(&spec) {
            return known.clone();
        }
        if self.shared.len() >= self.swept_at {
            self.sweep();
        }
        self.memory.charge(MemoryUse::Names, spec.bytes());
        self.shared.insert(spec.clone());
        spec
    }

    /// Forgets specifications that no topic has any more.
    fn sweep(&mut self) {
        let memory = &self.memory;
        self.shared.retain(|known| {
            let stays = Arc::strong_count(known) > 1;
            if !stays {
                memory.refund(MemoryUse::Names, known.bytes());
            }
            stays
        });
        self.swept_at = (self.shared.len() * 2).max(SPECS_KEPT);
    }
}
