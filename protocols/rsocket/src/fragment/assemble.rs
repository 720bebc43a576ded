//! Several frames as one.
//!
//! Relies on time passed in. Invariants: memory grows with the bytes that have come and stays under
//! the limits; what breaks a rule is forgotten at once.

use tiderace_base::Time;

use crate::frame::{Body, Frame, Interaction, Item, Payload, Request};

/// How much may be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Bytes of one message, metadata and data.
    pub message_bytes_max: usize,
    /// Bytes of all incomplete messages of a connection.
    pub total_bytes_max: usize,
    /// Incomplete messages of a connection.
    pub messages_max: usize,
    /// Fragments of one message.
    pub fragments_max: u32,
    /// Bytes of a fragment, its head included, unless it is the first or the last one.
    pub fragment_bytes_min: usize,
}

/// Why a message is not put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// It is too long.
    #[error("a message of more than {0} bytes in fragments is not taken")]
    TooLong(usize),
    /// It has too many fragments.
    #[error("a message of more than {0} fragments is not taken; send larger ones")]
    TooMany(u32),
    /// A fragment is too short.
    #[error("a fragment of {bytes} bytes is not taken: all but the last need {min}")]
    TooShort {
        /// What it has.
        bytes: usize,
        /// What it needs.
        min: usize,
    },
    /// Metadata comes behind data.
    #[error("a fragment has metadata although the message's data has begun")]
    LateMetadata,
    /// The connection has too much of it.
    #[error("the incomplete messages of the connection have more than {0} bytes")]
    TotalTooLong(usize),
    /// The connection has too many of them.
    #[error("the connection has more than {0} incomplete messages")]
    TooManyMessages(usize),
}

/// What became of a frame.
#[derive(Debug)]
pub enum Taken {
    /// It stands for itself.
    Whole,
    /// It is kept until the rest has come.
    Kept,
    /// It was the last one of this message.
    Complete(Assembled),
}

/// A message whose fragments have all come.
#[derive(Debug, PartialEq, Eq)]
pub struct Assembled {
    stream: u32,
    first: First,
    complete: bool,
    bytes: Vec<u8>,
    metadata_len: Option<usize>,
}

/// What a message began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Request(Interaction, u32),
    Item,
}

#[derive(Debug)]
struct Assembly {
    begun: Time,
    fragments: u32,
    message: Assembled,
}

/// The incomplete messages of a connection, the oldest first.
#[derive(Debug, Default)]
pub struct Assemblies {
    open: Vec<Assembly>,
    bytes: usize,
    held: usize,
}

impl Assembled {
    /// The message as one frame.
    pub fn frame(&self) -> Frame<'_> {
        let (metadata, data) = match self.metadata_len {
            Some(len) => {
                let (metadata, data) = self.bytes.split_at(len.min(self.bytes.len()));
                (Some(metadata), data)
            }
            None => (None, &self.bytes[..]),
        };
        let (follows, complete, payload) = (false, self.complete, Payload { metadata, data });
        let body = match self.first {
            First::Request(interaction, credit) => {
                Body::Request(Request { interaction, follows, complete, credit, payload })
            }
            First::Item => Body::Payload(Item { follows, complete, next: true, payload }),
        };
        Frame { stream: self.stream, body }
    }

    fn add(&mut self, payload: &Payload<'_>) -> Result<(), FragmentError> {
        if let Some(metadata) = payload.metadata.filter(|metadata| !metadata.is_empty()) {
            let len = self.metadata_len.get_or_insert(0);
            // Data follows the metadata at once, so this tells whether any has come.
            if *len != self.bytes.len() {
                return Err(FragmentError::LateMetadata);
            }
            *len += metadata.len();
            self.bytes.extend_from_slice(metadata);
        }
        self.bytes.extend_from_slice(payload.data);
        Ok(())
    }
}

impl Assemblies {
    /// None.
    pub fn new() -> Assemblies {
        Assemblies::default()
    }

    /// Whether nothing is incomplete, so that no memory is held.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes that wait for their rest.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that they take: buffers that grow have room for more than has come.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// The stream that waits longest, and since when.
    pub fn oldest(&self) -> Option<(u32, Time)> {
        self.open.first().map(|assembly| (assembly.message.stream, assembly.begun))
    }

    /// Whether a message of this stream is incomplete.
    pub fn is_open(&self, stream: u32) -> bool {
        self.place(stream).is_some()
    }

    /// Time begins anew for all of them: the connection was gone meanwhile.
    pub fn go_on(&mut self, now: Time) {
        self.open.iter_mut().for_each(|assembly| assembly.begun = now);
    }

    /// Forgets what has come of a stream's message; whether there was something.
    pub fn forget(&mut self, stream: u32) -> bool {
        self.place(stream).is_some_and(|place| {
            self.remove(place);
            true
        })
    }

    /// Takes a frame of a stream that is known, or that begins by it. What ends a stream also ends its
    /// incomplete message.
    ///
    /// # Errors
    /// When a rule is broken; the message is forgotten then, and later fragments of it stand for
    /// themselves.
    pub fn take(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        limits: &FragmentLimits,
    ) -> Result<Taken, FragmentError> {
        match &frame.body {
            Body::Request(request) if request.follows => {
                let first = First::Request(request.interaction, request.credit);
                self.begin(now, frame, first, request.complete, &request.payload, limits)
            }
            Body::Payload(item) => {
                // A frame that says that nothing follows cannot say that a fragment does.
                let follows = item.follows && !item.complete;
                match self.place(frame.stream) {
                    Some(place) => {
                        let taken = self.add(place, frame, item, follows, limits);
                        if taken.is_err() {
                            self.remove(place);
                        }
                        taken
                    }
                    None if follows => {
                        self.begin(now, frame, First::Item, false, &item.payload, limits)
                    }
                    None => Ok(Taken::Whole),
                }
            }
            Body::Cancel | Body::Error(_) => {
                self.forget(frame.stream);
                Ok(Taken::Whole)
            }
            _ => Ok(Taken::Whole),
        }
    }

    fn begin(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
        first: First,
        complete: bool,
        payload: &Payload<'_>,
        limits: &FragmentLimits,
    ) -> Result<Taken, FragmentError> {
        if self.open.len() >= limits.messages_max {
            return Err(FragmentError::TooManyMessages(limits.messages_max));
        }
        self.has_room(0, payload.len(), limits)?;
        let metadata_len = payload.metadata.map(|_| 0);
        let bytes = Vec::with_capacity(payload.len());
        let mut message = Assembled { stream: frame.stream, first, complete, bytes, metadata_len };
        message.add(payload)?;
        self.bytes += payload.len();
        self.held += message.bytes.capacity();
        self.open.push(Assembly { begun: now, fragments: 1, message });
        Ok(Taken::Kept)
    }

    fn add(
        &mut self,
        place: usize,
        frame: &Frame<'_>,
        item: &Item<'_>,
        follows: bool,
        limits: &FragmentLimits,
    ) -> Result<Taken, FragmentError> {
        let Some(assembly) = self.open.get(place) else { return Ok(Taken::Whole) };
        let bytes = frame.len();
        if follows && bytes < limits.fragment_bytes_min {
            return Err(FragmentError::TooShort { bytes, min: limits.fragment_bytes_min });
        }
        if assembly.fragments >= limits.fragments_max {
            return Err(FragmentError::TooMany(limits.fragments_max));
        }
        self.has_room(assembly.message.bytes.len(), item.payload.len(), limits)?;
        let Some(assembly) = self.open.get_mut(place) else { return Ok(Taken::Whole) };
        assembly.fragments += 1;
        let bytes = &assembly.message.bytes;
        let (before, held) = (bytes.len(), bytes.capacity());
        let added = assembly.message.add(&item.payload);
        self.bytes += assembly.message.bytes.len() - before;
        self.held += assembly.message.bytes.capacity() - held;
        added?;
        if follows {
            return Ok(Taken::Kept);
        }
        let mut message = self.remove(place).message;
        // Requests that are no channels have nothing to complete.
        let ends =
            !matches!(message.first, First::Request(asked, _) if asked != Interaction::Channel);
        message.complete |= item.complete && ends;
        Ok(Taken::Complete(message))
    }

    fn has_room(
        &self,
        there: usize,
        more: usize,
        limits: &FragmentLimits,
    ) -> Result<(), FragmentError> {
        if there.saturating_add(more) > limits.message_bytes_max {
            return Err(FragmentError::TooLong(limits.message_bytes_max));
        }
        if self.bytes.saturating_add(more) > limits.total_bytes_max {
            return Err(FragmentError::TotalTooLong(limits.total_bytes_max));
        }
        Ok(())
    }

    fn place(&self, stream: u32) -> Option<usize> {
        self.open.iter().position(|assembly| assembly.message.stream == stream)
    }

    fn remove(&mut self, place: usize) -> Assembly {
        let assembly = self.open.remove(place);
        self.bytes -= assembly.message.bytes.len();
        self.held -= assembly.message.bytes.capacity();
        if self.open.is_empty() {
            // The connection may be idle from now on.
            self.open = Vec::new();
        }
        assembly
    }
}
