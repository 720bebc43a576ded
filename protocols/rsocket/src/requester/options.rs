//! What a client says in SETUP, and its limits.
//!
//! Relies on nothing. Many clients share one value.

use crate::fragment::FragmentLimits;
use crate::frame::FRAME_BYTES_MAX;

/// What a client says in SETUP, and its limits.
#[derive(Clone, Debug)]
pub struct RequesterOptions {
    /// How often it says that it lives.
    pub interval_ms: u32,
    /// For how long it bears silence.
    pub lifetime_ms: u32,
    /// What metadata is.
    pub metadata_mime: String,
    /// What data is.
    pub data_mime: String,
    /// Metadata of SETUP.
    pub metadata: Option<Vec<u8>>,
    /// Data of SETUP.
    pub data: Vec<u8>,
    /// Whether it waits for leases.
    pub lease: bool,
    /// By which it comes back, if it wants to.
    pub token: Option<Vec<u8>>,
    /// Bytes of its frames, without a prefix; longer ones are cut into fragments.
    pub fragment_bytes_max: usize,
    /// Bytes of frames it keeps to send them again.
    pub retained_bytes_max: usize,
    /// Bytes of the server's frames.
    pub frame_bytes_max: usize,
    /// What it takes in fragments.
    pub fragments: FragmentLimits,
    /// Requests of the server that it has open; further ones are rejected.
    pub requests_max: usize,
}

impl Default for RequesterOptions {
    fn default() -> RequesterOptions {
        RequesterOptions {
            interval_ms: 20_000,
            lifetime_ms: 90_000,
            metadata_mime: "message/x.rsocket.composite-metadata.v0".into(),
            data_mime: "application/octet-stream".into(),
            metadata: None,
            data: Vec::new(),
            lease: false,
            token: None,
            fragment_bytes_max: FRAME_BYTES_MAX,
            retained_bytes_max: 1024 * 1024,
            frame_bytes_max: FRAME_BYTES_MAX,
            fragments: FragmentLimits {
                message_bytes_max: 64 * 1024 * 1024,
                total_bytes_max: 256 * 1024 * 1024,
                messages_max: 1000,
                fragments_max: 1_000_000,
                fragment_bytes_min: 0,
            },
            requests_max: 10_000,
        }
    }
}
