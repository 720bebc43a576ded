//! The traces as one shard knows them, and the lines that it has for them.
//!
//! Relies on the board for which there are. Invariants: of a trace at most [`EVENTS_MAX`] lines a second are told; lines wait in bounded
//! number and bytes when the board cannot take them.

use std::net::IpAddr;
use std::sync::Arc;

use tiderace_base::{Now, SessionId};
use tiderace_broker::Principal;
use tiderace_topics::Path;
use tiderace_wire::TRACE;

use super::board::{Line, Running, TraceBoard};

/// Events of a trace that a shard tells in a second.
const EVENTS_MAX: u32 = 500;
/// Sessions of which it is known that they log in as somebody who is traced.
const LOGGING_IN_MAX: usize = 64;
/// Lines that wait for the board.
const WAITING_MAX: usize = 4_096;
/// Their bytes, but for the last.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Some of the traces, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen(u8);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ShardTraces {
    /// The number of the board when it was read.
    seen: u64,
    active: Vec<Active>,
    lines: Vec<Line>,
    /// Bytes of these.
    bytes: usize,
    /// Sessions that have said the name of somebody who is traced, and were not let in yet.
    logging_in: Vec<(SessionId, Chosen)>,
}

#[derive(Debug)]
struct Active {
    running: Arc<Running>,
    /// Which part of an event of messages is due.
    due: f64,
    second: u64,
    in_second: u32,
}

/// Who does something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doer<'a> {
    pub(crate) session: SessionId,
    pub(crate) address: IpAddr,
    pub(crate) principal: Option<&'a Principal>,
}

impl Chosen {
    /// Whether it is none of them.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl ShardTraces {
    /// Whether anything is traced: all else is asked only then.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        !self.active.is_empty()
    }

    /// Reads the board, if that has changed.
    #[inline]
    pub(crate) fn look(&mut self, board: &TraceBoard) {
        let changes = board.changes();
        if changes != self.seen {
            self.seen = changes;
            self.read(board);
        }
    }

    #[cold]
    fn read(&mut self, board: &TraceBoard) {
        let before = std::mem::take(&mut self.active);
        let known = |running: Arc<Running>| {
            let known = before.iter().find(|it| it.running.id == running.id);
            // The first event is told.
            let due = 1.0 - running.request.sample;
            let (due, second, in_second) =
                known.map_or((due, 0, 0), |it| (it.due, it.second, it.in_second));
            Active { running, due, second, in_second }
        };
        self.active = board.running().into_iter().map(known).collect();
        // Places are others now.
        for (_, chosen) in &mut self.logging_in {
            let ids = before.iter().enumerate().filter(|(place, _)| chosen.0 & 1 << place != 0);
            let ids: Vec<u64> = ids.map(|(_, it)| it.running.id).collect();
            let places = self.active.iter().enumerate();
            let places = places.filter(|(_, it)| ids.contains(&it.running.id));
            *chosen = Chosen(places.fold(0, |set, (place, _)| set | 1 << place));
        }
        self.logging_in.retain(|(_, chosen)| !chosen.is_none());
    }

    /// The traces of a session.
    pub(crate) fn of(&self, doer: Doer<'_>) -> Chosen {
        let called = |name: &str| doer.principal.is_some_and(|it| it.is_called(name));
        let chosen = self.of_called(doer, called);
        if doer.principal.is_some() {
            return chosen;
        }
        let said = self.logging_in.iter().find(|(session, _)| *session == doer.session);
        Chosen(chosen.0 | said.map_or(0, |(_, chosen)| chosen.0))
    }

    /// A session that is nobody yet says under which name it wants to log in.
    pub(crate) fn note_login(&mut self, doer: Doer<'_>, name: &str) {
        let chosen = self.of_called(doer, |traced| traced == name);
        self.forget_login(doer.session);
        if !chosen.is_none() {
            if self.logging_in.len() == LOGGING_IN_MAX {
                self.logging_in.remove(0);
            }
            self.logging_in.push((doer.session, chosen));
        }
    }

    /// It is somebody now, or has ended.
    pub(crate) fn forget_login(&mut self, session: SessionId) {
        self.logging_in.retain(|(known, _)| *known != session);
    }

    fn of_called(&self, doer: Doer<'_>, is_called: impl Fn(&str) -> bool) -> Chosen {
        self.choose(|running| {
            let request = &running.request;
            request.session.is_none_or(|session| session == doer.session)
                && request.address.is_none_or(|network| network.contains(doer.address))
                && request.principal.as_deref().is_none_or(&is_called)
        })
    }

    /// Those of them that say whose sessions are meant.
    pub(crate) fn of_sessions(&self, chosen: Chosen) -> Chosen {
        self.among(chosen, |running| running.request.chooses_sessions())
    }

    /// Those of them that tell of what is about no destination.
    pub(crate) fn of_all(&self, chosen: Chosen) -> Chosen {
        self.among(chosen, |running| running.request.paths.is_empty())
    }

    /// Those of them that tell of that destination. No trace tells of traces.
    pub(crate) fn about(&self, chosen: Chosen, path: &Path) -> Chosen {
        let below = path.as_str().strip_prefix(TRACE);
        if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Chosen::default();
        }
        self.among(chosen, |running| {
            let paths = &running.request.paths;
            paths.is_empty() || paths.iter().any(|pattern| pattern.matches(path))
        })
    }

    /// Those of them of whose events of messages it is this one's turn.
    pub(crate) fn sampled(&mut self, chosen: Chosen) -> Chosen {
        let mut sampled = Chosen::default();
        for (place, active) in self.active.iter_mut().enumerate() {
            if chosen.0 & 1 << place == 0 {
                continue;
            }
            active.due += active.running.request.sample;
            if active.due >= 1.0 {
                active.due -= 1.0;
                sampled.0 |= 1 << place;
            }
        }
        sampled
    }

    /// Those of them that take one more event: what comes too fast is left out, and counted.
    pub(crate) fn admit(&mut self, now: Now, chosen: Chosen) -> Chosen {
        let second = now.wall_ms / 1_000;
        let is_full = self.lines.len() >= WAITING_MAX || self.bytes >= WAITING_BYTES_MAX;
        let mut admitted = Chosen::default();
        for (place, active) in self.active.iter_mut().enumerate() {
            if chosen.0 & 1 << place == 0 {
                continue;
            }
            if active.second != second {
                (active.second, active.in_second) = (second, 0);
            }
            if active.in_second >= EVENTS_MAX || is_full {
                active.running.leave_out();
                continue;
            }
            active.in_second += 1;
            admitted.0 |= 1 << place;
        }
        admitted
    }

    /// Tells an event of each of them, which take it; the line may depend on the trace.
    pub(crate) fn tell(&mut self, chosen: Chosen, line: impl Fn(&Running) -> Box<[u8]>) {
        for (place, active) in self.active.iter().enumerate() {
            if chosen.0 & 1 << place != 0 {
                let line = line(&active.running);
                self.bytes += line.len();
                self.lines.push((active.running.clone(), line));
            }
        }
    }

    /// Gives the board what was told.
    #[inline]
    pub(crate) fn hand_over(&mut self, board: &TraceBoard) {
        if self.lines.capacity() > 0 {
            self.hand_over_some(board);
        }
    }

    #[cold]
    fn hand_over_some(&mut self, board: &TraceBoard) {
        if !self.lines.is_empty() {
            board.take_in(&mut self.lines);
            self.bytes = self.lines.iter().map(|(_, line)| line.len()).sum();
        }
        if self.lines.is_empty() && self.active.is_empty() {
            self.lines = Vec::new();
        }
    }

    fn choose(&self, wants: impl Fn(&Running) -> bool) -> Chosen {
        let mut chosen = Chosen::default();
        for (place, active) in self.active.iter().enumerate() {
            if wants(&active.running) {
                chosen.0 |= 1 << place;
            }
        }
        chosen
    }

    fn among(&self, chosen: Chosen, wants: impl Fn(&Running) -> bool) -> Chosen {
        if chosen.is_none() {
            return chosen;
        }
        Chosen(chosen.0 & self.choose(wants).0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_base::ShardId;
    use tiderace_topics::Pattern;
    use tiderace_wire::TraceRequest;

    use super::super::board::tests::{at, begin, request};
    use super::*;

    fn doer(principal: Option<&Principal>) -> Doer<'_> {
        let session = SessionId { shard: ShardId(0), slot: 17, generation: 1 };
        Doer { session, address: "10.1.2.3".parse().unwrap(), principal }
    }

    fn with(requests: &[TraceRequest]) -> (ShardTraces, TraceBoard) {
        let (mut traces, board) = (ShardTraces::default(), TraceBoard::default());
        assert!(!traces.are_on());
        requests.iter().for_each(|request| begin(&board, at(0), request.clone()));
        traces.look(&board);
        assert!(traces.are_on());
        (traces, board)
    }

    fn told(traces: &mut ShardTraces, chosen: Chosen, millisecond: u64) -> usize {
        let before = traces.lines.len();
        let chosen = traces.admit(at(millisecond), chosen);
        traces.tell(chosen, |_| Box::default());
        traces.lines.len() - before
    }

    #[test]
    fn a_session_is_traced_if_all_holds_that_is_given() {
        let (ann, bob) = (Principal::named("ann"), Principal::named("bob"));
        let here = TraceRequest { address: Some("10.0.0.0/8".parse().unwrap()), ..request(1.0) };
        let elsewhere =
            TraceRequest { address: Some("11.0.0.0/8".parse().unwrap()), ..request(1.0) };
        let by_id =
            TraceRequest { session: Some(doer(None).session), principal: None, ..request(1.0) };
        let (traces, _) = with(&[request(1.0), here, elsewhere, by_id]);
        assert_eq!(traces.of(doer(Some(&ann))), Chosen(0b1011));
        assert_eq!(traces.of(doer(Some(&bob))), Chosen(0b1000));
        assert_eq!(traces.of(doer(None)), Chosen(0b1000));
    }

    #[test]
    fn who_says_the_name_of_somebody_traced_is_traced_until_it_is_somebody() {
        let (mut traces, board) = with(&[request(1.0)]);
        traces.note_login(doer(None), "bob");
        assert!(traces.of(doer(None)).is_none());
        traces.note_login(doer(None), "ann");
        assert_eq!(traces.of(doer(None)), Chosen(1));
        assert!(traces.of(doer(Some(&Principal::named("bob")))).is_none());
        traces.forget_login(doer(None).session);
        assert!(traces.of(doer(None)).is_none());
        for slot in 0..200 {
            let session = SessionId { slot, ..doer(None).session };
            traces.note_login(Doer { session, ..doer(None) }, "ann");
        }
        assert_eq!(traces.logging_in.len(), LOGGING_IN_MAX);
        let last = SessionId { slot: 199, ..doer(None).session };
        let of_last = |traces: &ShardTraces| traces.of(Doer { session: last, ..doer(None) });
        assert_eq!(of_last(&traces), Chosen(1), "the newest are known");
        // Another trace that begins makes nobody forgotten; one that ends does.
        begin(&board, at(0), TraceRequest { principal: Some("bob".into()), ..request(1.0) });
        traces.look(&board);
        assert_eq!(of_last(&traces), Chosen(1));
        board.end(1);
        traces.look(&board);
        assert!(traces.logging_in.is_empty());
    }

    #[test]
    fn a_trace_of_paths_tells_of_these_and_none_of_traces() {
        let paths = |text| vec![Pattern::parse(text).unwrap()];
        let of = |paths| TraceRequest { principal: None, paths, ..request(1.0) };
        let (traces, _) = with(&[of(paths("fx/**")), request(1.0), of(paths("$sys/trace/*"))]);
        let all = Chosen(0b111);
        let about = |path| traces.about(all, &Path::parse(path).unwrap());
        assert_eq!(about("fx/a"), Chosen(0b011));
        assert_eq!(about("b"), Chosen(0b010));
        assert_eq!(about("$sys/trace/1"), Chosen(0));
        assert_eq!(about("$sys/tracex"), Chosen(0b010));
        assert_eq!(traces.of_sessions(all), Chosen(0b010));
        assert_eq!(traces.of_all(all), Chosen(0b010));
    }

    #[test]
    fn a_sample_is_that_share_and_begins_with_the_first() {
        let (mut traces, _) = with(&[request(0.25), request(1.0)]);
        let sampled: Vec<u8> = (0..8).map(|_| traces.sampled(Chosen(0b11)).0).collect();
        assert_eq!(sampled, [3, 2, 2, 2, 3, 2, 2, 2]);
        assert!(traces.sampled(Chosen(0)).is_none());
    }

    #[test]
    fn what_comes_too_fast_is_left_out_and_counted() {
        let (mut traces, board) = with(&[request(1.0)]);
        let all = Chosen(1);
        let in_first: usize = (0..600).map(|_| told(&mut traces, all, 100)).sum();
        assert_eq!(in_first, EVENTS_MAX as usize);
        assert_eq!(told(&mut traces, all, 1_100), 1, "a second later");
        traces.hand_over(&board);
        assert!(traces.lines.is_empty());
        let news = board.collect(at(1_200));
        let said = String::from_utf8(news.lines.last().unwrap().1.to_vec()).unwrap();
        assert!(said.contains(r#""event":"left-out","count":100"#), "{said}");
        board.end(1);
        traces.look(&board);
        assert!(!traces.are_on());
        traces.hand_over(&board);
        assert_eq!(traces.lines.capacity(), 0, "nothing is kept");
    }
}
