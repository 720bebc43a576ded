//! What one HTTP/2 connection may make us hold or do.
//!
//! Relies on nothing. Invariant: everything a peer can make grow or repeat is bounded by a field here.

/// The limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams open at a time; more are refused (`SETTINGS_MAX_CONCURRENT_STREAMS`). Default 128.
    pub streams_max: u32,
    /// Bytes of a request's fields, as RFC 9113 section 6.5.2 counts them; requests with more are
    /// answered by status 431. Default 16 KiB.
    pub header_bytes_max: u32,
    /// Bytes of the dynamic table that clients may refer to. Default 4 KiB.
    pub header_table_bytes: u32,
    /// Bytes a client may send ahead on one stream. Default 64 KiB.
    pub stream_window_bytes: u32,
    /// Bytes a client that has logged in may send ahead on all streams together. Default 512 KiB.
    pub connection_window_bytes: u32,
    /// Bytes of one stream that wait here while the client's window allows them. Default 32 KiB.
    pub send_buffer_bytes: usize,
    /// Streams reset by the client: as many at once, and as many in ten seconds. Default 200.
    pub resets_max: u32,
    /// Pings, likewise. Default 200.
    pub pings_max: u32,
    /// SETTINGS frames, likewise. Default 20.
    pub settings_max: u32,
    /// Frames without a body that end nothing, likewise. Default 50.
    pub empty_frames_max: u32,
    /// WINDOW_UPDATE frames of less than 64 bytes, likewise. Default 50,000: some clients
    /// acknowledge every message by itself.
    pub small_updates_max: u32,
    /// Frames of other kinds, unknown ones among them, likewise. Default 500.
    pub other_frames_max: u32,
    /// CONTINUATION frames of one header block. Default 4.
    pub continuations_max: u32,
    /// What buffered small DATA frames may cost beyond their bytes, as `h2` counts it. Frames are
    /// taken out as they come, so that it bounds what comes in one piece. Default 1 MiB.
    pub data_frame_budget: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            streams_max: 128,
            header_bytes_max: 16 * 1024,
            header_table_bytes: 4096,
            stream_window_bytes: 64 * 1024,
            connection_window_bytes: 512 * 1024,
            send_buffer_bytes: 32 * 1024,
            resets_max: 200,
            pings_max: 200,
            settings_max: 20,
            empty_frames_max: 50,
            small_updates_max: 50_000,
            other_frames_max: 500,
            continuations_max: 4,
            data_frame_budget: 1 << 20,
        }
    }
}
