//! What a good configuration means: defaults, precedence, typed values, `config show`.
#![allow(clippy::unwrap_used)]

use crate::support;

use std::time::Duration;

use support::{Setup, file};
use tiderace_config::{
    Action, ListenerProtocol, LogFormat, MemoryAmount, Origin, PrincipalMatch, Role, RuleEffect,
    RuleKind, SlowConsumer, TokenSecret, UserPassword, show_json, show_toml,
};
use tiderace_topics::Pattern;

#[test]
fn without_anything_the_defaults_hold() {
    let config = Setup::default().load().unwrap().config;
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:7800");
    assert_eq!(config.listeners[0].protocol, ListenerProtocol::Any);
    assert_eq!(config.server.shards, 0);
    assert_eq!(config.limits.message_bytes_max, 16 << 20);
    assert_eq!(config.limits.first_byte_timeout, Duration::from_secs(5));
    assert_eq!(config.session.outbox_bytes_max, 4 << 20);
    assert_eq!(config.topics.slow_consumer, SlowConsumer::DropOldest);
    assert_eq!(config.queues.redeliveries_max, 20);
    assert_eq!(config.queues.dead_letter, "dlq/{queue}");
    assert_eq!(config.memory.messages_bytes_max, MemoryAmount::Percent(25));
    assert_eq!(config.stomp.websocket_paths, ["/stomp", "/ws", "/"]);
    assert_eq!(config.server.origins, ["same-host"]);
    assert_eq!(config.log.format, LogFormat::Auto);
    assert!(!config.auth.is_enforced());
}

#[test]
fn development_mode_adds_the_customary_stomp_port() {
    let config = Setup::default().development().load().unwrap().config;
    let listeners: Vec<_> = config
        .listeners
        .iter()
        .map(|listener| (listener.address.to_string(), listener.protocol))
        .collect();
    let expected = [
        ("127.0.0.1:7800".to_owned(), ListenerProtocol::Any),
        ("127.0.0.1:61613".to_owned(), ListenerProtocol::Stomp),
    ];
    assert_eq!(listeners, expected);
    assert_eq!(config.server.origins, ["same-host", "loopback"]);
    assert!(config.server.sdk);
}

#[test]
fn an_upstream_is_what_file_and_command_line_say() {
    let text = "[[upstream]]\nname = \"a\"\nurls = [\"wss://a:7800/x\", \"tcp://b\"]\ntopics = [\"fx/**\"]\n\
                user = \"ann\"\npassword = \"file:/secret\"\nwhen_away = \"remove after 10min\"\nlinger = \"1s\"\n";
    let of_flags =
        [("name", "b"), ("urls", "ws://c,ws://d"), ("topics", "news/*,x"), ("write", "true")];
    let config = file(text).upstream("edge", &of_flags).load().unwrap().config;
    let [b, a] = &config.upstreams[..] else { unreachable!("{:?}", config.upstreams) };
    let urls: Vec<String> = a.urls.iter().map(ToString::to_string).collect();
    assert_eq!((&*a.name, urls), ("a", vec!["wss://a:7800/x".to_owned(), "tcp://b".to_owned()]));
    let (name, password) = a.login.as_ref().unwrap();
    assert_eq!((name.as_str(), password.expose()), ("ann", "from-file"));
    assert_eq!(
        (a.remove_after, a.linger),
        (Some(Duration::from_secs(600)), Duration::from_secs(1))
    );
    assert_eq!((a.write, b.write), (false, true));
    assert_eq!((b.remove_after, b.linger, b.eager), (None, Duration::from_secs(30), false));
    let topics: Vec<&str> = b.topics.iter().map(Pattern::as_str).collect();
    assert_eq!((b.urls.len(), topics), (2, vec!["news/*", "x"]));
}

#[test]
fn where_to_listen_has_a_short_name_in_the_environment() {
    let setup = || Setup::default().env("TIDERACE_LISTEN", "127.0.0.1:1234");
    for setup in [setup(), setup().development()] {
        let config = setup.load().unwrap().config;
        let addresses: Vec<_> =
            config.listeners.iter().map(|listener| listener.address.to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:1234"]);
    }
}

#[test]
fn flags_outweigh_the_environment_which_outweighs_the_file() {
    let text = "[server]\nshards = 2\nnode = \"file\"\n[log]\nlevel = \"warn\"";
    let setup = file(text)
        .env("TIDERACE_SERVER__SHARDS", "3")
        .env("TIDERACE_SERVER__NODE", "env")
        .env("TIDERACE_PORT", "tcp://10.0.0.1:7800")
        .flag("--shards", "server.shards", "4");
    let loaded = setup.load().unwrap();
    assert_eq!(loaded.config.server.shards, 4);
    assert_eq!(loaded.config.server.node.as_deref(), Some("env"));
    assert_eq!(loaded.config.log.level.as_str(), "warn");
    let origin = |key: &str| {
        let mut settings = loaded.tables.iter().flat_map(|table| &table.settings);
        settings.find(|setting| setting.spec.key == key).unwrap().origin.clone()
    };
    assert_eq!(origin("server.shards"), Origin::Flag("--shards".to_owned()));
    assert_eq!(origin("server.node"), Origin::Environment("TIDERACE_SERVER__NODE".to_owned()));
    assert_eq!(origin("log.level").to_string(), "t.toml:5:1");
    assert_eq!(origin("log.format"), Origin::Default);
}

#[test]
fn the_last_of_two_equal_flags_wins() {
    let setup =
        Setup::default().flag("--shards", "server.shards", "2").flag("--set", "server.shards", "3");
    assert_eq!(setup.load().unwrap().config.server.shards, 3);
}

#[test]
fn listeners_of_the_file_yield_to_a_flag() {
    let text = "[[listener]]\naddress = \"localhost:1\"\nprotocol = \"http\"\nname = \"web\"";
    let config = file(text).load().unwrap().config;
    assert_eq!(config.listeners.len(), 1, "the default of server.listen no longer holds");
    assert_eq!(config.listeners[0].name, "web");
    assert_eq!(config.listeners[0].protocol, ListenerProtocol::Http);

    let config = file(text).flag("--listen", "server.listen", "[::1]:2").load().unwrap().config;
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].address.to_string(), "[::1]:2");

    let both = format!("[server]\nlisten = [\"127.0.0.1:3\"]\n{text}");
    assert_eq!(file(&both).load().unwrap().config.listeners.len(), 2);
}

#[test]
fn a_public_listener_needs_a_login_or_the_override() {
    let text = "[server]\nlisten = [\"*:7800\"]\n";
    assert!(file(text).load().is_err());
    assert!(
        file(text)
            .flag("--insecure-allow-anonymous", "auth.allow_anonymous", "true")
            .load()
            .is_ok()
    );
    let with_user = format!(
        "{text}[[user]]\nname = \"bob\"\npassword = \"env:BOB\"\n\
         [[rule]]\nallow = [\"publish\"]\nprincipals = [\"user:bob\"]\n"
    );
    assert!(file(&with_user).env("BOB", "x").load().is_ok());
}

const WITH_AUTH: &str = r#"
[[user]]
name = "bob"
password = "file:/secret"
groups = ["traders"]
[[user]]
name = "eve"
password_hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"
[[token]]
name = "ci"
secret = "sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1F"
[[token]]
name = "feed"
secret = "env:FEED"
principal = "prices"
groups = ["feeds"]
[[rule]]
allow = ["publish", "subscribe"]
principals = ["group:traders", "user:prices", "anonymous", "*"]
paths = ["fx/**", "metals/*"]
kind = "topic"
[[rule]]
deny = ["admin"]
principals = ["*"]
"#;

#[test]
fn users_tokens_and_rules_are_typed() {
    let auth = file(WITH_AUTH).env("FEED", "s3cret").load().unwrap().config.auth;
    assert!(auth.is_enforced());
    let UserPassword::Plain(password) = &auth.users[0].password else {
        unreachable!("it is a file")
    };
    assert_eq!(password.expose(), "from-file");
    assert!(
        matches!(&auth.users[1].password, UserPassword::Hash(hash) if hash.starts_with("$argon2id$"))
    );
    assert_eq!(auth.tokens[0].principal, "ci");
    let TokenSecret::Digest(digest) = auth.tokens[0].secret else { unreachable!("it is a hash") };
    assert_eq!((digest[0], digest[31]), (0, 0x1f));
    assert_eq!(auth.tokens[1].principal, "prices");
    let rule = &auth.rules[0];
    let effect = RuleEffect::Actions {
        allow: true,
        actions: vec![Action::Publish, Action::Subscribe],
        paths: ["fx/**", "metals/*"].map(pattern).to_vec(),
        kind: RuleKind::Topic,
    };
    assert_eq!(rule.effect, effect);
    let expected = [
        PrincipalMatch::Group("traders".to_owned()),
        PrincipalMatch::User("prices".to_owned()),
        PrincipalMatch::Anonymous,
        PrincipalMatch::Everybody,
    ];
    assert_eq!(rule.principals, expected);
    assert_eq!(auth.rules[1].paths(), ["**"].map(pattern));
    assert!(!auth.rules[1].allows());
}

#[test]
fn a_role_is_given_by_a_rule() {
    let rule = "[[rule]]\nrole = \"operator\"\nprincipals = [\"group:traders\"]\n";
    let auth = file(&format!("{WITH_AUTH}{rule}")).env("FEED", "s3cret");
    let auth = auth.load().unwrap().config.auth;
    let given = auth.rules.last().unwrap();
    assert_eq!(given.effect, RuleEffect::Role(Role::Operator));
    assert_eq!(given.principals, [PrincipalMatch::Group("traders".to_owned())]);
    assert!(given.allows() && given.paths().is_empty());
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

#[test]
fn nothing_shows_a_secret() {
    let loaded = file(WITH_AUTH).env("FEED", "s3cret").load().unwrap();
    let shown = [show_toml(&loaded), show_json(&loaded).to_string(), format!("{loaded:?}")];
    for text in shown {
        for secret in ["s3cret", "from-file", "aGFzaGhhc2g", "0c0d0e0f", "13, 14, 15"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

#[test]
fn what_is_shown_can_be_read_back() {
    let text = "[limits]\nmessage_bytes_max = \"1.5 MiB\"\n[[topic]]\nmatch = \"fx/**\"\nretain = true\n\
                [[listener]]\naddress = \"localhost:9\"\n[[rule]]\nrole = \"viewer\"\nprincipals = [\"*\"]";
    let loaded = file(text).env("TIDERACE_SESSION__OUTBOX_BYTES_MAX", "8mib").load().unwrap();
    assert!(!show_json(&loaded).to_string().contains("rule.paths"));
    let shown = show_toml(&loaded);
    assert!(shown.contains("message_bytes_max = \"1536 KiB\""), "{shown}");
    assert!(shown.contains("# environment variable TIDERACE_SESSION__OUTBOX_BYTES_MAX"), "{shown}");
    assert!(shown.contains("# t.toml:2:1"), "{shown}");
    let again = file(&shown).load().unwrap();
    assert_eq!(again.config, loaded.config);
}

#[test]
fn the_json_form_names_key_value_and_origin() {
    let loaded = file("[[topic]]\nmatch = \"a\"\n[[topic]]\nmatch = \"b\"").load().unwrap();
    let json = show_json(&loaded);
    let second = json.as_array().unwrap().iter().find(|entry| entry["value"] == "b").unwrap();
    assert_eq!(second["key"], "topic.match");
    assert_eq!(second["table"], 1);
    assert_eq!(second["origin"], "t.toml:4:1");
}

#[test]
fn a_file_may_have_very_many_sections() {
    let count = 20_000;
    let mut text = String::new();
    for number in 0..count {
        text += &format!("[[subscription]]\nname = \"s{number}\"\ntopics = [\"prices/*\"]\n\n");
    }
    let loaded = file(&text).load().unwrap();
    assert_eq!(loaded.config.durables.len(), count);
    let last = loaded.tables.iter().rfind(|table| table.section.name == "subscription").unwrap();
    let line = 4 * (count - 1) + 1;
    assert_eq!(last.origin, Origin::File { name: "t.toml".to_owned(), line, column: 1 });
}
