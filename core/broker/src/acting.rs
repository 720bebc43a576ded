//! Requests that an edge passes on: a session acts for principals of another node.
//!
//! Between two marks ([`tiderace_wire::Command::ActAs`]) the session's principal is the one that it acts for, which knows by whom its
//! requests are passed on; so rules and authors are found as for any other session, and every decision asks
//! [`Rules::authorise`](crate::Rules::authorise) as always, which wants both: what the rules let that principal do, and the
//! right `relay` of the edge. Relies on requests that do not belong to their session. Invariant: a session acts for others
//! only during the call that brings the marks.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_wire::{EndPrincipal, Entrance};

use crate::Principal;
use crate::credential_id::CredentialId;
use crate::places::key_of;
use crate::sessions::Sessions;

impl Principal {
    /// A principal of another node, for which a session of this one asks.
    fn relayed(end: &EndPrincipal, by: &Principal) -> Principal {
        Principal {
            name: end.name().clone(),
            groups: end.groups().clone(),
            anonymous: end.is_anonymous(),
            host: by.host.clone(),
            claims: end.claims().iter().cloned().collect(),
            relayed_by: Some(Arc::new(by.clone())),
            credential: CredentialId::LASTING,
            entrance: match by.entrance {
                Entrance::Admin(_) => Entrance::Rules,
                entrance => entrance,
            },
        }
    }

    /// The same as another node is told of it, if it can be.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(crate) fn to_end_principal(&self) -> Result<EndPrincipal, Close> {
        let (name, groups) = (self.name.clone(), self.groups.clone());
        EndPrincipal::new(name, groups, self.claims.all(), self.anonymous).map_err(|wrong| {
            let reason =
                format!("another server keeps this, and cannot be told who wants it: {wrong}");
            Close::new(CloseCode::NotAuthorised, reason)
        })
    }
}

impl Sessions {
    /// What a session asks for from now on is for somebody else, or for itself again; `own` is its principal meanwhile.
    pub(crate) fn act_as(
        &mut self,
        session: SessionId,
        end: Option<&EndPrincipal>,
        own: &mut Option<Rc<Principal>>,
    ) {
        let Some(record) = self.get_mut(key_of(session)) else { return };
        let known = own.take().or_else(|| record.principal.clone());
        let Some(known) = known else { return };
        // What it may itself says nothing of what others may.
        if let Some(rare) = &mut record.rare {
            rare.may_publish = None;
        }
        record.principal = match end {
            Some(end) => Some(Rc::new(Principal::relayed(end, &known))),
            None => Some(known.clone()),
        };
        *own = end.is_some().then_some(known);
    }
}
