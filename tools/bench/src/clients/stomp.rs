//! STOMP as a client of many sees it: whole frames, each a WebSocket message.

use std::io;

use crate::clients::counters::{Counters, broken};

/// One client's conversation.
#[derive(Debug, Default)]
pub struct Stomp {
    /// Whether CONNECTED has come.
    pub is_connected: bool,
    /// Receipts.
    pub confirmed: u64,
}

impl Stomp {
    /// Takes a frame in.
    ///
    /// # Errors
    /// When it is an ERROR.
    pub fn take(&mut self, frame: &[u8], counters: &mut Counters) -> io::Result<()> {
        if frame.starts_with(b"MESSAGE") {
            let body = memchr::memmem::find(frame, b"\n\n").map_or(frame.len(), |end| end + 2);
            let stamp = frame.get(body..body + 8).and_then(|stamp| stamp.try_into().ok());
            let bytes = frame.len().saturating_sub(body + 1);
            counters.batches += 1;
            counters.message(stamp.map_or(0, u64::from_be_bytes), bytes);
        } else if frame.starts_with(b"RECEIPT") {
            self.confirmed += 1;
        } else if frame.starts_with(b"CONNECTED") {
            self.is_connected = true;
        } else if frame.starts_with(b"ERROR") {
            return Err(broken(&format!("the server says {}", frame.escape_ascii())));
        }
        Ok(())
    }
}

/// Appends CONNECT without heart-beats.
pub fn connect(out: &mut Vec<u8>, credentials: Option<&(String, String)>) {
    out.extend_from_slice(b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n");
    if let Some((name, password)) = credentials {
        out.extend_from_slice(format!("login:{name}\npasscode:{password}\n").as_bytes());
    }
    out.extend_from_slice(b"\n\0");
}

/// Appends SUBSCRIBE with a receipt.
pub fn subscribe(out: &mut Vec<u8>, id: usize, path: &str) {
    let frame = format!("SUBSCRIBE\nid:{id}\ndestination:/topic/{path}\nreceipt:{id}\n\n\0");
    out.extend_from_slice(frame.as_bytes());
}

/// Appends SEND to a topic.
pub fn send(out: &mut Vec<u8>, path: &str, body: &[u8]) {
    let head = format!("SEND\ndestination:/topic/{path}\ncontent-length:{}\n\n", body.len());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out.push(0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_conversation() {
        let (mut stomp, mut counters) = (Stomp::default(), Counters::idle());
        stomp.take(b"CONNECTED\nversion:1.2\n\n\0", &mut counters).unwrap();
        stomp.take(b"RECEIPT\nreceipt-id:0\n\n\0", &mut counters).unwrap();
        stomp.take(b"MESSAGE\nsubscription:0\n\n12345678....\0", &mut counters).unwrap();
        assert!(stomp.is_connected);
        assert_eq!((stomp.confirmed, counters.received, counters.body_bytes), (1, 1, 12));
        assert!(stomp.take(b"ERROR\n\n\0", &mut counters).is_err());
    }
}
