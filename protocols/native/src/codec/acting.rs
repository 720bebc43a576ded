//! Requests that an edge passes on: PRINCIPAL says who somebody is, AS what is asked for that one.

use tiderace_wire::{EndPrincipal, write_varint};

use super::{CodecError, Messages, Reader, write_bytes};
use crate::limits::AS_MESSAGES_MAX;

/// PRINCIPAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalMessage<'a> {
    /// The edge's number for the principal, from 1.
    pub id: u32,
    /// Whether the name is not authenticated.
    pub anonymous: bool,
    /// The name.
    pub name: &'a str,
    /// The groups.
    pub groups: Vec<&'a str>,
    /// The claims, each a name and one of its values.
    pub claims: Vec<(&'a str, &'a str)>,
}

impl<'a> PrincipalMessage<'a> {
    /// What is told of a principal.
    pub fn of(id: u32, principal: &'a EndPrincipal) -> PrincipalMessage<'a> {
        PrincipalMessage {
            id,
            anonymous: principal.is_anonymous(),
            name: principal.name(),
            groups: principal.groups().iter().map(|group| &**group).collect(),
            claims: principal.claims().iter().map(|(name, value)| (&**name, &**value)).collect(),
        }
    }

    pub(super) fn read(from: &mut Reader<'a>) -> Result<PrincipalMessage<'a>, CodecError> {
        let (id, anonymous, name) = (from.number()?, from.truth()?, from.text()?);
        let groups = (0..rows(from)?).map(|_| from.text()).collect::<Result<_, _>>()?;
        let claim = |from: &mut Reader<'a>| Ok((from.text()?, from.text()?));
        let claims = (0..rows(from)?).map(|_| claim(from)).collect::<Result<_, CodecError>>()?;
        Ok(PrincipalMessage { id, anonymous, name, groups, claims })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.id));
        out.push(u8::from(self.anonymous));
        write_bytes(out, self.name.as_bytes());
        write_varint(out, self.groups.len() as u64);
        self.groups.iter().for_each(|group| write_bytes(out, group.as_bytes()));
        write_varint(out, self.claims.len() as u64);
        for (name, value) in &self.claims {
            write_bytes(out, name.as_bytes());
            write_bytes(out, value.as_bytes());
        }
    }
}

/// How many rows follow.
fn rows(from: &mut Reader<'_>) -> Result<usize, CodecError> {
    match from.number()? {
        count if count <= EndPrincipal::ROWS_MAX => Ok(count),
        _ => Err(CodecError::OutOfRange),
    }
}

/// AS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsMessage<'a> {
    /// The number of the principal.
    pub principal: u32,
    /// Whole messages, one after the other, 1,024 at most: PUBLISH, and at most one OPERATE, CALL or
    /// SUBSCRIBE to queues.
    pub messages: &'a [u8],
}

impl<'a> AsMessage<'a> {
    /// How many messages it holds, counted up to one more than it may.
    pub(crate) fn count(&self) -> usize {
        Messages::new(self.messages).take(AS_MESSAGES_MAX + 1).count()
    }

    pub(super) fn read(from: &mut Reader<'a>) -> Result<AsMessage<'a>, CodecError> {
        Ok(AsMessage { principal: from.number()?, messages: from.rest() })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.principal));
        out.extend_from_slice(self.messages);
    }
}
