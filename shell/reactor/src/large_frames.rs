//! What of connections' input is in files: frames, and bodies of requests.
//!
//! Invariant: a connection has at most one.

use std::collections::HashMap;

use bytes::Bytes;
use tiderace_base::Key;
use tiderace_spool::Upload;

/// The frames of a shard's connections that are in files.
#[derive(Debug, Default)]
pub(crate) struct LargeFrames {
    frames: HashMap<Key, Frame>,
}

/// A frame, or a body of a request.
#[derive(Debug)]
pub(crate) enum Frame {
    /// It arrives.
    Arriving { upload: Upload, need: Option<u64> },
    /// It is there, and its session has not taken it.
    Whole(Bytes),
}

impl LargeFrames {
    /// Bytes that are yet to come of the frame of a connection.
    pub(crate) fn missing(&self, key: Key) -> usize {
        match self.frames.get(&key) {
            Some(Frame::Arriving { upload, need: Some(need) }) => {
                need.saturating_sub(upload.len()) as usize
            }
            Some(Frame::Arriving { need: None, .. }) => usize::MAX,
            _ => 0,
        }
    }

    /// Bytes in memory of the frame of a connection.
    pub(crate) fn memory_bytes(&self, key: Key) -> usize {
        match self.frames.get(&key) {
            Some(Frame::Arriving { upload, .. }) => upload.memory_bytes(),
            _ => 0,
        }
    }

    /// What arrives of a connection.
    pub(crate) fn arriving(&mut self, key: Key) -> Option<&mut Upload> {
        match self.frames.get_mut(&key)? {
            Frame::Arriving { upload, .. } => Some(upload),
            Frame::Whole(_) => None,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Frame> {
        self.frames.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Frame> {
        self.frames.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: Key, frame: Frame) {
        self.frames.insert(key, frame);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.frames.remove(key);
    }
}
