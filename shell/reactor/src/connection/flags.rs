//! The state of a connection beside its stage, in four bytes.
//!
//! | state | values | who changes it |
//! |---|---|---|
//! | carrier ([`CarriedBy`]) | socket · TLS · stream of HTTP/2 | the handshake; a carrier that moves takes it along |
//! | of TLS alone | [`Flags::UNSENT`], [`Flags::PARTIAL`] | reading and writing of TLS |
//! | the peer's side ([`PeerSide`]) | open → ending → ended, never back | events, reads |
//! | liveness ([`Liveness`]) | quiet → pinged → (closed); heard by any read | reads, the ping of WebSocket |
//! | readiness | [`Flags::READABLE`], [`Flags::WRITABLE`], independent | the driver, or what stands for a socket |
//! | work lists | [`Flags::READ_LISTED`], [`Flags::WRITE_LISTED`], [`Flags::LONG_LISTED`], [`Flags::AGAIN_LISTED`], independent | [`crate::work_lists`] |
//! | input | [`Flags::PAUSED`] by the broker, [`Flags::HELD`] by the stage, [`Flags::YIELDED`] until the next turn; independent | see [`ReadGate`] |
//! | large frames | [`Flags::IN_FILE`], [`Flags::STORING`] | [`crate::large_input`] |
//! | output | [`Flags::BACKLOG`] | the broker, the engine of HTTP/2 |
//! | behind a proxy | [`Flags::CLAIMED`], which moves with the carrier | [`crate::proxies`] |
//! | once per stage | [`Flags::PREFACED`] in `Sniff`, [`Flags::HEAD_BEGUN`] in `Http`, [`Flags::ESTABLISHED`] in `Live` | the stage |
//! | limits | [`Flags::LIMITED`], [`Flags::THROTTLED`] and [`Flags::PACED`], the last two only with the first | [`crate::limited`] |
//! | leaving | [`Flags::LEAVING`]: in `Http`, in `Http2` and in `Closing` | `crate::drain` |
//! | accounts | [`Flags::COUNTED`] | [`crate::unfinished_input`] |
//! | begun by us | [`Flags::OUTGOING`] for good, [`Flags::CONNECTING`] until the other side has taken it | [`crate::upstream`] |
//!
//! Whether a connection is read is decided in one place, from what stands in this table and from what waits to
//! be written ([`super::Connection::read_gate`]):
//!
//! | read gate | held shut by | opened by |
//! |---|---|---|
//! | `Ended` | the peer: it sends no more | nothing |
//! | `Backpressure` | the broker: a topic or queue of the publisher's is full | the broker |
//! | `Rate` | a limit: its client has sent more than it may for now | time |
//! | `Session` | the stage: what has been read is not taken in (a login is judged, a request waits for its answer) | an answer, when kept input is handled again |
//! | `Disk` | the writer of the file in which a large frame arrives: it is behind, or about to be done | its notice |
//! | `Turn` | the session: it has more to take in than one turn allows | the next turn |
//! | `Clogged` | the peer: it does not read what it is sent | a write |
//! | `Open` | | |
//!
//! A gate may be held shut by several at once; it opens when the last of them lets go. The first row that
//! applies names it.

/// Marks of a connection, and the small states that share their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

/// One mark. Marks cannot be combined, so that none is taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u32);

/// What carries the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarriedBy {
    /// Its socket, or nothing.
    Socket,
    /// Its socket by way of a TLS session, which is in the shard's table.
    Tls,
    /// A stream of an HTTP/2 connection, which is in the shard's table.
    H2Stream,
}

/// What the peer may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerSide {
    Open,
    /// An event said that no more comes: read until the end shows.
    Ending,
    /// It sends no more.
    Ended,
}

/// What has been heard of the peer since the last look at its silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Nothing.
    Quiet,
    /// Something.
    Heard,
    /// Nothing, and it was sent a ping.
    Pinged,
}

/// Whether a connection is read; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadGate {
    Open,
    Backpressure,
    Rate,
    Session,
    Disk,
    Turn,
    Clogged,
    Ended,
}

impl Flags {
    /// The socket has bytes that were not read yet.
    pub(crate) const READABLE: Mark = Mark(1);
    /// The socket takes bytes, as far as we know.
    pub(crate) const WRITABLE: Mark = Mark(1 << 1);
    /// It is on the list of connections to be read.
    pub(crate) const READ_LISTED: Mark = Mark(1 << 2);
    /// It is on the list of connections to be written.
    pub(crate) const WRITE_LISTED: Mark = Mark(1 << 3);
    /// It is on the list of connections whose kept input is to be handled again.
    pub(crate) const AGAIN_LISTED: Mark = Mark(1 << 4);
    /// The broker holds deliveries for it, or the engine of its HTTP/2 connection has something to say.
    pub(crate) const BACKLOG: Mark = Mark(1 << 5);
    /// The broker asked not to read it.
    pub(crate) const PAUSED: Mark = Mark(1 << 6);
    /// Its stage does not take in what has been read already.
    pub(crate) const HELD: Mark = Mark(1 << 7);
    /// Its session, or what carries it, has had its share of this turn and has more to take in.
    pub(crate) const YIELDED: Mark = Mark(1 << 8);
    /// A request head has begun.
    pub(crate) const HEAD_BEGUN: Mark = Mark(1 << 9);
    /// The login has been seen to be done.
    pub(crate) const ESTABLISHED: Mark = Mark(1 << 10);
    /// What its client has begun and not finished counts in the memory budget.
    pub(crate) const COUNTED: Mark = Mark(1 << 11);
    /// The socket has not taken all that is encrypted.
    pub(crate) const UNSENT: Mark = Mark(1 << 12);
    /// The beginning of a record of TLS has come, and not its end.
    pub(crate) const PARTIAL: Mark = Mark(1 << 13);

    /// What is read of it is a part of a frame that goes into a file.
    pub(crate) const IN_FILE: Mark = Mark(1 << 14);
    /// That file does not keep up, or is not ready: nothing is read until it is.
    pub(crate) const STORING: Mark = Mark(1 << 15);
    /// It is on the list of connections that are written after the others.
    pub(crate) const LONG_LISTED: Mark = Mark(1 << 22);

    /// It was begun here, to an upstream.
    pub(crate) const OUTGOING: Mark = Mark(1 << 23);
    /// The other side has not taken it yet.
    pub(crate) const CONNECTING: Mark = Mark(1 << 24);
    /// A drain sends it away: its next answer is the last, or it ends already.
    pub(crate) const LEAVING: Mark = Mark(1 << 25);
    /// Limits apply to its session.
    pub(crate) const LIMITED: Mark = Mark(1 << 26);
    /// Its client has sent more than it may for now, and is not read.
    pub(crate) const THROTTLED: Mark = Mark(1 << 27);
    /// Its client has been written more than it may for now, and is not written to.
    pub(crate) const PACED: Mark = Mark(1 << 28);
    /// It is a stream of a proxy's HTTP/2 connection, and counts as a connection of the client that the proxy has named.
    pub(crate) const CLAIMED: Mark = Mark(1 << 29);
    /// Its first bytes have been seen, so that no header of the PROXY protocol may follow.
    pub(crate) const PREFACED: Mark = Mark(1 << 30);

    const TLS: u32 = 1 << 16;
    const H2_STREAM: u32 = 1 << 17;
    const PEER_ENDING: u32 = 1 << 18;
    const PEER_ENDED: u32 = 1 << 19;
    const HEARD: u32 = 1 << 20;
    const PINGED: u32 = 1 << 21;

    const UNREAD: u32 =
        Flags::PAUSED.0 | Flags::THROTTLED.0 | Flags::HELD.0 | Flags::YIELDED.0 | Flags::STORING.0;
    /// What of these holds input back for longer than a turn.
    const HELD_BACK: u32 = Flags::PAUSED.0 | Flags::THROTTLED.0 | Flags::HELD.0;
    const OF_LIMITS: u32 = Flags::LIMITED.0 | Flags::THROTTLED.0 | Flags::PACED.0;
    /// What of these decides whether it is written at its turn.
    const OF_WRITING: u32 = Flags::WRITABLE.0 | Flags::LONG_LISTED.0 | Flags::PACED.0;
    /// What of these goes where a carrier goes.
    const OF_CARRIER: u32 = Flags::TLS
        | Flags::H2_STREAM
        | Flags::UNSENT.0
        | Flags::PARTIAL.0
        | Flags::CLAIMED.0
        | Flags::PEER_ENDING
        | Flags::PEER_ENDED;
    const LISTS: u32 =
        Flags::READ_LISTED.0 | Flags::WRITE_LISTED.0 | Flags::LONG_LISTED.0 | Flags::AGAIN_LISTED.0;
    /// What of these is the session's, whatever carries it.
    const OF_SESSION: u32 =
        Flags::LISTS | Flags::OF_LIMITS | Flags::PAUSED.0 | Flags::ESTABLISHED.0 | Flags::COUNTED.0;

    #[inline]
    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & mark.0 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, mark: Mark) {
        self.0 |= mark.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, mark: Mark) {
        self.0 &= !mark.0;
    }

    /// Sets or clears it.
    pub(crate) fn assign(&mut self, mark: Mark, is_set: bool) {
        if is_set { self.set(mark) } else { self.clear(mark) }
    }

    /// Sets it and says whether it was not set before.
    #[inline]
    pub(crate) fn raise(&mut self, mark: Mark) -> bool {
        let fresh = !self.has(mark);
        self.set(mark);
        fresh
    }

    /// Whether the broker, a limit or the stage holds its input back.
    #[inline]
    pub(crate) fn is_held_back(self) -> bool {
        self.0 & Flags::HELD_BACK != 0
    }

    /// Whether its client is slowed down on purpose: by the broker or by a limit.
    pub(crate) fn is_slowed(self) -> bool {
        self.0 & (Flags::PAUSED.0 | Flags::THROTTLED.0) != 0
    }

    /// Whether it may be written at its turn.
    #[inline]
    pub(crate) fn may_write(self) -> bool {
        self.0 & Flags::OF_WRITING == Flags::WRITABLE.0
    }

    /// No limits apply any more.
    pub(crate) fn end_limits(&mut self) {
        self.0 &= !Flags::OF_LIMITS;
    }

    /// Whether it is not read, for whatever reason but the peer.
    #[inline]
    pub(crate) fn is_unread(self) -> bool {
        self.0 & Flags::UNREAD != 0
    }

    /// Whether the session has left what it could take in.
    pub(crate) fn is_behind(self) -> bool {
        self.0 & (Flags::HELD.0 | Flags::YIELDED.0) != 0
    }

    /// Whether something waits to be written beside its queue.
    #[inline]
    pub(crate) fn has_output(self) -> bool {
        self.0 & (Flags::BACKLOG.0 | Flags::UNSENT.0) != 0
    }

    /// The read gate for all that stands here.
    #[inline]
    pub(crate) fn shut_gate(self) -> ReadGate {
        let shut = Flags::UNREAD | Flags::PEER_ENDED;
        if self.0 & shut == 0 { ReadGate::Open } else { self.shut_by() }
    }

    #[cold]
    fn shut_by(self) -> ReadGate {
        match self {
            flags if flags.is_peer_ended() => ReadGate::Ended,
            flags if flags.has(Flags::PAUSED) => ReadGate::Backpressure,
            flags if flags.has(Flags::THROTTLED) => ReadGate::Rate,
            flags if flags.has(Flags::HELD) => ReadGate::Session,
            flags if flags.has(Flags::STORING) => ReadGate::Disk,
            _ => ReadGate::Turn,
        }
    }

    /// What carries it.
    #[inline]
    pub(crate) fn carrier(self) -> CarriedBy {
        match self.0 & (Flags::TLS | Flags::H2_STREAM) {
            0 => CarriedBy::Socket,
            Flags::TLS => CarriedBy::Tls,
            _ => CarriedBy::H2Stream,
        }
    }

    #[inline]
    pub(crate) fn is_tls(self) -> bool {
        self.0 & Flags::TLS != 0
    }

    #[inline]
    pub(crate) fn is_h2_stream(self) -> bool {
        self.0 & Flags::H2_STREAM != 0
    }

    pub(crate) fn set_carrier(&mut self, carrier: CarriedBy) {
        self.0 &= !(Flags::TLS | Flags::H2_STREAM);
        self.0 |= match carrier {
            CarriedBy::Socket => 0,
            CarriedBy::Tls => Flags::TLS,
            CarriedBy::H2Stream => Flags::H2_STREAM,
        };
    }

    /// What the peer may still send.
    #[inline]
    pub(crate) fn peer(self) -> PeerSide {
        match self.0 & (Flags::PEER_ENDING | Flags::PEER_ENDED) {
            0 => PeerSide::Open,
            Flags::PEER_ENDING => PeerSide::Ending,
            _ => PeerSide::Ended,
        }
    }

    #[inline]
    pub(crate) fn is_peer_ended(self) -> bool {
        self.0 & Flags::PEER_ENDED != 0
    }

    /// An event said that the peer sends no more.
    pub(crate) fn note_peer_ending(&mut self) {
        self.0 |= Flags::PEER_ENDING;
    }

    /// The peer sends no more.
    pub(crate) fn note_peer_ended(&mut self) {
        self.0 |= Flags::PEER_ENDED | Flags::PEER_ENDING;
    }

    /// What has been heard of the peer.
    pub(crate) fn liveness(self) -> Liveness {
        match self.0 & (Flags::HEARD | Flags::PINGED) {
            0 => Liveness::Quiet,
            Flags::HEARD => Liveness::Heard,
            _ => Liveness::Pinged,
        }
    }

    #[inline]
    pub(crate) fn set_liveness(&mut self, liveness: Liveness) {
        self.0 &= !(Flags::HEARD | Flags::PINGED);
        self.0 |= match liveness {
            Liveness::Quiet => 0,
            Liveness::Heard => Flags::HEARD,
            Liveness::Pinged => Flags::PINGED,
        };
    }

    /// A session gets another connection: keeps what is the session's, and gets what is the carrier's.
    pub(crate) fn take_carrier_of(&mut self, donor: Flags) {
        let carried = Flags::OF_CARRIER | Flags::READABLE.0 | Flags::HEARD;
        self.0 &= !(carried | Flags::PINGED);
        self.0 |= donor.0 & carried | Flags::WRITABLE.0;
    }

    /// A record loses its carrier: the flags of that.
    pub(crate) fn part_from_carrier(&mut self) -> Flags {
        let read = Flags::READABLE.0 | Flags::HEARD;
        let parted = Flags(self.0 & (Flags::OF_CARRIER | Flags::WRITABLE.0 | read));
        self.0 &= !(Flags::OF_CARRIER | Flags::PINGED | read);
        parted
    }

    /// What is the session's, of one whose connection was lost.
    pub(crate) fn without_carrier(self) -> Flags {
        Flags(self.0 & Flags::OF_SESSION)
    }

    /// A connection leaves its shard, and with it its lists; whether it is readable is asked anew where it comes.
    pub(crate) fn leave_shard(&mut self) {
        self.0 &= !(Flags::LISTS | Flags::READABLE.0 | Flags::YIELDED.0 | Flags::LEAVING.0);
        self.0 |= Flags::WRITABLE.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_a_mark_tells_whether_it_is_new() {
        let mut flags = Flags::default();
        assert!(flags.raise(Flags::PAUSED));
        assert!(!flags.raise(Flags::PAUSED));
        flags.clear(Flags::PAUSED);
        assert!(!flags.has(Flags::PAUSED));
    }

    #[test]
    fn states_keep_apart_in_their_bytes() {
        let mut flags = Flags::default();
        for carrier in [CarriedBy::H2Stream, CarriedBy::Tls, CarriedBy::Socket] {
            for liveness in [Liveness::Pinged, Liveness::Heard, Liveness::Quiet] {
                flags.set_carrier(carrier);
                flags.set_liveness(liveness);
                assert_eq!((flags.carrier(), flags.liveness()), (carrier, liveness));
                assert_eq!(flags.peer(), PeerSide::Open);
            }
        }
        flags.note_peer_ending();
        assert_eq!((flags.peer(), flags.shut_gate()), (PeerSide::Ending, ReadGate::Open));
        flags.set(Flags::YIELDED);
        assert_eq!(flags.shut_gate(), ReadGate::Turn);
        flags.set(Flags::HELD);
        assert_eq!(flags.shut_gate(), ReadGate::Session);
        flags.set(Flags::THROTTLED);
        assert_eq!(flags.shut_gate(), ReadGate::Rate);
        assert!(flags.is_held_back() && flags.is_slowed());
        flags.set(Flags::PAUSED);
        assert_eq!(flags.shut_gate(), ReadGate::Backpressure);
        flags.note_peer_ended();
        flags.note_peer_ending();
        assert_eq!((flags.peer(), flags.shut_gate()), (PeerSide::Ended, ReadGate::Ended));
    }

    #[test]
    fn what_is_paced_is_not_written_until_its_limits_let_it() {
        let mut flags = Flags::default();
        assert!(!flags.may_write());
        flags.set(Flags::WRITABLE);
        assert!(flags.may_write());
        flags.set(Flags::LIMITED);
        flags.set(Flags::PACED);
        assert!(!flags.may_write() && flags.without_carrier().has(Flags::PACED));
        flags.end_limits();
        assert!(flags.may_write() && !flags.has(Flags::LIMITED));
        flags.set(Flags::LONG_LISTED);
        assert!(!flags.may_write());
    }

    #[test]
    fn a_carrier_moves_with_what_is_its_own() {
        let mut donor = Flags::default();
        donor.set_carrier(CarriedBy::Tls);
        donor.set(Flags::UNSENT);
        donor.set(Flags::HELD);
        donor.set(Flags::READ_LISTED);
        donor.note_peer_ending();
        let mut session = Flags::default();
        session.set(Flags::PAUSED);
        session.set_liveness(Liveness::Pinged);
        session.take_carrier_of(donor);
        assert_eq!((session.carrier(), session.peer()), (CarriedBy::Tls, PeerSide::Ending));
        assert_eq!(session.liveness(), Liveness::Quiet);
        assert!(session.has(Flags::UNSENT) && session.has(Flags::PAUSED));
        assert!(!session.has(Flags::HELD) && !session.has(Flags::READ_LISTED));
        let parted = session.part_from_carrier();
        assert_eq!((parted.carrier(), session.carrier()), (CarriedBy::Tls, CarriedBy::Socket));
        assert!(session.without_carrier().has(Flags::PAUSED) && !parted.has(Flags::PAUSED));
    }
}
