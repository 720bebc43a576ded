//! Who calls with the first message of an exchange, as a responder at another node is told.
//!
//! Relies on nothing. Invariant: a run that calls for nobody in particular takes no memory for it.

use std::sync::Arc;

use super::{Rare, Run};
use crate::EndPrincipal;

impl Run {
    /// Who calls with it, if it is a call that may be passed on to another node.
    pub fn caller(&self) -> Option<&Arc<EndPrincipal>> {
        self.rare.as_ref()?.caller.as_ref()
    }

    /// Says who calls with it; done before it is shared.
    pub fn set_caller(&mut self, caller: Arc<EndPrincipal>) {
        self.rare.get_or_insert_default().caller = Some(caller);
    }
}

impl Rare {
    /// Bytes of it, with what it refers to.
    pub(super) fn bytes(&self) -> usize {
        let caller = self.caller.as_ref().map_or(0, |caller| caller.bytes());
        let traced = self.traced.as_ref().map_or(0, |traced| traced.bytes());
        size_of::<Rare>() + caller + traced
    }

    /// Whether it says something besides the numbers of another node.
    pub(super) fn has_more(&self) -> bool {
        self.file.is_some() || self.caller.is_some() || self.traced.is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Destination, Kind};
    use tiderace_base::Time;
    use tiderace_topics::Path;

    #[test]
    fn a_caller_goes_with_its_call_and_counts() {
        let destination = Destination { kind: Kind::Service, path: Path::parse("a").unwrap() };
        let mut run = Run::single(destination.clone(), Time::ZERO, b"", b"x", Default::default());
        let before = run.bytes();
        assert!(run.caller().is_none());
        let claims = [("tenant".into(), "x".repeat(10_000).into())].into();
        let caller = EndPrincipal::new("ann".into(), [].into(), claims, false).unwrap();
        run.set_caller(caller.into());
        assert_eq!(run.caller().unwrap().name().as_ref(), "ann");
        assert!(run.bytes() > before + 10_000);
        // That it has no numbers of another node changes nothing of it.
        run.set_upstream(None);
        assert!(run.caller().is_some());
    }
}
