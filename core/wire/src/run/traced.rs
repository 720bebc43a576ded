//! Which messages of a run are traced.
//!
//! Relies on nothing. Invariant: a run without a traced message takes no memory for it.

use std::sync::Arc;

use super::Run;
use crate::Traced;

impl Run {
    /// Its messages that are traced, if there are any.
    #[inline]
    pub fn traced(&self) -> Option<&Arc<Traced>> {
        self.rare.as_ref()?.traced.as_ref()
    }

    /// Says which of its messages are traced; done before it is shared.
    pub fn set_traced(&mut self, traced: Arc<Traced>) {
        self.rare.get_or_insert_default().traced = Some(traced);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tiderace_base::Time;
    use tiderace_topics::Path;

    use super::*;
    use crate::{Destination, Kind, SpanContext, SpanId, TraceParent, TracedMessage};

    #[test]
    fn what_is_traced_goes_with_a_run_to_other_destinations_and_counts() {
        let of = |kind| Destination { kind, path: Path::parse("a").unwrap() };
        let mut run = Run::single(of(Kind::Topic), Time::ZERO, b"", b"x", Default::default());
        let before = run.bytes();
        assert!(run.traced().is_none());
        let text = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let TraceParent { trace, span, .. } = TraceParent::parse(text).unwrap();
        let context = SpanContext { trace, span: SpanId(span.0), parent: Some(span) };
        let messages = [TracedMessage { index: 0, bytes: 1, context }].into();
        let traced = Arc::new(Traced { published: Time::ZERO, protocol: "stomp", messages });
        run.set_traced(traced.clone());
        assert!(run.bytes() >= before + size_of::<Traced>() + size_of::<TracedMessage>());
        // That it has no numbers of another node changes nothing of it.
        run.set_upstream(None);
        assert_eq!(run.traced(), Some(&traced));
        assert_eq!(run.shared_with(of(Kind::Queue)).traced(), Some(&traced));
    }
}
