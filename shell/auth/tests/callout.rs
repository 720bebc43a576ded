//! Logins that another server is asked about: what is asked, what is remembered, and what a server that is slow, wrong or
//! away costs whom.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tiderace_auth::callout::{
    Callout, CalloutCounters, CalloutLimits, CalloutOptions, CalloutProfile, Post, Reply,
    Unanswered,
};
use tiderace_auth::{
    AnonymousAccess, AuthHandle, AuthWorker, FailurePolicy, LoginError, LoginRequest,
    PasswordRecord, Principal, TokenRecord, TokenSecret, UserRecord, Verifier,
};
use tiderace_wire::Credentials;

type Verdict = Result<Principal, LoginError>;
type Replies = Sender<(usize, Verdict)>;

fn options() -> CalloutOptions {
    CalloutOptions {
        limits: CalloutLimits { in_flight_max: 4, waiting_max: 64, entries_max: 100 },
        accepted_time: Duration::from_secs(600),
        refused_time: Duration::from_secs(600),
        unanswered_time: Duration::from_secs(600),
        unanswered: Unanswered::Deny,
        profile: CalloutProfile {
            claims: vec!["tenant".to_owned()],
            groups: vec!["web".to_owned()],
            host: None,
        },
        failures: FailurePolicy { failures_max: 3, window: Duration::from_secs(3_600) },
    }
}

/// A worker that knows bob and a token, and asks about all others.
fn worker(options: CalloutOptions, post: Post) -> (AuthWorker, Arc<CalloutCounters>) {
    let bob = UserRecord {
        name: "bob".to_owned(),
        password: PasswordRecord::Plain("swordfish".to_owned()),
        groups: Vec::new(),
        host: None,
    };
    let token = TokenRecord {
        name: "feed".to_owned(),
        secret: TokenSecret::Plain("0123456789abcdef".to_owned()),
        principal: "feed".to_owned(),
        groups: Vec::new(),
        host: None,
        until: None,
    };
    let verifier = Verifier::new([bob], [token], AnonymousAccess::Refused).unwrap().with_callout();
    let worker = AuthWorker::start(Arc::new(verifier), FailurePolicy::default(), 64).unwrap();
    let counters = Arc::new(CalloutCounters::default());
    let callout = Callout::start(options, post, Box::new(|_| ()), counters.clone()).unwrap();
    (worker.with_callout(callout), counters)
}

fn password(user: &str, password: &str) -> Credentials {
    Credentials {
        login: Some(user.to_owned()),
        passcode: Some(password.to_owned()),
        ..Credentials::default()
    }
}

fn token(token: &str) -> Credentials {
    Credentials { token: Some(token.to_owned()), ..Credentials::default() }
}

fn submit(
    handle: &AuthHandle,
    credentials: Credentials,
    from: [u8; 4],
    number: usize,
    to: &Replies,
) {
    let to = to.clone();
    let answer = Box::new(move |verdict| to.send((number, verdict)).unwrap());
    let request = LoginRequest {
        protocol: "stomp",
        is_secured: true,
        ..LoginRequest::new(credentials, IpAddr::from(from), answer)
    };
    handle.submit(request).unwrap();
}

fn login(handle: &AuthHandle, credentials: Credentials) -> Verdict {
    let (to, from) = channel();
    submit(handle, credentials, [10, 0, 0, 1], 0, &to);
    from.recv().unwrap().1
}

fn reply(status: u16, body: &Value) -> Result<Reply, String> {
    Ok(Reply { status, body: body.to_string() })
}

/// Accepts everybody whose password or token is "right".
fn judge(question: &str) -> Result<Reply, String> {
    let question: Value = serde_json::from_str(question).unwrap();
    let secret = question.get("password").or(question.get("token")).and_then(Value::as_str);
    match secret {
        Some("right") => reply(
            200,
            &json!({"allow": true, "user": question.get("user").cloned().unwrap_or("ann".into())}),
        ),
        _ => reply(200, &json!({"allow": false, "reason": "no such account"})),
    }
}

#[test]
fn what_is_not_known_here_is_asked_elsewhere_and_remembered() {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let questions = asked.clone();
    let post: Post = Box::new(move |question| {
        questions.lock().unwrap().push(serde_json::from_str(question).unwrap());
        reply(
            200,
            &json!({"allow": true, "user": "ann", "groups": ["staff"], "claims": {"tenant": "acme", "x": 1}}),
        )
    });
    let (worker, counters) = worker(options(), post);
    let handle = worker.handle();
    assert_eq!(login(&handle, password("bob", "swordfish")).unwrap().to_string(), "bob");
    assert_eq!(login(&handle, token("0123456789abcdef")).unwrap().to_string(), "feed");
    assert_eq!(login(&handle, password("bob", "wrong")), Err(LoginError::Refused));
    assert!(asked.lock().unwrap().is_empty(), "who is known here is not asked about");
    let ann = login(&handle, password("ANN", "pw")).unwrap();
    let claims: Vec<(&str, &str)> =
        ann.claims().iter().map(|(name, value)| (&**name, &**value)).collect();
    let groups: Vec<&str> = ann.groups().iter().map(|group| &**group).collect();
    assert_eq!(
        (ann.to_string().as_str(), groups, claims),
        ("ann", vec!["web", "staff"], vec![("tenant", "acme")])
    );
    for _ in 0..3 {
        assert_eq!(login(&handle, password("ANN", "pw")), Ok(ann.clone()));
        assert!(login(&handle, token("opaque")).is_ok());
    }
    assert!(login(&handle, password("ANN", "other")).is_ok());
    let common = json!({"protocol": "stomp", "address": "10.0.0.1", "tls": true});
    let with = |own: Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        all
    };
    let expected = [
        with(json!({"kind": "password", "user": "ANN", "password": "pw"})),
        with(json!({"kind": "token", "token": "opaque"})),
        with(json!({"kind": "password", "user": "ANN", "password": "other"})),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(counters.cached.load(Ordering::Relaxed), 5);
}

#[test]
fn an_answer_may_forbid_to_remember_it_and_a_refusal_says_why() {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = count.clone();
    let post: Post = Box::new(move |question| {
        asked.fetch_add(1, Ordering::Relaxed);
        if question.contains("once") {
            return reply(200, &json!({"allow": true, "user": "ann", "cache": 0}));
        }
        if question.contains("expired") {
            return reply(200, &json!({"allow": true, "user": "ann", "expires": 1}));
        }
        judge(question)
    });
    let (worker, _) = worker(options(), post);
    let handle = worker.handle();
    for _ in 0..2 {
        assert!(login(&handle, token("once")).is_ok());
    }
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(login(&handle, token("expired")), Err(LoginError::Expired));
    let refused = login(&handle, password("eve", "x")).unwrap_err();
    assert_eq!(refused.to_string(), "no such account");
    assert!(matches!(refused, LoginError::RefusedFor(_)));
    // Guessing is stopped, whether a refusal is remembered or not, and for that name from that address alone.
    for number in 0..2 {
        assert!(login(&handle, password("eve", &number.to_string())).is_err());
    }
    assert_eq!(login(&handle, password("eve", "right")), Err(LoginError::TooManyFailures));
    assert!(login(&handle, password("ann", "right")).is_ok());
    let (to, from) = channel();
    submit(&handle, password("eve", "right"), [10, 0, 0, 2], 0, &to);
    assert!(from.recv().unwrap().1.is_ok());
}

/// A server whose answers wait for the test.
struct Held {
    entered: Receiver<()>,
    release: Sender<()>,
}

fn held(of: impl Fn(&str) -> bool + Send + Sync + 'static) -> (Post, Held) {
    let (inside, entered) = channel();
    let (release, gate) = channel::<()>();
    let (inside, gate) = (Mutex::new(inside), Mutex::new(gate));
    let post: Post = Box::new(move |question| {
        if of(question) {
            let _ = inside.lock().unwrap().send(());
            let _ = gate.lock().unwrap().recv();
        }
        judge(question)
    });
    (post, Held { entered, release })
}

#[test]
fn equal_questions_are_asked_once_and_everybody_is_told() {
    let (post, held) = held(|_| true);
    let (worker, counters) = worker(options(), post);
    let handle = worker.handle();
    let (to, from) = channel();
    for number in 0..10 {
        submit(&handle, password("ann", "right"), [10, 0, 0, 1], number, &to);
    }
    held.entered.recv().unwrap();
    held.release.send(()).unwrap();
    let mut told: Vec<usize> = from
        .iter()
        .take(10)
        .map(|(number, verdict)| {
            verdict.unwrap();
            number
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, (0..10).collect::<Vec<_>>());
    assert_eq!(counters.answered.load(Ordering::Relaxed), 1);
    assert_eq!(counters.coalesced.load(Ordering::Relaxed), 9);
}

#[test]
fn a_flood_from_one_address_leaves_threads_and_places_to_others() {
    let (post, held) = held(|question| question.contains("flood"));
    let (worker, counters) = worker(options(), post);
    let handle = worker.handle();
    let (to, from) = channel();
    for number in 0..200 {
        submit(&handle, token(&format!("flood {number}")), [192, 0, 2, 1], 999, &to);
    }
    let busy = counters.busy.load(Ordering::Relaxed);
    assert!(busy >= 168, "{busy}: half of the places are left to others");
    // The threads that the flood may have are all held, by a server that does not answer.
    held.entered.recv().unwrap();
    held.entered.recv().unwrap();
    let (honest, told) = channel();
    for number in 0..20 {
        let from = [10, 0, 0, u8::try_from(number).unwrap()];
        submit(&handle, password(&format!("user{number}"), "right"), from, number, &honest);
        assert!(told.recv().unwrap().1.is_ok(), "{number}");
    }
    assert!(held.entered.try_recv().is_err(), "the flood has two of four threads");
    // Neither passwords nor tokens that are known here wait for any of it.
    assert!(login(&handle, password("bob", "swordfish")).is_ok());
    assert!(login(&handle, token("0123456789abcdef")).is_ok());
    drop(held);
    drop(to);
    let refused = from.iter().take(200).filter(|(_, verdict)| verdict.is_err()).count();
    assert_eq!(refused, 200, "everybody is told");
}

/// Lets the server go away, and come back.
fn switch() -> (Post, Arc<AtomicUsize>, Arc<Mutex<bool>>) {
    let (count, is_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(false)));
    let (asked, away) = (count.clone(), is_away.clone());
    let post: Post = Box::new(move |question| {
        asked.fetch_add(1, Ordering::Relaxed);
        if *away.lock().unwrap() { reply(500, &json!({})) } else { judge(question) }
    });
    (post, count, is_away)
}

#[test]
fn a_server_that_is_away_is_left_alone_and_refuses_nobody_whom_others_know() {
    let (post, asked, is_away) = switch();
    let (worker, counters) = worker(options(), post);
    let handle = worker.handle();
    *is_away.lock().unwrap() = true;
    for number in 0..100 {
        let verdict = login(&handle, password(&format!("u{number}"), "right"));
        assert_eq!(verdict, Err(LoginError::Unavailable));
        assert!(login(&handle, token("0123456789abcdef")).is_ok());
    }
    let count = asked.load(Ordering::Relaxed);
    assert!(count < 100, "{count}: it is not asked all the time");
    assert!(counters.unavailable.load(Ordering::Relaxed) > 0);
    *is_away.lock().unwrap() = false;
    // It is asked again when the pause is over, and then all is well.
    while login(&handle, password("u1", "right")).is_err() {
        std::thread::yield_now();
    }
    assert!(login(&handle, password("u2", "right")).is_ok());
}

#[test]
fn without_an_answer_the_configuration_decides() {
    for unanswered in [Unanswered::Cached, Unanswered::Allow(Principal::named("guest", ["guests"]))]
    {
        let (post, _, is_away) = switch();
        let accepted_time = Duration::ZERO;
        let options = CalloutOptions { unanswered: unanswered.clone(), accepted_time, ..options() };
        let (worker, _) = worker(options, post);
        let handle = worker.handle();
        assert!(login(&handle, password("ann", "right")).is_ok());
        assert!(login(&handle, password("eve", "x")).is_err());
        *is_away.lock().unwrap() = true;
        let seen = ["ann right", "ann other", "eve x"].map(|who| {
            let (user, secret) = who.split_once(' ').unwrap();
            login(&handle, password(user, secret)).map(|who| who.to_string())
        });
        let expected = match unanswered {
            // A refusal that is remembered holds.
            Unanswered::Cached => [
                Ok("ann".to_owned()),
                Err(LoginError::Unavailable),
                Err(LoginError::RefusedFor("no such account".into())),
            ],
            _ => [
                Ok("guest".to_owned()),
                Ok("guest".to_owned()),
                Err(LoginError::RefusedFor("no such account".into())),
            ],
        };
        assert_eq!(seen, expected);
    }
}

#[test]
fn guesses_that_come_at_once_are_stopped_as_those_that_come_in_turn() {
    let (post, held) = held(|_| true);
    let (worker, counters) = worker(options(), post);
    let handle = worker.handle();
    let (to, from) = channel();
    for number in 0..30 {
        submit(&handle, password("eve", &format!("guess {number}")), [192, 0, 2, 1], number, &to);
    }
    held.entered.recv().unwrap();
    drop(held);
    let verdicts: Vec<Verdict> = from.iter().take(30).map(|(_, verdict)| verdict).collect();
    let asked = counters.answered.load(Ordering::Relaxed);
    // Three may fail; when the third has, each of the three other threads may have begun with one.
    assert!((3..=6).contains(&asked), "{asked}");
    let stopped = verdicts.iter().filter(|it| **it == Err(LoginError::TooManyFailures)).count();
    assert_eq!(u64::try_from(stopped).unwrap() + asked, 30);
}

#[test]
fn names_that_the_other_server_may_take_for_one_are_counted_as_one() {
    let (worker, _) = worker(options(), Box::new(judge));
    let handle = worker.handle();
    for name in ["eve", "EVE", " Eve "] {
        assert!(matches!(login(&handle, password(name, "x")), Err(LoginError::RefusedFor(_))));
    }
    assert_eq!(login(&handle, password("eVE", "right")), Err(LoginError::TooManyFailures));
}

#[test]
fn what_one_login_asks_does_not_make_the_server_count_as_away() {
    let guest = Unanswered::Allow(Principal::named("guest", ["guests"]));
    for unanswered in [Unanswered::Deny, Unanswered::Cached, guest] {
        let post: Post = Box::new(|question| {
            let status = ["400", "413", "414", "422", "431"];
            if let Some(status) = status.iter().find(|status| question.contains(**status)) {
                return reply(status.parse().unwrap(), &json!({}));
            }
            if question.contains("group") {
                return reply(200, &json!({"allow": true, "groups": ["*"]}));
            }
            if question.contains("nameless") {
                return reply(200, &json!({"allow": true}));
            }
            judge(question)
        });
        let (worker, counters) = worker(CalloutOptions { unanswered, ..options() }, post);
        let handle = worker.handle();
        for number in 0..20 {
            for odd in ["400", "413", "414", "422", "431", "group"] {
                let verdict = login(&handle, password(&format!("{odd}-{number}"), "x"));
                assert_eq!(verdict, Err(LoginError::Unavailable), "{odd}");
            }
            let verdict = login(&handle, password(&format!("nameless {number}"), "x"));
            assert_eq!(verdict, Err(LoginError::Refused), "nobody can be called so");
        }
        assert_eq!(counters.unavailable.load(Ordering::Relaxed), 0, "each was asked about");
        assert!(login(&handle, password("ann", "right")).is_ok());
    }
}

#[test]
fn credentials_that_are_too_long_are_refused_without_a_question() {
    let (worker, counters) = worker(options(), Box::new(judge));
    let handle = worker.handle();
    let long = "x".repeat(16 * 1024);
    assert_eq!(login(&handle, token(&format!("{long}x"))), Err(LoginError::Refused));
    assert_eq!(login(&handle, password("ann", &long)), Err(LoginError::Refused));
    assert_eq!(counters.answered.load(Ordering::Relaxed), 0);
    assert!(matches!(login(&handle, token(&long)), Err(LoginError::RefusedFor(_))));
}

#[test]
fn a_worker_that_stops_tells_everybody() {
    let (post, held) = held(|_| true);
    let (worker, _) = worker(options(), post);
    let handle = worker.handle();
    let (to, from) = channel();
    for number in 0..20 {
        submit(&handle, token(&format!("t{number}")), [10, 0, 0, 1], number, &to);
    }
    held.entered.recv().unwrap();
    drop(to);
    let stopping = std::thread::spawn(move || drop(worker));
    // What waits is told before the threads have come back.
    let told =
        from.iter().take(20).filter(|(_, verdict)| *verdict == Err(LoginError::Busy)).count();
    assert_eq!(told, 20);
    drop(held);
    stopping.join().unwrap();
    let (to, from) = channel();
    submit(&handle, token("late"), [10, 0, 0, 1], 0, &to);
    assert_eq!(from.recv().unwrap().1, Err(LoginError::Unavailable));
}

#[test]
fn a_certificate_says_who_comes_without_credentials() {
    let (worker, _) = worker(options(), Box::new(judge));
    let handle = worker.handle();
    let ask = |credentials| {
        let (to, from) = channel();
        let answer = Box::new(move |verdict: Verdict| to.send(verdict).unwrap());
        let request = LoginRequest {
            certificate: Some(Principal::named("machine", ["feeds"])),
            ..LoginRequest::new(credentials, IpAddr::from([10, 0, 0, 1]), answer)
        };
        handle.submit(request).unwrap();
        from.recv().unwrap().map(|who| who.to_string())
    };
    assert_eq!(ask(Credentials::default()), Ok("machine".to_owned()));
    assert_eq!(ask(password("bob", "swordfish")), Ok("bob".to_owned()), "credentials count");
    assert_eq!(ask(password("bob", "wrong")), Err(LoginError::Refused), "also wrong ones");
}
