//! What a broker wants done.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{
    Audited, Credentials, Destination, Operation, Reply, SharedRun, Token, Traced,
};

use crate::messages::Envelope;
use crate::spans::SpanFact;

/// What is to be done after a call; the caller drains it completely before the next call.
///
/// `u32`s are the links given to [`crate::Broker::open`]. An effect for a session that has ended
/// meanwhile is to be ignored.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers for sessions.
    pub replies: Vec<(u32, SessionId, Reply)>,
    /// Sessions that have something to deliver and had nothing before.
    pub ready: Vec<(u32, SessionId)>,
    /// Messages for other shards; their order between two shards is to be kept.
    pub messages: Vec<Envelope>,
    /// Credentials to be verified off the shard; the answer goes to [`crate::Broker::verified`].
    pub verify: Vec<(SessionId, Credentials)>,
    /// Connections to stop reading.
    pub pause: Vec<(u32, SessionId)>,
    /// Connections to read again.
    pub resume: Vec<(u32, SessionId)>,
    /// What is asked of the node, and what is to be recorded of what sessions ask: before any answer of the same call.
    pub node: Vec<NodeEffect>,
    /// Connections to end.
    pub close: Vec<(u32, SessionId, Close)>,
    /// What has become of messages that are traced; nothing follows from it, so it may wait until the turn ends.
    pub spans: Vec<SpanFact>,
}

/// Something for who runs the node.
#[derive(Debug)]
pub enum NodeEffect {
    /// A session has asked for a change that is to be recorded with what comes of it.
    Change(Box<AskedChange>),
    /// The node is asked for something: the answer goes to the session, to which its token belongs.
    Ask(AskNode),
}

/// A change that a session has asked for.
#[derive(Debug)]
pub struct AskedChange {
    /// The session's link.
    pub link: u32,
    /// The session.
    pub session: SessionId,
    /// Under which token it is to be answered.
    pub token: Token,
    /// Who asks; of a virtual host: `@HOST/NAME`.
    pub who: Arc<str>,
    /// The other node that passes that on, if one does.
    pub via: Option<Arc<str>>,
    /// What is asked for.
    pub what: Audited,
}

/// Something that a session asks of the node as a whole.
#[derive(Debug)]
pub struct AskNode {
    /// The session's link.
    pub link: u32,
    /// Who asks.
    pub session: SessionId,
    /// Under which token it is to be answered.
    pub token: Token,
    /// What for.
    pub operation: Operation,
    /// Whether the session may; the error is the answer if not.
    pub allowed: Result<(), Close>,
}

impl Effects {
    /// Whether nothing is to be done, but for spans.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
            && self.ready.is_empty()
            && self.messages.is_empty()
            && self.verify.is_empty()
            && self.pause.is_empty()
            && self.resume.is_empty()
            && self.node.is_empty()
            && self.close.is_empty()
    }
}

impl Effects {
    /// Messages have been taken by their home, or refused.
    #[inline]
    pub(crate) fn note_published(
        &mut self,
        traced: Option<(Arc<Traced>, Destination)>,
        refused: Option<CloseCode>,
    ) {
        if let Some((traced, destination)) = traced {
            self.spans.push(SpanFact::Published { traced, destination, refused });
        }
    }

    /// A run waits in the backlogs that it has been put into, each of which holds it, as does who says so.
    #[inline]
    pub(crate) fn note_fanned_out(&mut self, run: &Rc<SharedRun>) {
        if run.run().traced().is_some() {
            let deliveries = Rc::strong_count(run) - 1;
            self.note_delivering(run, 0..run.run().len() as u32, deliveries, 0);
        }
    }

    /// Messages of a queue wait for a consumer.
    #[inline]
    pub(crate) fn note_handed(
        &mut self,
        run: &Rc<SharedRun>,
        range: Range<u32>,
        redeliveries: u32,
    ) {
        if run.run().traced().is_some() {
            self.note_delivering(run, range, 1, redeliveries);
        }
    }

    #[cold]
    fn note_delivering(
        &mut self,
        run: &Rc<SharedRun>,
        range: Range<u32>,
        deliveries: usize,
        redeliveries: u32,
    ) {
        if let Some(traced) = run.run().traced().filter(|_| deliveries > 0) {
            self.spans.push(SpanFact::Delivering {
                traced: traced.clone(),
                destination: run.run().destination().clone(),
                range,
                deliveries,
                redeliveries,
                run: Rc::downgrade(run),
            });
        }
    }

    /// A call is over, which may be traced.
    #[inline]
    pub(crate) fn note_called(
        &mut self,
        traced: Option<Arc<Traced>>,
        service: &Path,
        ended: Option<CloseCode>,
    ) {
        if let Some(traced) = traced {
            self.spans.push(SpanFact::Called { traced, service: service.clone(), ended });
        }
    }
}
