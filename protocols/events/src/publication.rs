//! A message that a request or an item of a batch asks to publish.

use bytes::Bytes;
use tiderace_base::{Close, Now};
use tiderace_wire::{Flags, Kind, Meta, QueueFields, properties};

/// A message to be published.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The body instead, if it lies in a file.
    pub(crate) file: Option<Bytes>,
    pub(crate) flags: Flags,
    pub(crate) ttl_ms: Option<u64>,
    /// What it says to its queue.
    pub(crate) queue: QueueFields<'static>,
}

impl Publication {
    /// The properties and marks to publish with.
    ///
    /// # Errors
    /// When it says something that its destination cannot do.
    pub(crate) fn seal(&mut self, now: Now) -> Result<Meta, Close> {
        let mut block = Vec::new();
        let marks = self.queue.append(now, self.kind, &mut block)?;
        self.properties.splice(..0, block);
        let expires_ms = self.ttl_ms.map(|ttl| now.wall_ms.saturating_add(ttl));
        if let Some(date) = expires_ms {
            properties::append(&mut self.properties, "expires", &date.to_string());
        }
        let escaped = if self.properties.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
        Ok(Meta { flags: self.flags | marks | escaped, expires_ms })
    }
}
