#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::{
    Browsable, Browse, Command, Condition, Destination, Fetch, Kind, LeaveReason, Listing,
    ListingEntry, Meta, Operation, OperationResult, Reading, Reply, Run, ServiceEntry, Subscribe,
    SubscriptionKey, Target,
};
use tiderace_base::{SessionId, ShardId, Time};

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

fn shop() -> Root {
    Root::of("shop")
}

#[test]
fn names_of_a_host_lie_below_its_level_and_lose_it_again() {
    for (own, whole) in [
        ("orders", "@shop/orders"),
        ("orders/new", "@shop/orders/new"),
        ("@bank/orders", "@shop/@bank/orders"),
        ("@shop/orders", "@shop/@shop/orders"),
        ("$x/a", "@shop/$x/a"),
        ("dsub", "@shop/dsub"),
        ("dsub/audit", "dsub/@shop/audit"),
        ("dsub/@bank/audit", "dsub/@shop/@bank/audit"),
        ("$sys/presence/room/1", "$sys/presence/@shop/room/1"),
        ("$sys/missing/room", "$sys/missing/@shop/room"),
        ("user/ann/inbox", "@shop/user/ann/inbox"),
        ("temp", "@shop/temp"),
    ] {
        let placed = shop().path(Kind::Queue, &path(own)).unwrap();
        assert_eq!(placed.as_str(), whole);
        assert_eq!(shop().without(&placed), Some(path(own)), "{whole}");
        assert!(shop().holds(&placed) && !Root::of("bank").holds(&placed), "{whole}");
        assert_eq!(root_of(&placed), Some(shop()), "{whole}");
        assert_eq!(Root::of("bank").without(&placed), None, "{whole}");
    }
    for same in ["temp/x/a", "$sys", "$sys/sessions/s1", "$sys/missing", "$sys/presence"] {
        assert_eq!(shop().path(Kind::Queue, &path(same)).unwrap(), path(same));
    }
    for other in ["orders", "@shop", "@shops/a", "a/@shop/b", "temp/@shop/a", "$sys/x/@shop/a"] {
        assert_eq!(shop().without(&path(other)), None, "{other}");
    }
    let deep = path(&vec!["x"; tiderace_base::limits::PATH_DEPTH_MAX].join("/"));
    assert_eq!(shop().path(Kind::Queue, &deep).unwrap_err().code, CloseCode::BadDestination);
}

#[test]
fn patterns_reach_nothing_outside_of_their_host() {
    for (own, whole) in [
        ("**", "@shop/**"),
        ("*/a", "@shop/*/a"),
        ("?.*/[ab]", "?@shop/.*/[ab]"),
        ("dsub/**", "dsub/@shop/**"),
        ("$sys/presence/**", "$sys/presence/@shop/**"),
        ("$sys/missing/a/*", "$sys/missing/@shop/a/*"),
        ("$sys/*", "$sys/*"),
        ("$sys/metrics/**", "$sys/metrics/**"),
        ("$sys/s*/**", "$sys/s*/**"),
        (r"?\$sys/(metrics|views)/.*", r"?\$sys/(metrics|views)/.*"),
        (r"?\$sys/presence/.*", r"?\$sys/presence/@shop/.*"),
        (r"?[$]sys/presence/.*", r"?[$]sys/presence/@shop/.*"),
        ("$*/presence/**", "@shop/$*/presence/**"),
        ("*/*/@bank/**", "@shop/*/*/@bank/**"),
        ("@bank/**", "@shop/@bank/**"),
        ("temp/**", "temp/**"),
        ("?temp/.", "?temp/."),
        ("?dsub/.*", "?dsub/@shop/.*"),
    ] {
        let pattern = shop().pattern(Kind::Queue, &Pattern::parse(own).unwrap()).unwrap();
        assert_eq!(pattern.as_str(), whole, "{own}");
        for outside in OUTSIDE {
            // The host's level by itself is no name (`check_whole`), and told to nobody.
            let reaches = !outside.ends_with("@shop") && pattern.matches(&path(outside));
            assert!(!reaches, "{own} {outside}");
            assert!(!shop().shows(&path(outside)), "{outside}");
        }
    }
    for open in [
        "$sys/*/@bank/**",
        "$sys/*/*",
        "$sys/*/**",
        "$sys/m*/**",
        "$sys/*e/@bank/a",
        "$sys/**",
        r"?\$sys/(presence|missing)/@bank/.*",
        r"?\$sys/.*/.*",
        r"?\$sys/[mp].+/**",
        r"?\$sys/**",
    ] {
        for kind in [Kind::Topic, Kind::Queue, Kind::Service] {
            let refused = shop().pattern(kind, &Pattern::parse(open).unwrap()).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadDestination, "{open}");
        }
    }
}

/// What a session of the host shop is told nothing of.
const OUTSIDE: [&str; 9] = [
    "@bank/a",
    "@bank/a/b",
    "a",
    "@shop",
    "dsub/@bank/a",
    "dsub/@shop",
    "$sys/presence/@bank/a",
    "$sys/missing/@bank/a/b",
    "$sys/missing/a",
];

proptest::proptest! {
    #[test]
    fn no_pattern_reaches_what_is_told_of_others(
        levels in proptest::collection::vec(
            proptest::sample::select(vec![
                "$sys", r"\$sys", "presence", "missing", "*", "p*", "*g", "**", ".*", "[pm].*",
                "(presence|missing)", "@bank", "@.*", "dsub", "a", "temp",
            ]),
            1..5,
        ),
        is_expression in proptest::bool::ANY,
    ) {
        let text = [if is_expression { "?" } else { "" }, &levels.join("/")].concat();
        let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
        for kind in [Kind::Topic, Kind::Queue, Kind::Service] {
            let Ok(pattern) = shop().pattern(kind, &pattern) else { continue };
            for outside in OUTSIDE.iter().filter(|it| !it.ends_with("@shop")) {
                proptest::prop_assert!(!pattern.matches(&path(outside)), "{text} {outside}");
            }
        }
    }
}

#[test]
fn only_queues_of_durable_subscriptions_keep_their_first_level() {
    let dsub = path("dsub/audit");
    for (kind, whole) in [
        (Kind::Queue, "dsub/@shop/audit"),
        (Kind::Topic, "@shop/dsub/audit"),
        (Kind::Service, "@shop/dsub/audit"),
    ] {
        let placed = shop().path(kind, &dsub).unwrap();
        assert_eq!(placed.as_str(), whole);
        assert_eq!(shop().without(&placed), Some(dsub.clone()));
    }
    let pattern = shop().pattern(Kind::Topic, &Pattern::parse("dsub/**").unwrap()).unwrap();
    assert_eq!(pattern.as_str(), "@shop/dsub/**");
}

#[test]
fn names_that_would_be_others_in_a_host_are_no_names_of_the_whole_tree() {
    let refuses = |kind, text: &str| hosts(false).check_whole(kind, &path(text)).is_err();
    for text in ["@shop", "@bank", "dsub/@shop", "@shop/$sys", "@shop/$sys/a", "@shop/temp/a"] {
        for kind in [Kind::Topic, Kind::Queue, Kind::Service] {
            assert!(refuses(kind, text), "{text}");
        }
    }
    assert!(refuses(Kind::Queue, "@shop/dsub/a") && !refuses(Kind::Topic, "@shop/dsub/a"));
    for text in ["@ann", "a", "@shop/a", "@shop/temp", "@shop/$x/a", "dsub/@shop/temp/a", "a/@shop"]
    {
        assert!(!refuses(Kind::Queue, text), "{text}");
    }
}

#[test]
fn one_level_is_taken_off_a_name_and_none_out_of_its_middle() {
    let name = |text: &str| Root::of("a-b").name(text);
    for (text, own) in [
        ("@a-b/x", Some("x")),
        ("@a-b/@a-b/x", Some("@a-b/x")),
        ("dsub/@a-b/x", Some("dsub/x")),
        (r"?@a\-b/@a\-b/.*", Some(r"?@a\-b/.*")),
        (r"?\$sys/presence/@a\-b/.*", Some(r"?\$sys/presence/.*")),
        (r"@a\-b/x", None),
        ("x/@a-b/y", None),
        ("@a-bc/y", None),
    ] {
        assert_eq!(name(text).as_deref(), own, "{text}");
    }
    assert_eq!(shop().names("@shop/a/**,?@shop/b{1,2},x/@shop/c"), "a/**,?b{1,2},x/@shop/c");
    for (text, told) in [
        ("the queue @shop/a is full, dsub/@shop/b not", "the queue a is full, dsub/b not"),
        ("`@shop/@shop/a`", "`@shop/a`"),
        ("in x/@shop/a and mail@shop/a, @shops/a", "in x/@shop/a and mail@shop/a, @shops/a"),
        ("@shop and @shop/", "@shop and "),
        ("", ""),
    ] {
        assert_eq!(shop().text(text), told);
    }
}

#[test]
fn nothing_is_told_of_what_lies_outside_of_the_host() {
    let key = SubscriptionKey(1);
    let left = |text: &str| Reply::Left { key, path: path(text), reason: LeaveReason::Removed };
    for outside in OUTSIDE {
        assert!(!shop().leave(&mut left(outside)), "{outside}");
    }
    for patterns in ["$sys/missing", "$sys/presence"] {
        assert!(!shop().leave(&mut left(patterns)), "{patterns}");
    }
    for told in ["@shop/a", "dsub/@shop/a", "$sys/presence/@shop/a", "$sys/metrics/a", "temp/x/a"] {
        assert!(shop().leave(&mut left(told)), "{told}");
    }
}

#[test]
fn a_depth_counts_the_level_of_the_host_where_there_is_one() {
    let depth = |selector: &str, depth| {
        let selector = vec![Pattern::parse(selector).unwrap()];
        let (values, specs) = (false, false);
        let fetch = Fetch { selector, after: None, limit: 1, depth, values, specs };
        let operation = Box::new(Operation::Fetch(Box::new(fetch)));
        let mut command = Command::Operate { token: 1, operation };
        shop().enter(&mut command).unwrap();
        let Command::Operate { operation, .. } = command else { panic!() };
        let Operation::Fetch(fetch) = *operation else { panic!() };
        fetch.depth
    };
    assert_eq!(depth("a/**", 2), 3);
    assert_eq!(depth("a/**", 0), 0);
    assert_eq!(depth("$sys/metrics/**", 2), 2);
    assert_eq!(depth("$sys/presence/**", 2), 3);
}

fn operation(text: &str) -> Operation {
    let reading = Reading {
        body: None,
        now: Time::ZERO,
        path: &|text| crate::parse_path(text, None),
        selector: &|text| Ok(vec![Pattern::parse(text).unwrap()]),
    };
    Operation::parse(text.as_bytes(), &reading).unwrap()
}

fn entered(text: &str) -> Result<String, Close> {
    let operation = Box::new(operation(text));
    let mut command = Command::Operate { token: 1, operation };
    shop().enter(&mut command)?;
    Ok(format!("{command:?}"))
}

#[test]
fn all_names_of_operations_are_those_of_the_host() {
    for (text, whole) in [
        (r#"{"do":"create","path":"a","spec":{}}"#, &["Path(@shop/a)"][..]),
        (r#"{"do":"remove","selector":"a/**"}"#, &["Pattern(@shop/a/**)"]),
        (r#"{"do":"purge","path":"a"}"#, &["Path(@shop/a)"]),
        (r#"{"do":"pause","path":"a"}"#, &["Path(@shop/a)"]),
        (r#"{"do":"peek","path":"a"}"#, &["Path(@shop/a)"]),
        (r#"{"do":"queue","path":"dsub/a"}"#, &["Path(dsub/@shop/a)"]),
        (r#"{"do":"move","from":"a","to":"b"}"#, &["Path(@shop/a)", "Path(@shop/b)"]),
        (r#"{"do":"redrive","path":"dlq/a"}"#, &["Path(@shop/dlq/a)"]),
        (r#"{"do":"lock","name":"a"}"#, &["Path(@shop/a)"]),
        (r#"{"do":"unlock","name":"a"}"#, &["Path(@shop/a)"]),
        (
            r#"{"do":"create-subscription","name":"a","topics":["x/**"]}"#,
            &["Path(dsub/@shop/a)", "Pattern(@shop/x/**)"],
        ),
        (r#"{"do":"delete-subscription","name":"a"}"#, &["Path(dsub/@shop/a)"]),
        (r#"{"do":"queues"}"#, &["Pattern(@shop/**)", "Pattern(dsub/@shop/**)"]),
        (r#"{"do":"queues","pattern":"a/*"}"#, &["Pattern(@shop/a/*)"]),
    ] {
        let shown = entered(text).unwrap();
        for name in whole {
            assert!(shown.contains(name), "{text}: {shown}");
        }
    }
    for text in [r#"{"do":"sessions"}"#, r#"{"do":"kick","id":"0-1-1"}"#, r#"{"do":"views"}"#] {
        assert_eq!(entered(text).unwrap_err().code, CloseCode::NotAuthorised, "{text}");
    }
    let browse = Browse {
        what: Browsable::Sessions,
        from: Default::default(),
        limit: 0,
        patterns: Vec::new(),
    };
    let operation = Box::new(Operation::Browse(browse));
    assert!(shop().enter(&mut Command::Operate { token: 1, operation }).is_err());
    let mut update = crate::Update {
        path: path("a"),
        change: crate::Change::Value([].into()),
        properties: None,
        flags: crate::Flags::NONE,
        condition: Some(Condition::All(vec![Condition::Any(vec![Condition::Locked(path("l"))])])),
        spec: None,
    };
    let operation = Box::new(Operation::Update(Box::new(update.clone())));
    let mut command = Command::Operate { token: 1, operation };
    shop().enter(&mut command).unwrap();
    update.path = path("@shop/a");
    assert!(format!("{command:?}").contains("Locked(Path(@shop/l))"), "{command:?}");
}

#[test]
fn messages_subscriptions_and_wills_go_to_the_host() {
    let run = || {
        let destination = Destination { kind: Kind::Queue, path: path("a") };
        Run::single(destination, Time::ZERO, b"", b"x", Meta::default())
    };
    let mut command = Command::Publish { run: run(), confirm: None, confirm_first: false };
    shop().enter(&mut command).unwrap();
    let Command::Publish { run: entered, .. } = &command else { panic!("{command:?}") };
    assert_eq!(entered.destination().path.as_str(), "@shop/a");
    let operation = Box::new(Operation::Will(Some(Box::new(run()))));
    let mut command = Command::Operate { token: 1, operation };
    shop().enter(&mut command).unwrap();
    assert!(format!("{command:?}").contains("Path(@shop/a)"), "{command:?}");
    let targets = vec![
        Target::Exact(Destination { kind: Kind::Queue, path: path("a") }),
        Target::Pattern(Kind::Topic, Pattern::parse("**").unwrap()),
    ];
    let mut command = Command::Subscribe(Box::new(Subscribe::new(SubscriptionKey(1), targets)));
    shop().enter(&mut command).unwrap();
    let Command::Subscribe(subscribe) = &command else { panic!("{command:?}") };
    let names: Vec<&str> = subscribe.targets.iter().map(Target::name).collect();
    assert_eq!(names, ["@shop/a", "@shop/**"]);
}

#[test]
fn answers_and_errors_say_names_as_the_host_does() {
    let close = Close::new(CloseCode::QueueFull, "the queue @shop/a is full, dsub/@shop/b not");
    let mut reply = Reply::Refused { token: None, close };
    assert!(shop().leave(&mut reply));
    let Reply::Refused { close, .. } = &reply else { panic!("{reply:?}") };
    assert_eq!(close.reason, "the queue a is full, dsub/b not");
    let service = |names: &[&str]| {
        let session = SessionId { shard: ShardId(0), slot: 0, generation: 0 };
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        ListingEntry::Service(ServiceEntry { names, session, open: 0, prefetch: 1 })
    };
    let host = Root::of("a-b");
    let entries = vec![
        service(&["@a-b/x", "@bank/y", r"?@a\-b/[yz]"]),
        service(&["@bank/y"]),
        service(&["x"]),
    ];
    let listing = Listing { what: Browsable::Services, entries, next: None };
    let result = Box::new(OperationResult::Listing(Box::new(listing)));
    let mut reply = Reply::Operated { token: 1, result };
    assert!(host.leave(&mut reply));
    let Reply::Operated { result, .. } = &reply else { panic!("{reply:?}") };
    let mut text = Vec::new();
    result.write_json(&mut text, true);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("names").count(), 1, "{text}");
    assert!(text.contains(r#"["x","?[yz]"]"#), "{text}");
}

fn hosts(is_closed: bool) -> VirtualHosts {
    let host = |name: &str, hosts: &[&str]| VirtualHost {
        name: name.into(),
        hosts: hosts.iter().map(|host| Box::from(*host)).collect(),
    };
    let shop = host("shop", &["shop.example", "*.shop.example"]);
    VirtualHosts::new(vec![shop, host("bank", &["bank", "*.b.shop.example"])], is_closed)
}

#[test]
fn hosts_are_found_by_name_whatever_the_case_and_the_port() {
    for (text, name) in [
        ("shop.example", Some("shop")),
        ("SHOP.Example:7800", Some("shop")),
        ("shop.example.", Some("shop")),
        ("a.shop.example", Some("shop")),
        ("a.c.shop.example", Some("shop")),
        ("a.b.shop.example", Some("bank")),
        ("bank", Some("bank")),
        (".shop.example", None),
        ("xshop.example", None),
        ("banks", None),
        ("/", None),
        ("@shop", None),
        ("127.0.0.1:7800", None),
        ("[::1]:7800", None),
        ("[::1", None),
        ("bank\nx", None),
        ("*.shop.example:x:y", Some("shop")),
        (&"x".repeat(70_000), None),
    ] {
        let named = hosts(false).named(text);
        match (name, &named) {
            (Some(name), NamedHost::Known(known)) => assert_eq!(&**known, name, "{text}"),
            (None, NamedHost::Unknown(shown)) => assert!(shown.len() < 300),
            _ => panic!("{text}: {named:?}"),
        }
    }
    assert_eq!(hosts(false).named(""), NamedHost::None);
}

proptest::proptest! {
    #[test]
    fn any_name_of_a_host_is_taken_or_not(text in "\\PC{0,300}", odd in "[*.:\\[\\]/@a-z]{0,40}") {
        for text in [text, odd] {
            let _ = hosts(true).named(&text);
            if let Some(name) = host_name(&text) {
                proptest::prop_assert!((1..=255).contains(&name.len()));
                proptest::prop_assert_eq!(name.to_ascii_lowercase(), name);
            }
        }
    }
}

#[test]
fn who_is_bound_to_a_host_is_nowhere_else() {
    let admitted = |is_closed, text: &str, bound: Option<&str>| {
        let hosts = hosts(is_closed);
        let bound = bound.map(Arc::from);
        let host = hosts.admit(&hosts.named(text), bound.as_ref());
        host.map(|host| host.map(|host| host.to_string())).map_err(|close| close.code)
    };
    let wrong = Err(CloseCode::WrongHost);
    let (shop, whole) = (Ok(Some("shop".to_owned())), Ok(None));
    for (is_closed, text, bound, expected) in [
        (false, "shop.example", None, &shop),
        (true, "shop.example", None, &shop),
        (false, "", None, &whole),
        (false, "other", None, &whole),
        (true, "", None, &wrong),
        (true, "other", None, &wrong),
        (false, "shop.example", Some("shop"), &shop),
        (true, "", Some("shop"), &shop),
        (false, "bank", Some("shop"), &wrong),
        (false, "other", Some("shop"), &wrong),
        (true, "bank", Some("*"), &whole),
        (true, "", Some("*"), &whole),
    ] {
        assert_eq!(&admitted(is_closed, text, bound), expected, "{is_closed} {text} {bound:?}");
    }
}
