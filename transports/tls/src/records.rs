//! How rustls' unbuffered connections are driven, whichever side of the connection they are.
//!
//! The two sides are different types that do the same; [`Side`] is what this needs of them. Invariants: rustls is given
//! the bytes again that it has not finished with; after an error it is only asked for its alert, with none.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{CommonState, Error};

use crate::failure::Failure;

/// One side of a connection.
pub(crate) trait Side {
    /// What rustls keeps for it.
    type Data;

    /// What is the same for both sides.
    fn common(&self) -> &CommonState;

    /// The next state, given all bytes that have come and are not finished with.
    fn next<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// What an error means for this side.
    fn failure(error: Error) -> Failure;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn common(&self) -> &CommonState {
        self
    }

    fn next<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }

    fn failure(error: Error) -> Failure {
        Failure::of_server(&error)
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn common(&self) -> &CommonState {
        self
    }

    fn next<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }

    fn failure(error: Error) -> Failure {
        Failure::of_client(&error)
    }
}

/// What came of bytes of the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Bytes that are done with.
    pub(crate) consumed: usize,
    /// Plain bytes that were written.
    pub(crate) plain: usize,
    /// The other side sends no more.
    pub(crate) is_ended: bool,
}

/// Handles bytes of the wire: plain bytes go to the front of `plain`, what is to be sent is appended to `out`.
pub(crate) fn receive<S: Side>(
    side: &mut S,
    wire: &mut [u8],
    plain: &mut [u8],
    out: &mut Vec<u8>,
) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    loop {
        let rest = wire.get_mut(taken.consumed..).unwrap_or_default();
        let UnbufferedStatus { discard, state } = side.next(rest);
        taken.consumed += discard;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(S::failure)?;
                    let end = taken.plain + record.payload.len();
                    let Some(room) = plain.get_mut(taken.plain..end) else {
                        return Err(Failure::internal("more was decrypted than received"));
                    };
                    room.copy_from_slice(record.payload);
                    taken.plain = end;
                    taken.consumed += record.discard;
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out)?,
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                // Nothing behind the end is looked at.
                taken.consumed = wire.len();
                taken.is_ended = true;
                return Ok(taken);
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                return Ok(taken);
            }
            // It is off, so no client is told that it may send such.
            Ok(ConnectionState::ReadEarlyData(_)) => {
                return Err(Failure::internal("early data is not accepted"));
            }
            Ok(_) => return Err(Failure::internal("the connection is in an unknown state")),
            Err(error) => {
                collect_alert(side, out);
                return Err(S::failure(error));
            }
        }
    }
}

/// What is left to be said after a failure. What has failed is not shown again, or it would fail again.
fn collect_alert<S: Side>(side: &mut S, out: &mut Vec<u8>) {
    while side.common().wants_write() {
        match side.next(&mut []).state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                if encode(&mut data, out).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words<'a> {
    /// Plain bytes.
    Plain(&'a [u8]),
    /// That nothing more comes.
    Finish,
}

/// Writes records to the front of `sealed`, behind what the connection has to say itself, and says how long they are.
/// Counts in `consumed` what of the kept bytes was done with on the way.
pub(crate) fn send<S: Side>(
    side: &mut S,
    kept: &mut [u8],
    consumed: &mut usize,
    words: Words<'_>,
    sealed: &mut [u8],
) -> Result<usize, Failure> {
    let mut pending = Vec::new();
    for _ in 0..STEPS_MAX {
        let rest = kept.get_mut(*consumed..).unwrap_or_default();
        let UnbufferedStatus { discard, state } = side.next(rest);
        *consumed += discard;
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut pending)?,
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            // The other side's end: it still listens.
            Ok(ConnectionState::PeerClosed) => {}
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let Some((front, room)) = sealed.split_at_mut_checked(pending.len()) else {
                    return Err(Failure::internal("there is no room for records"));
                };
                front.copy_from_slice(&pending);
                let written = match words {
                    Words::Plain(plain) => traffic.encrypt(plain, room),
                    Words::Finish => traffic.queue_close_notify(room),
                };
                let written = written.map_err(|error| match error {
                    EncryptError::InsufficientSize(_) => {
                        Failure::internal("there is no room for records")
                    }
                    EncryptError::EncryptExhausted => {
                        Failure::internal("the connection's keys are used up")
                    }
                })?;
                return Ok(pending.len() + written);
            }
            Err(error) => return Err(S::failure(error)),
            Ok(_) => break,
        }
    }
    Err(Failure::internal("the connection cannot be written any more"))
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let start = out.len();
    let size = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(needed)) => needed.required_size,
        Ok(_) => return Ok(()),
        Err(EncodeError::AlreadyEncoded) => return Err(Failure::internal("nothing to encode")),
    };
    out.resize(start + size, 0);
    match data.encode(out.get_mut(start..).unwrap_or_default()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::internal("a record cannot be encoded")),
    }
}

/// States that are gone through on the way to the writing one; there are two of them.
const STEPS_MAX: usize = 16;
