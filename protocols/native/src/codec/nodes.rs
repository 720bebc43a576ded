//! NODES: from where the server has what it passes on.

use tiderace_wire::write_varint;

use super::{CodecError, Reader, write_bytes};
use crate::limits::{NODE_BYTES_MAX, NODES_MAX};

/// NODES.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes<'a> {
    /// The connections on the longest way up to a node that has no upstream; 0 of such a node.
    pub hops: u64,
    /// The names of the nodes above the server.
    pub names: Vec<&'a str>,
}

impl<'a> Nodes<'a> {
    pub(super) fn read(from: &mut Reader<'a>) -> Result<Nodes<'a>, CodecError> {
        let hops = from.varint()?;
        let count = from.number::<usize>()?;
        if count > NODES_MAX {
            return Err(CodecError::OutOfRange);
        }
        let names = (0..count).map(|_| node(from)).collect::<Result<_, _>>()?;
        Ok(Nodes { hops, names })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.hops);
        write_varint(out, self.names.len() as u64);
        self.names.iter().for_each(|name| write_bytes(out, name.as_bytes()));
    }
}

/// The name of a node.
pub(super) fn node<'a>(from: &mut Reader<'a>) -> Result<&'a str, CodecError> {
    let name = from.text()?;
    if name.len() <= NODE_BYTES_MAX { Ok(name) } else { Err(CodecError::OutOfRange) }
}
