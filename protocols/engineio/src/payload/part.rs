//! What each form of payloads gives for one packet.

/// A packet's bytes and what is behind them, if something is.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) text: bool,
    pub(crate) rest: Option<&'a [u8]>,
}
