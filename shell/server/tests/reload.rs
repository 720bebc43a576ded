//! A configuration that is read again while clients are connected, by each protocol over real sockets: who goes on, who ends,
//! who may come then, and what a bad file changes.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::program::Directory;
use crate::program::logins::{
    LoggedIn, PROTOCOLS, Show, Stomp, Way, authorization, exchange, log_in,
};
use crate::program::watched::Watched;

const ADMIN: Show<'_> = Show::Token("the token of admin");
const ANN: Show<'_> = Show::Token("the token of ann");
const BOB: Show<'_> = Show::Token("the token of bob");
/// Those that have a session; a request by HTTP shows its own credentials each time.
const LASTING: [&str; 5] = ["stomp", "native", "socketio", "rsocket", "sse"];

const RULES: &str = "[[rule]]\nallow = [\"subscribe\", \"publish\"]\nprincipals = [\"*\"]\n\
                     [[rule]]\nallow = [\"admin\", \"monitor\"]\nprincipals = [\"user:admin\"]\n\
                     paths = [\"$sys/**\"]\n";

/// A server, and the file that it is configured by.
struct Configured {
    directory: Directory,
    server: Watched,
}

impl Configured {
    fn start(name: &str, config: &str) -> Configured {
        let directory = Directory::new(name);
        let server = Watched::start(&directory.0, "", &with_admin(&directory, config));
        Configured { directory, server }
    }

    /// Has the file say something else.
    fn write(&self, config: &str) {
        let file = self.directory.0.join("tiderace.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let head = text.lines().take(3).collect::<Vec<_>>().join("\n");
        std::fs::write(file, format!("{head}\n{}", with_admin(&self.directory, config))).unwrap();
    }

    fn way(&self) -> Way {
        Way::plain(self.server.addresses[0])
    }

    fn tiderace(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .args(arguments)
            .args(["-s", &self.server.addresses[0].to_string(), "--passcode", "the token of admin"])
            .output()
            .unwrap()
    }

    /// Has the file say something else, and the server read it; what has changed and when that is held to.
    fn reload(&self, config: &str) -> Vec<(String, String)> {
        self.write(config);
        let output = self.tiderace(&["reload", "--json"]);
        assert!(output.status.success(), "{output:?}");
        changes(&output)
    }

    fn metric(&self, name: &str) -> u64 {
        let head = format!("GET /metrics HTTP/1.1\r\n{}", authorization(ADMIN));
        let (_, body) = exchange(&self.way(), &head, "");
        let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
    }
}

fn token(directory: &Directory, name: &str, more: &str) -> String {
    let path = directory.0.join(name);
    std::fs::write(&path, format!("the token of {name}")).unwrap();
    format!("[[token]]\nname = {name:?}\nsecret = \"file:{}\"\n{more}", path.display())
}

/// `{ann}` and `{bob}` stand for their tokens.
fn with_admin(directory: &Directory, config: &str) -> String {
    let ann = token(directory, "ann", "");
    let bob = token(directory, "bob", "");
    let config = config.replace("{ann}", &ann).replace("{bob}", &bob);
    format!("{}{config}", token(directory, "admin", ""))
}

fn changes(output: &Output) -> Vec<(String, String)> {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let all = answer["changes"].as_array().unwrap().iter();
    all.map(|change| (text(change, "option"), text(change, "applies"))).collect()
}

/// The next line of the record about a reload by that, with that outcome.
fn recorded(configured: &mut Configured, who: &str, outcome: &str) -> Value {
    loop {
        let lines = configured.server.read_to("audit");
        let record: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        if record["who"] == who && record["outcome"] == outcome {
            assert_eq!(record["verb"], "reload");
            return record;
        }
    }
}

fn change(option: &str, applies: &str) -> (String, String) {
    (option.to_owned(), applies.to_owned())
}

/// Whether that is what a client hears whose credentials are not accepted any more; Socket.IO's connect again by themselves,
/// so they are told no more than that the connection ends.
fn is_over(protocol: &str, said: &str) -> bool {
    match protocol {
        "socketio" => said == "1" || said.contains("Session ID unknown"),
        _ => said.contains("login-expired"),
    }
}

/// A subscription that has been answered.
fn subscribed(way: &Way, show: Show<'_>, destination: &str) -> Stomp {
    let mut stomp = Stomp::log_in(way, show).unwrap();
    stomp.send(&format!("SUBSCRIBE\nid:0\ndestination:{destination}\nreceipt:s\n"));
    assert!(stomp.frame().starts_with("RECEIPT"));
    stomp
}

/// Publishes; whether that is refused.
fn publish(way: &Way, show: Show<'_>, destination: &str, text: &str) -> Result<(), String> {
    let mut stomp = Stomp::log_in(way, show).unwrap();
    stomp.send(&format!("SEND\ndestination:{destination}\nreceipt:p\n\n{text}"));
    let answer = stomp.frame();
    if answer.starts_with("RECEIPT") { Ok(()) } else { Err(answer) }
}

#[test]
fn sessions_of_every_protocol_end_with_their_credentials_and_no_others() {
    let configured = Configured::start("reload-logins", &format!("{{ann}}{{bob}}{RULES}"));
    let way = configured.way();
    let mut anns: Vec<_> =
        LASTING.map(|it| (it, LoggedIn::begin(it, &way, ANN).unwrap())).into_iter().collect();
    let mut bob = subscribed(&way, BOB, "/topic/news");
    let nothing = configured.reload(&format!("{{ann}}{{bob}}{RULES}"));
    assert!(nothing.is_empty(), "{nothing:?}");
    // Half of what says who may come in is not held to: the other half waits for the next start.
    let said = configured
        .reload(&format!("{{bob}}{RULES}[auth_http]\nlogin_url = \"http://127.0.0.1:1/\"\n"));
    assert!(said.contains(&change("token", "restart")), "{said:?}");
    assert!(log_in("stomp", &way, ANN).is_ok());
    let said = configured.reload(&format!("{{bob}}{RULES}"));
    assert_eq!(said, [change("token", "now")]);
    for (protocol, session) in &mut anns {
        let said = session.last_words();
        assert!(is_over(protocol, &said), "{protocol}: {said}");
    }
    for protocol in PROTOCOLS {
        assert!(log_in(protocol, &way, ANN).is_err(), "{protocol}");
    }
    publish(&way, BOB, "/topic/news", "still here").unwrap();
    assert!(bob.frame().contains("still here"));
    // She may come again when the file says so.
    configured.reload(&format!("{{ann}}{{bob}}{RULES}"));
    assert!(log_in("stomp", &way, ANN).is_ok());
    assert_eq!(configured.metric("tiderace_config_refused"), 0);
}

#[test]
fn another_password_ends_the_sessions_that_have_shown_the_one_before() {
    let user =
        |name: &str, file: &str| format!("[[user]]\nname = {name:?}\npassword = \"file:{file}\"\n");
    let secrets = Directory::new("reload-passwords-secrets");
    let file = |name: &str, secret: &str| {
        let path = secrets.0.join(name);
        std::fs::write(&path, secret).unwrap();
        path.display().to_string()
    };
    let (eve, kim) = (user("eve", &file("eve", "first")), user("kim", &file("kim", "kept")));
    let config = format!("{eve}{kim}{RULES}");
    let configured = Configured::start("reload-passwords", &config);
    let way = configured.way();
    let mut eves = LASTING.map(|protocol| {
        (protocol, LoggedIn::begin(protocol, &way, Show::Password("eve", "first")).unwrap())
    });
    let mut kim = subscribed(&way, Show::Password("kim", "kept"), "/topic/news");
    file("eve", "second");
    // The text of the configuration is the same.
    assert_eq!(configured.reload(&config), [change("user", "now")]);
    for (protocol, session) in &mut eves {
        let said = session.last_words();
        assert!(is_over(protocol, &said), "{protocol}: {said}");
    }
    assert!(Stomp::log_in(&way, Show::Password("eve", "first")).is_err());
    assert!(Stomp::log_in(&way, Show::Password("eve", "second")).is_ok());
    publish(&way, Show::Password("kim", "kept"), "/topic/news", "kim stays").unwrap();
    assert!(kim.frame().contains("kim stays"));
}

#[test]
fn those_who_lost_a_right_end_and_others_see_what_the_new_rules_show() {
    let config = |denied: &str| {
        format!(
            "{{ann}}{{bob}}{RULES}[[rule]]\ndeny = [\"subscribe\", \"publish\"]\nprincipals = [\"user:ann\"]\npaths = [\"{denied}\"]\n"
        )
    };
    let configured = Configured::start("reload-rules", &config("secret/a"));
    let way = configured.way();
    let mut exact = subscribed(&way, ANN, "/topic/secret/b");
    let mut pattern = subscribed(&way, ANN, "/topic/secret/**");
    let mut elsewhere = subscribed(&way, ANN, "/topic/open");
    let mut other = subscribed(&way, BOB, "/topic/secret/b");
    publish(&way, BOB, "/topic/secret/b", "before").unwrap();
    for stomp in [&mut exact, &mut pattern, &mut other] {
        assert!(stomp.frame().contains("before"));
    }
    // The publisher's connection has been allowed there, and goes on without that right.
    let mut publisher = Stomp::log_in(&way, ANN).unwrap();
    publisher.send("SEND\ndestination:/topic/secret/b\nreceipt:1\n\nown");
    assert!(publisher.frame().starts_with("RECEIPT"));
    for stomp in [&mut exact, &mut pattern, &mut other] {
        assert!(stomp.frame().contains("own"));
    }
    assert_eq!(configured.reload(&config("secret/b")), [change("rule", "now")]);
    let said = exact.frame();
    assert!(said.starts_with("ERROR") && said.contains("not-authorised"), "{said}");
    publisher.send("SEND\ndestination:/topic/secret/b\nreceipt:2\n\nrefused");
    let said = publisher.frame();
    assert!(said.contains("not-authorised"), "{said}");
    publish(&way, BOB, "/topic/secret/b", "hidden").unwrap();
    publish(&way, BOB, "/topic/secret/a", "shown").unwrap();
    publish(&way, BOB, "/topic/open", "open").unwrap();
    let said = pattern.frame();
    assert!(
        said.contains("shown"),
        "what was denied before is allowed now, and not the other: {said}"
    );
    assert!(elsewhere.frame().contains("open"));
    assert!(other.frame().contains("hidden"));
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_is_told_of() {
    let good = format!("{{ann}}{{bob}}{RULES}");
    let mut configured = Configured::start("reload-refused", &good);
    let way = configured.way();
    let mut ann = subscribed(&way, ANN, "/topic/news");
    let bad = [
        "this is no TOML",
        "[[user]]\nname = \"x\"\npassword = \"file:/does/not/exist\"\n",
        "[[user]]\nname = \"x\"\npassword_hash = \"$argon2id$nonsense\"\n",
        "[log]\nlevel = \"loud\"\n",
        "[log]\nlevle = \"info\"\n",
        "[[rule]]\nallow = [\"fly\"]\nprincipals = [\"*\"]\n",
        "[[rule]]\nallow = [\"publish\"]\nprincipals = [\"nobody:x\"]\n",
        "[[jwt]]\nname = \"i\"\npublic_key = \"/does/not/exist\"\n",
        "[[token]]\nname = \"short\"\nsecret = \"file:/dev/null\"\n",
        "[tls]\ncertificate = \"/does/not/exist\"\n",
        "[[limit]]\nprincipals = [\"*\"]\nmessages_per_second = -1\n",
    ];
    for (count, bad) in (1..).zip(bad) {
        // Without ann, who would have to leave if it were taken in parts.
        configured.write(&format!("{{bob}}{RULES}{bad}"));
        for arguments in [&["reload", "--dry-run"][..], &["reload"]] {
            let output = configured.tiderace(arguments);
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(
                !output.status.success() && text.contains("bad-configuration"),
                "{bad}: {text}"
            );
        }
        assert_eq!(configured.metric("tiderace_config_reloads_total{outcome=\"failed\"}"), count);
        assert_eq!(configured.metric("tiderace_config_refused"), 1);
    }
    configured.server.signal("HUP");
    configured.server.read_to("configuration-refused");
    publish(&way, ANN, "/topic/news", "as before").unwrap();
    assert!(ann.frame().contains("as before"));
    configured.write(&good);
    configured.server.signal("HUP");
    configured.server.read_to("configuration-reloaded");
    assert_eq!(configured.metric("tiderace_config_refused"), 0);
    let record = recorded(&mut configured, "signal", "done");
    assert!(record["result"].as_str().unwrap().contains("\"changes\":["), "{record}");
    assert_eq!(record["from"], Value::Null, "nobody was connected to ask");
}

#[test]
fn a_dry_run_tells_what_would_change_and_who_may_not_ask_is_refused() {
    let good = format!("{{ann}}{{bob}}{RULES}");
    let configured = Configured::start("reload-dry", &good);
    let way = configured.way();
    let mut ann = subscribed(&way, ANN, "/topic/news");
    configured
        .write(&format!("{{bob}}{RULES}[limits]\nheaders_max = 33\n[log]\nlevel = \"warn\"\n"));
    let output = configured.tiderace(&["reload", "--dry-run", "--json"]);
    let expected = [
        change("token", "now"),
        change("limits.headers_max", "restart"),
        change("log.level", "now"),
    ];
    let mut found = changes(&output);
    found.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(found, expected);
    publish(&way, ANN, "/topic/news", "nothing changed").unwrap();
    assert!(ann.frame().contains("nothing changed"));
    // For people.
    let output = configured.tiderace(&["reload", "--dry-run"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line == "limits.headers_max  at the next start"), "{text}");
    for (who, show) in [("ann", ANN), ("admin", ADMIN)] {
        let head = format!("POST /operations HTTP/1.1\r\n{}", authorization(show));
        let (head, body) =
            exchange(&way, &head, &json!({"do": "reload", "dry_run": true}).to_string());
        let is_done = head.starts_with("HTTP/1.1 200");
        assert_eq!(is_done, who == "admin", "{who}: {head}{body}");
        assert!(is_done || body.contains("not-authorised"), "{body}");
    }
}

/// Sessions are looked at again at the end of a turn of their shards: what is asked in a later turn is held to what was found.
fn a_turn_later(sessions: &mut [Stomp], number: u32) {
    for session in sessions {
        session.send(&format!("BEGIN\ntransaction:{number}\nreceipt:turn\n"));
        assert!(session.frame().starts_with("RECEIPT"));
    }
}

#[test]
fn limits_that_change_hold_for_those_who_are_connected() {
    let config = |limits: &str| format!("{{ann}}{{bob}}{RULES}{limits}");
    let limit = |subscriptions: u32| {
        format!(
            "[[limit]]\nprincipals = [\"user:ann\"]\nsubscriptions_max = {subscriptions}\nconnections_max = 1\n"
        )
    };
    let configured = Configured::start("reload-limits", &config(""));
    let way = configured.way();
    let mut anns: Vec<_> = (0..3).map(|_| subscribed(&way, ANN, "/topic/a")).collect();
    let mut bob = subscribed(&way, BOB, "/topic/a");
    let more = |stomp: &mut Stomp, id: u32| {
        stomp.send(&format!("SUBSCRIBE\nid:{id}\ndestination:/topic/b\nreceipt:m\n"));
        stomp.frame()
    };
    assert_eq!(configured.reload(&config(&limit(4))), [change("limit", "now")]);
    a_turn_later(&mut anns, 1);
    assert!(more(&mut anns[0], 5).starts_with("RECEIPT"));
    let said = more(&mut anns[1], 5);
    assert!(said.contains("too-many-subscriptions"), "she has four of all her sessions: {said}");
    // Those who are there stay, though they are more than may be; nobody comes to them.
    assert!(Stomp::log_in(&way, ANN).is_err());
    configured.reload(&config(&limit(1)));
    // The session that was refused has ended.
    anns.remove(1);
    a_turn_later(&mut anns, 2);
    for ann in &mut anns {
        let said = more(ann, 6);
        assert!(said.contains("too-many-subscriptions"), "{said}");
    }
    configured.reload(&config(""));
    assert!(Stomp::log_in(&way, ANN).is_ok());
    assert!(more(&mut bob, 5).starts_with("RECEIPT"));
}

#[test]
fn the_log_says_more_or_less_for_a_while() {
    let mut configured = Configured::start("reload-log", RULES);
    let said = |output: Output| String::from_utf8(output.stdout).unwrap();
    let debug = configured.tiderace(&["log", "--level", "debug", "--for", "1h"]);
    assert_eq!(said(debug), "debug for 1h\n");
    configured.server.read_to("log-level");
    let warn = configured.tiderace(&["log", "--level", "warn"]);
    assert_eq!(said(warn), "warn\n");
    // What is not that important is not written meanwhile.
    configured.reload(RULES);
    assert_eq!(said(configured.tiderace(&["log", "--json"])), "{\"level\":\"info\"}\n");
    configured.reload(RULES);
    configured.server.read_to("configuration-reloaded");
    // It goes back by itself.
    let soon = configured.tiderace(&["log", "--level", "info", "--for", "100ms"]);
    assert_eq!(said(soon), "info for 100ms\n");
    let lines = configured.server.read_to("log-level-over");
    assert!(!lines.iter().any(|line| line.contains("configuration-reloaded")), "{lines:#?}");
}

#[test]
fn a_file_that_changes_is_read_by_itself_if_that_is_wanted() {
    let directory = Directory::new("reload-watch");
    let options = "reload_interval = \"1s\"";
    let server =
        Watched::start(&directory.0, options, &with_admin(&directory, &format!("{{ann}}{RULES}")));
    let mut configured = Configured { directory, server };
    let way = configured.way();
    let mut ann = subscribed(&way, ANN, "/topic/news");
    let file = configured.directory.0.join("tiderace.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{before}[[nonsense]]\n")).unwrap();
    configured.server.read_to("configuration-refused");
    let record = recorded(&mut configured, "interval", "refused");
    assert_eq!(record["code"], "bad-configuration");
    std::fs::remove_file(configured.directory.0.join("ann")).unwrap();
    let without = before.replace(&token(&configured.directory, "ann", ""), "");
    std::fs::write(&file, without).unwrap();
    configured.server.read_to("configuration-reloaded");
    let said = ann.frame();
    assert!(is_over("stomp", &said), "{said}");
}
