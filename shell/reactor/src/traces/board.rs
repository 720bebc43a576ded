//! The traces of a node, and the lines that are on their way to their topics.
//!
//! Relies on shards to look whether it has changed, and on one session of the server's to collect what there is. Invariants: there are
//! at most [`TRACES_MAX`] traces; those of each keep to [`LINES_MAX`] and [`BYTES_MAX`], so that none takes the room of another; a topic is
//! removed some time after its trace has ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tiderace_base::{Close, CloseCode, Now, Span, Time};
use tiderace_broker::Principal;
use tiderace_topics::Path;
use tiderace_wire::{
    OperationResult, TRACES_MAX, TraceEntry, TraceLine, TraceRequest, TraceResult,
};

use crate::waker::NodeAnswer;

/// Lines of a trace that may wait to be published.
const LINES_MAX: usize = 2_048;
/// Their bytes, but for the last.
const BYTES_MAX: usize = 1 << 20;
/// Lines that are published at once, of all traces together.
const COLLECTED_MAX: usize = 1_000;
/// Traces with those that are about to end.
const HELD_MAX: usize = 4 * TRACES_MAX;
/// How long a topic stays when its trace has ended.
const KEPT: Span = Span::from_secs(300);
/// Topics of traces that have ended, at most: the oldest go first.
const GONE_MAX: usize = 8;

/// An event, and the trace that it is of.
pub(crate) type Line = (Arc<Running>, Box<[u8]>);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct TraceBoard {
    /// Rises when other traces go on than before.
    changes: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number of the newest.
    last: u64,
    held: Vec<Held>,
    /// Topics that are to be removed, and when.
    gone: VecDeque<(Time, Path)>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Box<[u8]>>,
    bytes: usize,
}

/// A trace as shards see it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: u64,
    pub(crate) request: TraceRequest,
    /// Who may see what it shows of bodies.
    pub(crate) by: Principal,
    /// Events that were left out.
    left_out: AtomicU64,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Held {
    running: Arc<Running>,
    entry: TraceEntry,
    topic: Path,
    until: Time,
    /// Whether its topic is there, or on its way.
    has_topic: bool,
    /// Who waits for its topic to be there.
    answer: Option<NodeAnswer>,
    /// How many of those that were left out its topic says.
    told: u64,
    /// Why it ends, if it does.
    ends: Option<&'static str>,
    /// Whether shards have had the time of a look to hand over what they had told of it until then.
    is_last: bool,
}

/// What is to be done with the topics of traces.
#[derive(Debug, Default)]
pub struct TraceNews {
    /// Topics that are to be made, with the numbers of their traces.
    pub begun: Vec<(u64, Path)>,
    /// Events, in order.
    pub lines: Vec<(Path, Box<[u8]>)>,
    /// Topics that are to be removed.
    pub removed: Vec<Path>,
}

impl TraceBoard {
    /// Rises when other traces go on.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Those that go on.
    pub(crate) fn running(&self) -> Vec<Arc<Running>> {
        let table = self.table();
        let running = table.held.iter().filter(|held| held.ends.is_none());
        running.map(|held| held.running.clone()).collect()
    }

    /// Begins one whose topic is found by its number. It is answered when that topic is there, unless it does not begin.
    pub(crate) fn begin(
        &self,
        now: Now,
        request: TraceRequest,
        by: Principal,
        (topic, answer): (impl FnOnce(u64) -> Result<Path, Close>, NodeAnswer),
    ) {
        let mut table = self.table();
        let running = table.held.iter().filter(|held| held.ends.is_none()).count();
        if running >= TRACES_MAX || table.held.len() >= HELD_MAX {
            let reason = format!(
                "{TRACES_MAX} traces go on already, as many as may; end one of them, or wait for its end"
            );
            return answer.tell(Err(Close::new(CloseCode::RateLimited, reason)));
        }
        let id = table.last + 1;
        let topic = match topic(id) {
            Ok(topic) => topic,
            Err(close) => return answer.tell(Err(close)),
        };
        table.last = id;
        let until_ms = now.wall_ms + u64::try_from(request.lasts.as_millis()).unwrap_or(0);
        let until = now.time + request.lasts;
        let entry = TraceEntry {
            id,
            topic: topic.as_str().into(),
            what: request.to_string().into(),
            since_ms: now.wall_ms,
            until_ms,
            by: by.name.clone(),
            left_out: 0,
        };
        let (left_out, lines) = (AtomicU64::new(0), Mutex::default());
        table.held.push(Held {
            running: Arc::new(Running { id, request, by, left_out, lines }),
            entry,
            topic,
            until,
            has_topic: false,
            answer: Some(answer),
            told: 0,
            ends: None,
            is_last: false,
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The topic of a trace is there, or there is none, and so no trace.
    pub(crate) fn topic_made(&self, id: u64, made: Result<(), Close>) {
        let mut table = self.table();
        let Some(at) = table.held.iter().position(|held| held.running.id == id) else { return };
        let Some(held) = table.held.get_mut(at) else { return };
        let answer = held.answer.take();
        let TraceEntry { topic, until_ms, .. } = held.entry.clone();
        let result = made.map(|()| TraceResult::Begun { id, topic, until_ms });
        if result.is_err() {
            table.held.remove(at);
            self.changes.fetch_add(1, Ordering::Release);
        }
        if let Some(answer) = answer {
            answer.tell(result.map(|result| OperationResult::Traces(Box::new(result))));
        }
    }

    /// Those that go on, for people.
    pub(crate) fn list(&self) -> TraceResult {
        let table = self.table();
        let running = table.held.iter().filter(|held| held.ends.is_none());
        let entry = |held: &Held| TraceEntry { left_out: held.left_out(), ..held.entry.clone() };
        TraceResult::List(running.map(entry).collect())
    }

    /// Ends one.
    pub(crate) fn end(&self, id: u64) -> TraceResult {
        let mut table = self.table();
        let mut running = table.held.iter_mut().filter(|held| held.ends.is_none());
        let found = running.find(|held| held.running.id == id);
        let traces = u64::from(found.is_some());
        if let Some(held) = found {
            held.ends = Some("asked");
            self.changes.fetch_add(1, Ordering::Release);
        }
        TraceResult::Ended { traces }
    }

    /// Ends those of whose asker that holds.
    pub(crate) fn end_where(&self, is_over: impl Fn(&Principal) -> bool) {
        let mut table = self.table();
        for held in table.held.iter_mut().filter(|it| it.ends.is_none()) {
            if is_over(&held.running.by) {
                held.ends = Some("rights");
                self.changes.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Takes lines of a shard, unless somebody else is at those of that trace: then the shard tries it again in its next turn. What is more than
    /// may wait is left out.
    pub(crate) fn take_in(&self, told: &mut Vec<Line>) {
        told.retain_mut(|(running, line)| !running.take_in(line));
    }

    /// What is to be done now. For the one session that does it.
    pub(crate) fn collect(&self, now: Now) -> TraceNews {
        let mut news = TraceNews::default();
        let mut table = self.table();
        while table.gone.front().is_some_and(|(at, _)| *at <= now.time) {
            news.removed.extend(table.gone.pop_front().map(|(_, path)| path));
        }
        if table.held.is_empty() {
            return news;
        }
        let Table { held, gone, .. } = &mut *table;
        for trace in held.iter_mut().filter(|trace| !trace.has_topic) {
            trace.has_topic = true;
            news.begun.push((trace.running.id, trace.topic.clone()));
        }
        // Each has its part of what is published at once.
        let most = COLLECTED_MAX / held.len();
        let mut over = Vec::new();
        for (place, trace) in held.iter_mut().enumerate() {
            let is_drained = trace.running.hand_out(most, |line| {
                news.lines.push((trace.topic.clone(), line));
            });
            trace.tell_left_out(now, &mut news);
            // One whose topic is not there yet has somebody who waits for it.
            if trace.is_last && is_drained && trace.answer.is_none() {
                over.push(place);
            }
            trace.is_last = trace.ends.is_some();
        }
        for place in over.into_iter().rev() {
            let trace = held.remove(place);
            let why = trace.ends.unwrap_or_default();
            let line = TraceLine::new(now.wall_ms, "trace-ended").text("why", why).end();
            news.lines.push((trace.topic.clone(), line));
            gone.push_back((now.time + KEPT, trace.topic));
            if gone.len() > GONE_MAX {
                news.removed.extend(gone.pop_front().map(|(_, path)| path));
            }
        }
        // Shards tell nothing more of them, and what they have told comes with the next look.
        for trace in held.iter_mut().filter(|it| it.ends.is_none() && it.until <= now.time) {
            trace.ends = Some("time");
            self.changes.fetch_add(1, Ordering::Release);
        }
        news
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// An event is not told.
    pub(crate) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a line, unless somebody else is at those that wait: nobody is waited for. Whether it is done with.
    fn take_in(&self, line: &mut Box<[u8]>) -> bool {
        let Some(mut lines) = self.try_lines() else { return false };
        if lines.waiting.len() < LINES_MAX && lines.bytes < BYTES_MAX {
            lines.bytes += line.len();
            lines.waiting.push_back(std::mem::take(line));
        } else {
            self.leave_out();
        }
        true
    }

    /// Hands out lines that wait, at most so many. Whether there are no more.
    fn hand_out(&self, most: usize, mut to: impl FnMut(Box<[u8]>)) -> bool {
        let Some(mut lines) = self.try_lines() else { return false };
        let count = lines.waiting.len().min(most);
        let taken: Vec<_> = lines.waiting.drain(..count).collect();
        lines.bytes -= taken.iter().map(|line| line.len()).sum::<usize>();
        taken.into_iter().for_each(&mut to);
        lines.waiting.is_empty()
    }

    fn try_lines(&self) -> Option<MutexGuard<'_, Lines>> {
        match self.lines.try_lock() {
            Ok(lines) => Some(lines),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Held {
    fn left_out(&self) -> u64 {
        self.running.left_out.load(Ordering::Relaxed)
    }

    fn tell_left_out(&mut self, now: Now, news: &mut TraceNews) {
        let left_out = self.left_out();
        if left_out > self.told {
            let count = left_out - self.told;
            let line = TraceLine::new(now.wall_ms, "left-out").number("count", count).end();
            news.lines.push((self.topic.clone(), line));
            self.told = left_out;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use tiderace_base::{SessionId, ShardId};

    use super::*;
    use crate::waker::{Asked, Waker};

    pub(in crate::traces) fn at(millisecond: u64) -> Now {
        Now { time: Time::ZERO + Span::from_millis(millisecond), wall_ms: millisecond }
    }

    pub(in crate::traces) fn request(sample: f64) -> TraceRequest {
        TraceRequest {
            session: None,
            principal: Some("ann".into()),
            address: None,
            paths: Vec::new(),
            lasts: Span::from_secs(1),
            sample,
            bodies: 0,
        }
    }

    pub(in crate::traces) fn begin(board: &TraceBoard, now: Now, request: TraceRequest) {
        let session = SessionId { shard: ShardId(0), slot: 0, generation: 0 };
        let wakers: Arc<[Waker]> = Arc::from(Vec::new());
        let answer = NodeAnswer::new(Asked { link: 0, session, token: 0 }, None, wakers);
        let topic = |id| Ok(Path::parse(&format!("$sys/trace/{id}")).unwrap());
        board.begin(now, request, Principal::named("oli"), (topic, answer));
    }

    fn events(news: &TraceNews) -> Vec<String> {
        let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
        news.lines.iter().map(|(_, line)| text(line)).collect()
    }

    fn tell(board: &TraceBoard, count: usize) {
        let running = board.running();
        let line = || (running[0].clone(), Box::<[u8]>::from(&b"{}"[..]));
        board.take_in(&mut (0..count).map(|_| line()).collect());
    }

    #[test]
    fn a_trace_ends_by_itself_and_its_topic_goes_some_time_later() {
        let board = TraceBoard::default();
        begin(&board, at(0), request(1.0));
        let begun = board.collect(at(100)).begun;
        assert_eq!(begun, [(1, Path::parse("$sys/trace/1").unwrap())]);
        board.topic_made(1, Ok(()));
        tell(&board, 2);
        assert_eq!(events(&board.collect(at(200))), ["{}", "{}"]);
        let changes = board.changes();
        let running = board.running();
        assert_eq!(events(&board.collect(at(1_000))), [""; 0]);
        assert!(board.changes() > changes && board.running().is_empty());
        // What a shard hands over late is told still.
        assert_eq!(events(&board.collect(at(1_100))), [""; 0]);
        board.take_in(&mut vec![(running[0].clone(), Box::from(&b"{}"[..]))]);
        let ended = r#"{"time":1200,"event":"trace-ended","why":"time"}"#;
        assert_eq!(events(&board.collect(at(1_200))), ["{}", ended]);
        assert!(board.collect(at(301_199)).removed.is_empty());
        assert_eq!(board.collect(at(301_200)).removed, [begun[0].1.clone()]);
        assert!(board.table().gone.is_empty() && board.table().held.is_empty());
    }

    #[test]
    fn there_are_only_so_many_and_each_can_be_ended() {
        let board = TraceBoard::default();
        (0..TRACES_MAX + 3).for_each(|_| begin(&board, at(0), request(1.0)));
        assert_eq!(board.running().len(), TRACES_MAX);
        assert_eq!(board.end(3), TraceResult::Ended { traces: 1 });
        assert_eq!(board.end(3), TraceResult::Ended { traces: 0 });
        begin(&board, at(0), request(1.0));
        assert_eq!(board.running().len(), TRACES_MAX);
        let TraceResult::List(listed) = board.list() else { return };
        let ids: Vec<u64> = listed.iter().map(|trace| trace.id).collect();
        assert_eq!(ids, [1, 2, 4, 5, 6, 7, 8, 9]);
        // It ends when its topic is there and it was looked at once more, not before.
        board.collect(at(100));
        assert_eq!(events(&board.collect(at(200))), [""; 0]);
        board.topic_made(3, Ok(()));
        let news = board.collect(at(300));
        assert_eq!(events(&news), [r#"{"time":300,"event":"trace-ended","why":"asked"}"#]);
        // What has no topic is no trace.
        board.topic_made(5, Err(CloseCode::TooMuchWork.into()));
        assert_eq!(board.end(5), TraceResult::Ended { traces: 0 });
    }

    #[test]
    fn lines_wait_in_bounded_number_and_what_is_left_out_is_said() {
        let board = TraceBoard::default();
        begin(&board, at(0), request(1.0));
        tell(&board, LINES_MAX + 42);
        let news = board.collect(at(100));
        assert_eq!(news.lines.len(), COLLECTED_MAX + 1);
        let said = events(&news).pop().unwrap();
        assert_eq!(said, r#"{"time":100,"event":"left-out","count":42}"#);
        // It ends when all has been said.
        board.topic_made(1, Ok(()));
        board.end(1);
        let mut rest = 0;
        while !board.table().held.is_empty() {
            rest += board.collect(at(200)).lines.len();
        }
        assert_eq!(rest, LINES_MAX - COLLECTED_MAX + 1);
    }

    #[test]
    fn one_that_tells_much_keeps_no_other_from_being_told_or_from_its_end() {
        let board = TraceBoard::default();
        begin(&board, at(0), request(1.0));
        begin(&board, at(0), request(1.0));
        let running = board.running();
        let line = |of: usize| (running[of].clone(), Box::<[u8]>::from(&b"{}"[..]));
        board.take_in(&mut (0..LINES_MAX + 9).map(|_| line(0)).collect());
        board.take_in(&mut (0..3).map(|_| line(1)).collect());
        assert_eq!(board.collect(at(100)).lines.len(), COLLECTED_MAX / 2 + 1 + 3);
        board.topic_made(1, Ok(()));
        board.topic_made(2, Ok(()));
        board.end(2);
        board.collect(at(200));
        let ended = events(&board.collect(at(300)));
        assert!(ended.last().unwrap().contains("trace-ended"), "{ended:?}");
        assert_eq!(board.table().held.len(), 1);
        // What comes for one that is over is dropped with it.
        board.take_in(&mut vec![line(1)]);
        drop(running);
        assert_eq!(board.collect(at(400)).lines.len(), LINES_MAX - 3 * (COLLECTED_MAX / 2));
    }

    #[test]
    fn traces_of_who_may_not_any_more_end() {
        let board = TraceBoard::default();
        begin(&board, at(0), request(1.0));
        board.topic_made(1, Ok(()));
        board.end_where(|by| &*by.name == "ann");
        assert_eq!(board.running().len(), 1);
        board.end_where(|by| &*by.name == "oli");
        assert!(board.running().is_empty());
        board.collect(at(100));
        assert!(events(&board.collect(at(200)))[0].contains(r#""why":"rights""#));
    }

    #[test]
    fn topics_of_traces_that_have_ended_are_bounded() {
        let board = TraceBoard::default();
        let mut removed = 0;
        for _ in 0..3 * GONE_MAX {
            begin(&board, at(0), request(1.0));
            let id = board.table().last;
            board.topic_made(id, Ok(()));
            board.end(id);
            removed += board.collect(at(100)).removed.len();
            removed += board.collect(at(200)).removed.len();
        }
        assert_eq!((removed, board.table().gone.len()), (2 * GONE_MAX, GONE_MAX));
    }
}
