//! Marks of a connection.

/// Marks of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The socket has bytes that were not read yet.
    pub(crate) const READABLE: u32 = 1;
    /// The socket takes bytes, as far as we know.
    pub(crate) const WRITABLE: u32 = 1 << 1;
    /// It is on the list of connections to be read.
    pub(crate) const READ_LISTED: u32 = 1 << 2;
    /// It is on the list of connections to be written.
    pub(crate) const WRITE_LISTED: u32 = 1 << 3;
    /// It is on the list of connections whose kept input is to be handled again.
    pub(crate) const AGAIN_LISTED: u32 = 1 << 4;
    /// The broker holds deliveries for it.
    pub(crate) const BACKLOG: u32 = 1 << 5;
    /// The broker asked not to read it.
    pub(crate) const PAUSED: u32 = 1 << 6;
    /// Its session does not take in what has been read already.
    pub(crate) const HELD: u32 = 1 << 7;
    /// The event said that the peer sends no more: read until the end shows.
    pub(crate) const PEER_ENDING: u32 = 1 << 8;
    /// The peer sends no more.
    pub(crate) const PEER_ENDED: u32 = 1 << 9;
    /// Something arrived since the last look at the silence.
    pub(crate) const HEARD: u32 = 1 << 10;
    /// A ping was sent and nothing has arrived since.
    pub(crate) const PINGED: u32 = 1 << 11;
    /// Our side is shut.
    pub(crate) const SHUT: u32 = 1 << 12;
    /// It is to move to another shard at the end of its handling.
    pub(crate) const MOVING: u32 = 1 << 13;
    /// A request head has begun.
    pub(crate) const HEAD_BEGUN: u32 = 1 << 14;
    /// The login has been seen to be done.
    pub(crate) const ESTABLISHED: u32 = 1 << 15;

    /// Its bytes are encrypted: its TLS session is in the shard's table.
    pub(crate) const SECURED: u32 = 1 << 16;
    /// The socket has not taken all that is encrypted.
    pub(crate) const UNSENT: u32 = 1 << 17;
    /// The beginning of a record has come, and not its end.
    pub(crate) const PARTIAL: u32 = 1 << 18;
    /// What its client has begun and not finished counts in the memory budget.
    pub(crate) const COUNTED: u32 = 1 << 20;
    /// It is carried by a stream of an HTTP/2 connection: its tunnel is in the shard's table.
    pub(crate) const TUNNEL: u32 = 1 << 19;

    /// Its session, or what carries it, has had its share of this turn and has more to take in.
    pub(crate) const STOPPED: u32 = 1 << 21;

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u32) {
        self.0 |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u32) {
        self.0 &= !flag;
    }

    /// Sets or clears it.
    pub(crate) fn assign(&mut self, flag: u32, is_set: bool) {
        if is_set { self.set(flag) } else { self.clear(flag) }
    }

    /// What carries a connection, and how far that has come.
    pub(crate) const CARRIER: u32 = Flags::SECURED | Flags::UNSENT | Flags::PARTIAL | Flags::TUNNEL;
    /// On which lists it is.
    pub(crate) const LISTS: u32 = Flags::READ_LISTED | Flags::WRITE_LISTED | Flags::AGAIN_LISTED;

    /// These flags as they are, and no others.
    pub(crate) fn keep(self, flags: u32) -> Flags {
        Flags(self.0 & flags)
    }

    /// Those of the flags that are set.
    pub(crate) fn only(self, flags: u32) -> u32 {
        self.0 & flags
    }

    /// Sets it and says whether it was not set before.
    pub(crate) fn raise(&mut self, flag: u32) -> bool {
        let fresh = !self.has(flag);
        self.set(flag);
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_a_flag_tells_whether_it_is_new() {
        let mut flags = Flags::default();
        assert!(flags.raise(Flags::PAUSED));
        assert!(!flags.raise(Flags::PAUSED));
        flags.clear(Flags::PAUSED);
        assert!(!flags.has(Flags::PAUSED));
    }
}
