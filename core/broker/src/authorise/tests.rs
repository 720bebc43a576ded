#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use super::*;

fn rule(allow: bool, actions: &[Action], who: Who, path: &str) -> Rule {
    Rule {
        allow,
        actions: actions.iter().copied().collect(),
        who: vec![who],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: None,
    }
}

#[test]
fn deny_wins_and_nothing_is_allowed_by_default() {
    let rules = Rules::new(vec![
        rule(true, &[Action::Publish, Action::Subscribe], Who::Group("traders".into()), "fx/**"),
        rule(false, &[Action::Publish], Who::All, "fx/secret/**"),
        rule(true, &[Action::Subscribe], Who::Anonymous, "public/*"),
    ]);
    let trader =
        Principal { name: "ann".into(), groups: ["traders".into()].into(), ..Principal::named("") };
    let rows = [
        (&trader, Action::Publish, "fx/EUR", true),
        (&trader, Action::Publish, "fx/secret/x", false),
        (&trader, Action::Subscribe, "fx/secret/x", true),
        (&trader, Action::Subscribe, "public/x", false),
        (&trader, Action::Send, "fx/EUR", false),
        (&Principal::anonymous(), Action::Subscribe, "public/x", true),
        (&Principal::anonymous(), Action::Subscribe, "public/x/y", false),
        (&Principal::anonymous(), Action::Publish, "temp/s1/reply", false),
    ];
    for (who, action, path, expected) in rows {
        let allowed = rules.authorise(who, action, Kind::Topic, &Path::parse(path).unwrap());
        assert_eq!(allowed, expected, "{} {} {path}", who.name, action.name());
    }
    let all = Pattern::parse("**").unwrap();
    assert!(rules.authorise_somewhere(&Principal::anonymous(), Action::Subscribe, &all));
    assert!(!rules.authorise_somewhere(&Principal::anonymous(), Action::Publish, &all));
}

#[test]
fn what_is_passed_on_takes_both_rights() {
    use Action::{Call, Publish, Relay, Subscribe};
    let user = |name: &str| Who::User(name.into());
    let rules = Rules::new(vec![
        rule(true, &[Publish, Subscribe, Call], user("ann"), "**"),
        rule(true, &[Relay], user("edge"), "fx/**"),
        rule(false, &[Relay], Who::All, "fx/secret"),
        rule(true, &[Publish], user("edge"), "own/**"),
    ]);
    let edge = Arc::new(Principal::named("edge"));
    let by = |name: &str| Principal { relayed_by: Some(edge.clone()), ..Principal::named(name) };
    let (ann, bob) = (by("ann"), by("bob"));
    let path = |text: &str| Path::parse(text).unwrap();
    let rows = [
        (&ann, "fx/a", true, "ann"),
        (&ann, "fx/secret", false, "edge may not relay"),
        (&ann, "own/a", false, "edge may not relay"),
        (&bob, "fx/a", false, "bob may not publish"),
        (&bob, "own/a", false, "edge may not relay"),
        (&ann, "user/ann/a", false, "edge may not relay"),
    ];
    for (who, at, expected, part) in rows {
        let path = path(at);
        assert_eq!(rules.authorise(who, Publish, Kind::Topic, &path), expected, "{at}");
        let refusal = rules.refusal(who, Publish, Kind::Topic, &path).reason;
        assert!(refusal.contains(part), "{refusal}");
    }
    let all = |text: &str| Pattern::parse(text).unwrap();
    assert!(rules.authorise_all(&Principal::named("ann"), Publish, Kind::Topic, &all("own/**")));
    assert!(!rules.authorise_all(&ann, Publish, Kind::Topic, &all("own/**")));
    assert!(!rules.authorise_all(&ann, Publish, Kind::Topic, &all("fx/**")), "but for one topic");
    assert!(rules.authorise_all(&ann, Publish, Kind::Topic, &all("fx/a/**")));
    // Nobody is somebody else's edge unless a rule says so.
    let by_bob = Principal {
        relayed_by: Some(Arc::new(Principal::named("bob"))),
        ..Principal::named("ann")
    };
    assert!(!rules.authorise_anywhere(&by_bob, Publish, Kind::Topic));
    assert!(!rules.authorise_somewhere(&by_bob, Subscribe, &all("fx/**")));
    assert!(rules.authorise_anywhere(&ann, Publish, Kind::Topic));
}

#[test]
fn a_login_called_anonymous_is_not_anonymous() {
    let rules = Rules::new(vec![rule(true, &[Action::Publish], Who::Anonymous, "**")]);
    let impostor = Principal::named("anonymous");
    assert!(!rules.authorise(&impostor, Action::Publish, Kind::Topic, &Path::parse("a").unwrap()));
}
#[test]
fn private_paths_are_for_their_owners_only() {
    use Action::{Browse, Call, Manage, Publish, Receive, Send, Serve, Subscribe};
    let listening = [Browse, Manage, Receive, Serve, Subscribe];
    let speaking = [Call, Publish, Send];
    let every: Vec<Action> = listening.into_iter().chain(speaking).collect();
    let principal = |name: &str, groups: &[&str], anonymous| Principal {
        name: name.into(),
        groups: groups.iter().map(|group| Arc::from(*group)).collect(),
        anonymous,
        ..Principal::named("")
    };
    let ann = principal("ann", &["ops"], false);
    let bob = principal("bob", &["sales"], false);
    let nobody = principal("ann", &["ops"], true);
    let open = Rules::allow_all();
    let generous = Rules::new(vec![rule(true, &every, Who::All, "**")]);
    let silent = Rules::new(Vec::new());
    let strict = Rules::new(vec![
        rule(true, &every, Who::All, "**"),
        rule(false, &every, Who::User("ann".into()), "user/ann/locked/**"),
    ]);
    let watchful = Rules::new(vec![
        rule(true, &listening, Who::All, "$sys/**"),
        rule(true, &listening, Who::All, "fx/**"),
        rule(false, &listening, Who::User("bob".into()), "*/sessions/**"),
    ]);
    // Rules, who, path, may listen, may speak.
    let rows = [
        (&open, &ann, "user/ann/inbox", true, true),
        (&open, &ann, "user/ann", true, true),
        (&open, &ann, "user", true, true),
        (&open, &bob, "user/ann/inbox", false, true),
        (&open, &nobody, "user/ann/inbox", false, true),
        (&open, &ann, "group/ops/chat", true, true),
        (&open, &bob, "group/ops/chat", false, true),
        (&open, &nobody, "group/ops/chat", false, true),
        (&generous, &ann, "user/ann/inbox", true, true),
        (&generous, &bob, "user/ann/inbox", false, true),
        (&generous, &bob, "group/sales", true, true),
        (&generous, &ann, "group/sales", false, true),
        (&silent, &ann, "user/ann/inbox", true, false),
        (&silent, &ann, "group/ops/chat", true, false),
        (&silent, &ann, "user", false, false),
        (&silent, &bob, "user/ann/inbox", false, false),
        (&strict, &ann, "user/ann/inbox", true, true),
        (&strict, &ann, "user/ann/locked/a", false, false),
        (&strict, &bob, "user/ann/locked/a", false, true),
        (&open, &ann, "$sys/presence/user/ann/inbox/s0-1-1", true, true),
        (&open, &bob, "$sys/presence/user/ann/inbox/s0-1-1", false, true),
        (&open, &bob, "$sys/presence/user/ann/s0-1-1", false, true),
        (&open, &bob, "$sys/presence/user/s0-1-1", true, true),
        (&open, &nobody, "$sys/missing/user/ann/inbox", false, true),
        (&open, &bob, "$sys/missing/fx", true, true),
        (&generous, &ann, "$sys/sessions/s0-1-1", false, false),
        (&watchful, &ann, "$sys/sessions/s0-1-1", true, false),
        (&watchful, &ann, "$sys/presence/fx/s0-1-1", true, false),
        (&watchful, &ann, "$sys/presence/gold/s0-1-1", false, false),
        (&watchful, &bob, "$sys/presence/user/ann/s0-1-1", false, false),
        (&watchful, &ann, "$sys/presence/user/ann/s0-1-1", true, false),
        (&watchful, &bob, "$sys/sessions/s0-1-1", false, false),
    ];
    for (rules, who, path, listens, speaks) in rows {
        let path = Path::parse(path).unwrap();
        let may = |action| rules.authorise(who, action, Kind::Topic, &path);
        for (actions, expected) in [(&listening[..], listens), (&speaking[..], speaks)] {
            for action in actions {
                assert_eq!(may(*action), expected, "{who:?} {} {path}", action.name());
            }
        }
    }
    // Rules, who, pattern, may take all of it, may see some of it.
    let rows = [
        (&open, &ann, "user/ann/**", true, true),
        (&open, &bob, "user/ann/**", false, false),
        (&open, &nobody, "user/ann/**", false, false),
        (&open, &bob, "user/*/x", true, true),
        (&silent, &ann, "user/ann/**", true, true),
        (&silent, &ann, "group/ops/*", true, true),
        (&silent, &ann, "user/**", false, false),
        (&generous, &bob, "user/ann/*", false, false),
        (&generous, &bob, "**", true, true),
        (&strict, &ann, "user/ann/**", false, true),
        (&strict, &ann, "fx/**", true, true),
        (&strict, &ann, "**", false, true),
        (&open, &bob, "$sys/presence/user/ann/**", false, false),
        (&open, &ann, "$sys/presence/user/ann/**", true, true),
        (&open, &bob, "$sys/missing/user/ann/*", false, false),
        (&open, &bob, "$sys/**", true, true),
        (&generous, &bob, "$sys/**", false, true),
    ];
    for (rules, who, pattern, all, some) in rows {
        let pattern = Pattern::parse(pattern).unwrap();
        let takes = rules.authorise_all(who, Action::Serve, Kind::Service, &pattern);
        let sees = rules.authorise_somewhere(who, Action::Subscribe, &pattern);
        assert_eq!((takes, sees), (all, some), "{who:?} {pattern:?}");
    }
}

#[test]
fn who_may_monitor_may_listen_to_alarms_and_to_nothing_else() {
    use Action::{Monitor, Subscribe};
    let user = |name: &str| Who::User(name.into());
    let rules = Rules::new(vec![
        rule(true, &[Monitor], user("ann"), "$sys/**"),
        rule(true, &[Monitor], user("bob"), "$sys/alarms/*"),
        rule(false, &[Monitor], user("bob"), "$sys/alarms/b"),
        rule(true, &[Monitor], user("cat"), "$sys/**"),
        rule(false, &[Subscribe], user("cat"), "$sys/alarms/c"),
        rule(true, &[Subscribe], user("dan"), "$sys/alarms/d"),
    ]);
    let alarm = |name: &str| Path::parse(&format!("$sys/alarms/{name}")).unwrap();
    let may = |who: &str, path: &Path| {
        rules.authorise(&Principal::named(who), Subscribe, Kind::Topic, path)
    };
    let rows = [
        ("ann", "a", true),
        ("bob", "a", true),
        ("bob", "b", false),
        ("cat", "a", true),
        ("cat", "c", false),
        ("dan", "a", false),
        ("dan", "d", true),
        ("eve", "a", false),
    ];
    for (who, name, expected) in rows {
        assert_eq!(may(who, &alarm(name)), expected, "{who} {name}");
    }
    for path in ["$sys/alarms", "$sys/alarmsx/a", "$sys/sessions/a", "alarms/a"] {
        assert!(!may("ann", &Path::parse(path).unwrap()), "{path}");
    }
    assert!(!rules.authorise(&Principal::named("ann"), Action::Receive, Kind::Queue, &alarm("a")));
    let all = |who: &str, pattern: &str| {
        let pattern = Pattern::parse(pattern).unwrap();
        rules.authorise_all(&Principal::named(who), Subscribe, Kind::Topic, &pattern)
    };
    assert!(all("ann", "$sys/alarms/*") && !all("ann", "$sys/*/*") && !all("ann", "$sys/**"));
    assert!(!all("bob", "$sys/alarms/*") && !all("cat", "$sys/alarms/*"));
    for (pattern, expected) in [("$sys/alarms/*", true), ("$sys/**", false), ("fx/**", false)] {
        let pattern = Pattern::parse(pattern).unwrap();
        let may = rules.authorise_somewhere(&Principal::named("ann"), Subscribe, &pattern);
        assert_eq!(may, expected, "{pattern:?}");
    }
}

#[test]
fn who_has_come_by_the_admin_socket_may_what_admins_may_and_what_rules_allow_him() {
    use Action::{
        Admin, Browse, Create, Manage, Monitor, Operate, Publish, Relay, Send, Subscribe,
    };
    let rules = Rules::new(vec![
        rule(false, &[Monitor, Operate, Admin, Browse, Subscribe], Who::All, "**"),
        rule(false, &[Monitor, Operate, Admin], Who::All, "$sys/**"),
        rule(true, &[Publish], Who::User("uid:0".into()), "fx/**"),
    ]);
    let (root, named) = (Principal::local(0), Principal::named("uid:0"));
    let rows = [
        (Monitor, Kind::Topic, "$sys/stats", true),
        (Operate, Kind::Topic, "$sys/sessions", true),
        (Admin, Kind::Topic, "$sys/config", true),
        (Browse, Kind::Service, "a", true),
        (Subscribe, Kind::Topic, "fx/a", true),
        (Manage, Kind::Queue, "jobs", true),
        (Send, Kind::Queue, "jobs", true),
        (Create, Kind::Queue, "dsub/a", true),
        (Publish, Kind::Topic, "fx/a", true),
        (Publish, Kind::Topic, "other", false),
        (Relay, Kind::Topic, "fx/a", false),
        // What is private is private to admins, too.
        (Subscribe, Kind::Topic, "user/ann/a", false),
        (Subscribe, Kind::Topic, "temp/s1/a", false),
    ];
    for (action, kind, at, expected) in rows {
        let path = Path::parse(at).unwrap();
        let decision = rules.explain(&root, action, kind, &path);
        assert_eq!(decision.is_allowed(), expected, "{} on {at}: {decision:?}", action.name());
        assert_eq!(rules.authorise(&root, action, kind, &path), expected, "{at}");
        let is_given = action == Publish && expected;
        assert_eq!(rules.authorise(&named, action, kind, &path), is_given, "{at}");
    }
    let path = Path::parse("$sys/stats").unwrap();
    assert_eq!(rules.explain(&root, Monitor, Kind::Topic, &path), Decision::Local);
    let all = Pattern::parse("**").unwrap();
    assert!(rules.authorise_all(&root, Subscribe, Kind::Topic, &all));
    assert!(!rules.authorise_all(&named, Subscribe, Kind::Topic, &all));
    assert!(rules.authorise_somewhere(&root, Subscribe, &all));
    assert!(rules.authorise_anywhere(&root, Browse, Kind::Queue));
    assert!(!rules.authorise_anywhere(&root, Action::Serve, Kind::Service));
}

#[test]
fn on_a_way_for_clients_nobody_looks_after_the_node() {
    let everything = [Action::Monitor, Action::Operate, Action::Admin, Action::Subscribe];
    let given = Rules::new(vec![
        rule(true, &everything, Who::All, "$sys/**"),
        rule(true, &everything, Who::All, "**"),
    ]);
    let ann = Principal::named("ann").logged_in_by(Entrance::Clients).unwrap();
    let path = Path::parse("$sys/alarms/disk").unwrap();
    let all = Pattern::parse("$sys/**").unwrap();
    for rules in [given, Rules::allow_all()] {
        for action in everything {
            let manages = action != Action::Subscribe;
            assert_eq!(rules.authorise(&ann, action, Kind::Topic, &path), !manages);
            assert_eq!(rules.authorise_all(&ann, action, Kind::Topic, &all), !manages);
            assert_eq!(rules.authorise_anywhere(&ann, action, Kind::Topic), !manages);
            assert_eq!(rules.authorise_somewhere(&ann, action, &all), !manages);
            if manages {
                let decision = rules.explain(&ann, action, Kind::Topic, &path);
                assert_eq!(decision, Decision::Elsewhere);
                let refusal = rules.refusal(&ann, action, Kind::Topic, &path);
                assert_eq!(refusal.code, CloseCode::ManagedElsewhere);
            }
        }
    }
    // The right to monitor lets nobody watch alarms there.
    let rules = Rules::new(vec![rule(true, &[Action::Monitor], Who::All, "$sys/**")]);
    assert!(!rules.authorise(&ann, Action::Subscribe, Kind::Topic, &path));
    let bob = Principal::named("bob");
    assert!(rules.authorise(&bob, Action::Subscribe, Kind::Topic, &path));
    // On the admin socket a login makes nobody an admin, and nobody has the name of one.
    let logged_in = Principal::named("ann").logged_in_by(Entrance::Admin(0)).unwrap();
    assert_eq!(logged_in, Principal::named("ann"));
    assert!(Principal::named("uid:0").logged_in_by(Entrance::Rules).is_err());
}

#[test]
fn who_may_trace_may_read_traces_and_what_has_bodies_is_for_its_owner() {
    use Action::{Admin, Monitor, Operate, Subscribe};

    let user = |name: &str| Who::User(name.into());
    let rules = Rules::new(vec![
        rule(true, &[Operate], user("oli"), "$sys/trace"),
        rule(true, &[Admin], user("ada"), "$sys/**"),
        rule(true, &[Monitor], user("vic"), "$sys/**"),
        rule(true, &[Subscribe], user("sue"), "$sys/**"),
        rule(false, &[Subscribe], user("dan"), "$sys/trace/*"),
        rule(true, &[Operate], user("dan"), "$sys/trace"),
    ]);
    let may = |who: &Principal, path: &str| {
        rules.authorise(who, Subscribe, Kind::Topic, &Path::parse(path).unwrap())
    };
    for (name, expected) in
        [("oli", true), ("ada", true), ("vic", false), ("sue", true), ("dan", false)]
    {
        assert_eq!(may(&Principal::named(name), "$sys/trace/1"), expected, "{name}");
    }
    let oli = Principal::named("oli");
    assert!(!may(&oli, "$sys/tracex/1") && !may(&oli, "$sys/trace") && !may(&oli, "a"));
    // What shows bodies is for who has asked for it, and for nobody of that name in a virtual host.
    let own = "$sys/trace/user/oli/1";
    assert!(may(&oli, own));
    for name in ["ada", "sue", "vic"] {
        assert!(!may(&Principal::named(name), own), "{name}");
    }
    let of_host = Principal { host: Some("shop".into()), ..oli.clone() };
    let anonymous = Principal { name: "oli".into(), ..Principal::anonymous() };
    assert!(!may(&of_host, own) && !may(&anonymous, own));
    let pattern = |text: &str| Pattern::parse(text).unwrap();
    let somewhere =
        |who: &Principal, text: &str| rules.authorise_somewhere(who, Subscribe, &pattern(text));
    assert!(somewhere(&oli, "$sys/trace/*") && somewhere(&oli, "$sys/trace/user/oli/*"));
    assert!(!somewhere(&Principal::named("sue"), "$sys/trace/user/oli/*"));
    assert!(!somewhere(&of_host, "$sys/trace/user/oli/*"));
    assert!(!somewhere(&Principal::named("vic"), "$sys/trace/*"));
    // On a way for clients nobody reads a trace but by a rule that says so.
    let by_clients = |name: &str| Principal::named(name).logged_in_by(Entrance::Clients).unwrap();
    assert!(!may(&by_clients("oli"), "$sys/trace/1") && !may(&by_clients("oli"), own));
    assert!(!somewhere(&by_clients("oli"), "$sys/trace/*"));
    assert!(may(&by_clients("sue"), "$sys/trace/1"));
    let trace = Path::parse("$sys/trace/1").unwrap();
    let decision = rules.explain(&by_clients("oli"), Subscribe, Kind::Topic, &trace);
    assert_eq!(decision, Decision::Elsewhere);
}
