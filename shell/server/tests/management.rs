//! Each verb of the table by each way as each role, and the requests that docs/management.md prints.
//!
//! Whatever the table has is tried: a verb that this file does not know, or that lacks a way, fails.

use std::cell::Cell;
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tiderace_manage::{Right, Role, VERBS, Verb};

use crate::alarms::TIMEOUT;
use crate::connections::ask;
use crate::program::Directory;
use crate::program::logins::{LoggedIn, Show, Way, authorization, exchange};
use crate::program::watched::Watched;
use crate::readme::commands_of;

/// Somebody with no role; others have the names of their roles, or that of the only verb whose rights they have.
pub(crate) const NONE: &str = "none";
/// A hash of a password that nobody has.
const HASH: &str =
    "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$GpZ3sK/oH9p7VIiV56G/64Zo/8GaUw434IimaPqxwCo";
/// A hash of a token that nobody has.
const DIGEST: &str = "sha256:00000000000000000000000000000000000000000000000000000000000000ff";
/// Somebody who makes the topic that is looked at.
const MAKER: &str = "maker";

/// A server with somebody for each role, and for the rights of each verb alone.
pub(crate) struct Node {
    pub(crate) directory: Directory,
    pub(crate) server: Watched,
    /// A session of ann's, and its id.
    _ann: LoggedIn,
    session: String,
    /// The trace that was begun last for one to be ended.
    trace: Cell<u64>,
}

pub(crate) fn token_of(name: &str) -> String {
    format!("the token of {name}")
}

/// Who has the rights of a verb and no others.
fn only(verb: &Verb) -> String {
    format!("only-{}", verb.name)
}

impl Node {
    pub(crate) fn start(name: &str) -> Node {
        Node::with(Directory::new(name), "")
    }

    /// The same with more in its configuration; it is looked after at the last of its addresses.
    pub(crate) fn with(directory: Directory, more: &str) -> Node {
        let store = directory.0.join("store");
        let mut config = format!("{more}[auth]\nmanaged = true\n[store]\ndirectory = {store:?}\n");
        let mut rules = String::new();
        let roles = Role::ALL.map(|role| role.name().to_owned());
        let alone = VERBS.iter().map(only);
        for name in [NONE, "ann", MAKER].map(str::to_owned).into_iter().chain(roles).chain(alone) {
            let file = directory.0.join(format!("{name}.token"));
            std::fs::write(&file, token_of(&name)).unwrap();
            let secret = format!("file:{}", file.display());
            config += &format!("[[token]]\nname = {name:?}\nsecret = {secret:?}\n");
        }
        rules += &format!(
            "[[rule]]\nallow = [\"publish\", \"create\"]\nprincipals = [\"user:{MAKER}\"]\npaths = [\"made/**\"]\nkind = \"topic\"\n"
        );
        for role in Role::ALL {
            let name = role.name();
            rules += &format!("[[rule]]\nrole = {name:?}\nprincipals = [\"user:{name}\"]\n");
        }
        for verb in VERBS {
            let who = format!("user:{}", only(verb));
            rules.extend(verb.rights.iter().map(|right| right.to_toml(&[&who])));
        }
        let server = Watched::start(&directory.0, "", &(config + &rules));
        let way = Way::plain(*server.addresses.last().unwrap());
        let ann = LoggedIn::begin("stomp", &way, Show::Token(&token_of("ann"))).unwrap();
        let mut node =
            Node { directory, server, _ann: ann, session: String::new(), trace: Cell::new(0) };
        let made = json!({"do": "update", "path": "made/a", "text": "1"});
        assert_eq!(node.operate(MAKER, &made).0, 200);
        let (_, listed) = node.operate("admin", &json!({"do": "sessions", "principal": "ann"}));
        node.session = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
        for queue in ["made%2Fjobs", "made%2Fdead", "made%2Flater"] {
            assert_eq!(node.request("admin", "POST", &format!("/queues/{queue}"), "one").0, 200);
        }
        let view = r#"{"text":"map made/* to seen/<path(1)>"}"#;
        assert_eq!(node.request("admin", "PUT", "/manage/views/seen", view).0, 200);
        node
    }

    pub(crate) fn way(&self) -> Way {
        Way::plain(*self.server.addresses.last().unwrap())
    }

    pub(crate) fn request(
        &self,
        who: &str,
        method: &str,
        target: &str,
        body: &str,
    ) -> (u16, Value) {
        let authorization = authorization(Show::Token(&token_of(who)));
        let head = format!("{method} {target} HTTP/1.1\r\n{authorization}");
        let (head, body) = exchange(&self.way(), &head, body);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    pub(crate) fn operate(&self, who: &str, operation: &Value) -> (u16, Value) {
        self.request(who, "POST", "/operations", &operation.to_string())
    }

    pub(crate) fn run(&self, who: &str, arguments: &[String]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tiderace"))
            .args(arguments)
            .args(["-s", &self.server.addresses[0].to_string(), "--passcode", &token_of(who)])
            .output()
            .unwrap()
    }

    /// What a verb is tried with: its fields, and the words of its command.
    pub(crate) fn tried(&self, verb: &Verb, cell: usize) -> (Value, String) {
        let session = &self.session;
        let jobs = json!({"path": "made/jobs"});
        match verb.name {
            "sessions" => (json!({"sort": "backlog"}), "connections ls --json".to_owned()),
            "show-session" => (json!({"id": session}), format!("connections show {session}")),
            "kick" => {
                (json!({"principal": "nobody"}), "connections kick --principal nobody".to_owned())
            }
            "kick-session" => (
                json!({"id": session, "dry_run": true}),
                format!("connections kick {session} --dry-run"),
            ),
            "blocks" => (json!({}), "connections blocks".to_owned()),
            "block" => (
                json!({"principal": "nobody", "for": "1m"}),
                "connections block --principal nobody --for 1m --yes".to_owned(),
            ),
            "block-address" => (
                json!({"address": "192.0.2.0/24", "for": "1m"}),
                "connections block --address 192.0.2.0/24 --for 1m --yes".to_owned(),
            ),
            "unblock" => (
                json!({"principal": "nobody"}),
                "connections unblock --principal nobody".to_owned(),
            ),
            "unblock-address" => (
                json!({"address": "192.0.2.0/24"}),
                "connections unblock --address 192.0.2.0/24".to_owned(),
            ),
            "trace" => (
                json!({"principal": "nobody", "for": "30s"}),
                "connections trace --principal nobody --for 200ms".to_owned(),
            ),
            "traces" => (json!({}), "connections traces".to_owned()),
            "trace-end" => {
                let id = self.trace.get();
                (json!({"id": id}), format!("connections untrace {id}"))
            }
            "topics" => (json!({"selector": "made/*", "limit": 7}), "topics ls made/*".to_owned()),
            "topic" => (json!({"path": "made/a"}), "topics show made/a".to_owned()),
            "queues" => (json!({"pattern": "made/*"}), "queues ls made/*".to_owned()),
            "queue" => (jobs, "queues show made/jobs".to_owned()),
            "peek" => (jobs, "queues peek made/jobs".to_owned()),
            "purge" => (
                json!({"path": "made/jobs", "selector": "a=1"}),
                "queues purge made/jobs --yes --selector a=1".to_owned(),
            ),
            "move" => (
                json!({"from": "made/jobs", "to": "made/later", "selector": "a=1"}),
                "queues move made/jobs made/later --selector a=1".to_owned(),
            ),
            "redrive" => (
                json!({"path": "made/dead", "to": "made/later", "selector": "a=1"}),
                "queues redrive made/dead --to made/later --selector a=1".to_owned(),
            ),
            "pause" => (jobs, "queues pause made/jobs".to_owned()),
            "resume" => (jobs, "queues resume made/jobs".to_owned()),
            "subscriptions" => (json!({}), "subscriptions ls".to_owned()),
            "create-subscription" => (
                json!({"name": "made", "topics": ["made/**"]}),
                "subscriptions create made made/**".to_owned(),
            ),
            "delete-subscription" => {
                (json!({"name": "made"}), "subscriptions rm made --yes".to_owned())
            }
            "services" => (json!({}), "services ls".to_owned()),
            "views" => (json!({}), "views ls".to_owned()),
            "view" => {
                (json!({"name": "made", "text": "map a to b"}), "views put made -f VIEW".to_owned())
            }
            "unview" => (json!({"name": "made"}), "views rm made".to_owned()),
            "alarms" => (json!({}), "alarms".to_owned()),
            "explain" => (
                json!({"who": "ann", "action": "send", "path": "made/jobs"}),
                "explain ann send made/jobs".to_owned(),
            ),
            "config" => (json!({"under": "log", "limit": 7}), "config running log".to_owned()),
            "users" => (json!({}), "users ls".to_owned()),
            "put-user" => (
                json!({"name": "made-user", "password_hash": HASH, "groups": ["made"]}),
                format!("users put made-user --hash {HASH} --group made"),
            ),
            "remove-user" => (json!({"name": "made-user"}), "users rm made-user --yes".to_owned()),
            "tokens" => (json!({}), "tokens ls".to_owned()),
            "put-token" => (
                json!({"name": "made-token", "secret": DIGEST, "for": "1h"}),
                format!("tokens put made-token --secret {DIGEST} --for 1h"),
            ),
            "remove-token" => {
                (json!({"name": "made-token"}), "tokens rm made-token --yes".to_owned())
            }
            "rules" => (json!({}), "rules ls".to_owned()),
            "put-rule" => (
                json!({"name": "made-rule", "allow": ["publish"], "principals": ["user:nobody"]}),
                "rules put made-rule --allow publish --principal user:nobody".to_owned(),
            ),
            "remove-rule" => (json!({"name": "made-rule"}), "rules rm made-rule --yes".to_owned()),
            "audit" => (json!({}), "audit".to_owned()),
            "stats" => (json!({}), "top --once --interval 100ms".to_owned()),
            "drain" => (
                json!({"over": "1s", "delay": "1h"}),
                "drain --over 1s --delay 1h --no-wait".to_owned(),
            ),
            "drain-state" => (json!({}), "drain --status".to_owned()),
            "drain-cancel" => (json!({}), "drain --cancel".to_owned()),
            "log" => (json!({"level": "info"}), "log --level info".to_owned()),
            "reload" => (json!({}), "reload".to_owned()),
            "backup" => (json!({"dry_run": true}), "backup --dry-run".to_owned()),
            "backup-read" => {
                let file = self.directory.0.join(format!("{cell}.backup"));
                (json!({"backup": 1, "from": 0}), format!("backup {}", file.display()))
            }
            other => panic!("{other} is new: say here how it is tried"),
        }
    }

    /// As many may go on at once as there are cells of a role.
    fn end_traces(&self) {
        let (_, listed) = self.operate("admin", &json!({"do": "traces"}));
        for trace in listed["traces"].as_array().unwrap() {
            let ended = self.operate("admin", &json!({"do": "trace-end", "id": trace["id"]}));
            assert_eq!(ended.0, 200, "{ended:?}");
        }
    }

    /// Has there what a verb is about, whatever was done before.
    pub(crate) fn prepare(&self, verb: &Verb) {
        let drain = json!({"do": "drain", "over": "1s", "delay": "1h"});
        let done = match verb.name {
            "delete-subscription" => {
                json!({"do": "create-subscription", "name": "made", "topics": "made/**"})
            }
            "unview" => json!({"do": "view", "name": "made", "text": "map a to b"}),
            "unblock" => json!({"do": "block", "principal": "nobody", "for": "1m"}),
            "unblock-address" => json!({"do": "block", "address": "192.0.2.0/24", "for": "1m"}),
            "remove-user" => json!({"do": "put-user", "name": "made-user", "password_hash": HASH}),
            "remove-token" => json!({"do": "put-token", "name": "made-token", "secret": DIGEST}),
            "remove-rule" => json!({
                "do": "put-rule", "name": "made-rule", "deny": ["publish"], "principals": ["user:nobody"]
            }),
            "trace" => return self.end_traces(),
            "trace-end" => {
                self.end_traces();
                let (_, begun) = self.operate("admin", &json!({"do": "trace", "path": "made/a"}));
                return self.trace.set(begun["id"].as_u64().unwrap());
            }
            "drain" => json!({"do": "drain-cancel"}),
            "drain-cancel" | "alarms" => drain,
            _ => return,
        };
        // Some of it is so already.
        self.operate("admin", &done);
        let begun = Instant::now();
        let wants_alarm = verb.name == "alarms";
        while wants_alarm
            && self.request("admin", "GET", "/manage/alarms", "").1["topics"] == json!([])
        {
            assert!(begun.elapsed() < TIMEOUT, "a drain is an alarm");
            std::thread::yield_now();
        }
    }
}

/// The operation that a verb is with those fields.
pub(crate) fn operation(verb: &Verb, fields: &Value) -> Value {
    let mut members = Map::from_iter([("do".to_owned(), json!(verb.operation))]);
    for (name, value) in verb.fixed {
        members.insert((*name).to_owned(), serde_json::from_str(value).unwrap());
    }
    members.extend(fields.as_object().unwrap().clone());
    Value::Object(members)
}

fn encoded(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The same as a request: target and body.
pub(crate) fn resource(verb: &Verb, fields: &Value) -> (String, String) {
    let mut fields = fields.as_object().unwrap().clone();
    let mut target = format!("/manage{}", verb.rest.path);
    if let Some(name) = verb.rest.field() {
        let value = encoded(&fields.remove(name).unwrap());
        target = target.replace(&format!("{{{name}}}"), &value);
    }
    if verb.rest.has_body() {
        return (target, Value::Object(fields).to_string());
    }
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if !pairs.is_empty() {
        target = format!("{target}?{}", pairs.join("&"));
    }
    (target, String::new())
}

/// What an answer says of who has asked: whether it may, and whether there is anything in it.
fn allowed(verb: &Verb, answer: &Value) -> bool {
    if verb.hides {
        let lists = answer.as_object().into_iter().flatten().map(|(_, value)| value);
        return lists.filter_map(Value::as_array).any(|list| !list.is_empty());
    }
    answer["code"] != "not-authorised"
}

/// The answers that say that somebody may, and yet no more than that.
pub(crate) fn is_done(verb: &Verb, status: u16) -> bool {
    // There is no backup of that number.
    status == if verb.name == "backup-read" { 400 } else { 200 }
}

/// The status of an answer: what is not allowed is refused with 403, and a list that hides shows nothing instead.
fn is_right(verb: &Verb, found: bool, status: u16) -> bool {
    match found {
        true => is_done(verb, status),
        false => status == if verb.hides { 200 } else { 403 },
    }
}

#[test]
fn each_verb_by_each_way_as_each_role_is_as_the_table_says() {
    let node = Node::start("management");
    let view = node.directory.0.join("view");
    std::fs::write(&view, "map a to b").unwrap();
    let mut cells = 0;
    let mut wrong = Vec::new();
    for verb in VERBS {
        assert!(
            !verb.command.is_empty() && !verb.rest.path.is_empty(),
            "{} lacks a way",
            verb.name
        );
        let roles = Role::ALL.iter().map(|role| (role.name(), *role >= verb.role));
        for (who, may) in [(NONE, false)].into_iter().chain(roles) {
            let mut native =
                LoggedIn::begin("native", &node.way(), Show::Token(&token_of(who))).unwrap();
            for way in ["rest", "operation", "native", "command"] {
                cells += 1;
                node.prepare(verb);
                let (fields, command) = node.tried(verb, cells);
                let operation = operation(verb, &fields);
                let (found, shown) = match way {
                    "rest" => {
                        let (target, body) = resource(verb, &fields);
                        let (status, answer) = node.request(who, verb.rest.method, &target, &body);
                        let found = allowed(verb, &answer);
                        assert!(is_right(verb, found, status), "{verb:?} {who}: {answer}");
                        (found, format!("{status} {answer}"))
                    }
                    "operation" => {
                        let (status, answer) = node.operate(who, &operation);
                        let found = allowed(verb, &answer);
                        assert!(is_right(verb, found, status), "{verb:?} {who}: {answer}");
                        (found, format!("{status} {answer}"))
                    }
                    "native" => {
                        let answer = ask(&mut native, &operation);
                        let code = |code: &String| json!({ "code": code });
                        let value = answer.as_ref().map_or_else(code, Value::clone);
                        let refused = answer.as_ref().err().map(String::as_str);
                        let expected = ["not-authorised", "bad-operation"];
                        let of_backup = usize::from(verb.name == "backup-read");
                        assert!(
                            refused.is_none_or(|code| expected[..=of_backup].contains(&code)),
                            "{verb:?} {who}: {answer:?}"
                        );
                        (allowed(verb, &value), format!("{answer:?}"))
                    }
                    _ => {
                        let words = command.replace("VIEW", &view.display().to_string());
                        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                        let output = node.run(who, &words);
                        let said = String::from_utf8_lossy(&output.stderr).into_owned();
                        let refused =
                            output.status.code() == Some(3) && said.contains("(not-authorised)");
                        assert!(refused || output.status.success(), "{command} {who}: {output:?}");
                        let hidden = verb.hides && output.stdout.is_empty();
                        (!refused && !hidden, format!("{output:?}"))
                    }
                };
                if found != may {
                    wrong.push(format!("{} by {way} as {who}: {shown}", verb.name));
                }
            }
        }
        node.operate("admin", &json!({"do": "drain-cancel"}));
    }
    assert_eq!(cells, VERBS.len() * 4 * 4);
    assert!(wrong.is_empty(), "{} of {cells} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether who has a right may what takes another one.
fn is_enough(had: &Right, asked: &Right) -> bool {
    let is_more = had.action == "admin"
        // Who may drain may see how that stands.
        || had.action == "operate" && asked.at == "$sys/drain";
    (had.kind, had.at) == (asked.kind, asked.at) && (had.action == asked.action || is_more)
}

#[test]
fn the_rights_of_the_table_are_enough_and_no_others_are() {
    let node = Node::start("management-rights");
    for verb in VERBS {
        for other in VERBS {
            node.prepare(verb);
            let (fields, _) = node.tried(verb, 0);
            let (status, answer) = node.operate(&only(other), &operation(verb, &fields));
            let covers = |asked: &Right| other.rights.iter().any(|had| is_enough(had, asked));
            // Who may subscribe to topics may list them as well.
            let subscribes = other.rights.iter().any(|right| right.action == "subscribe");
            let may = verb.rights.iter().all(covers) || verb.name == "topics" && subscribes;
            let case = format!("{} by the rights of {}: {status} {answer}", verb.name, other.name);
            assert_eq!(allowed(verb, &answer), may, "{case}");
            assert!(!may || is_done(verb, status), "{case}");
        }
        node.operate("admin", &json!({"do": "drain-cancel"}));
    }
}

#[test]
fn the_requests_of_the_page_do_what_it_says() {
    let node = Node::start("management-page");
    assert_eq!(node.request("admin", "POST", "/queues/jobs%2Fmail", "hello").0, 200);
    let said: Vec<Value> = commands_of("docs/management.md", "## By HTTP")
        .iter()
        .map(|line| {
            let line = line
                .replace("127.0.0.1:7800", &node.server.addresses[0].to_string())
                .replace("0-4-1", &node.session);
            let output = Command::new("sh")
                .args(["-c", &line])
                .env("TOKEN", token_of("operator"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {output:?}"))
        })
        .collect();
    let [sessions, dry, kicked, queue, purged, document] = &said[..] else { panic!("{said:?}") };
    assert_eq!(sessions["sessions"][0]["name"], "ann");
    assert_eq!(dry, &json!({"sessions": 1, "dry_run": true}));
    assert_eq!(kicked, &json!({"sessions": 1, "dry_run": false}));
    assert_eq!((&queue["path"], &queue["messages"]), (&json!("jobs/mail"), &json!(1)));
    assert_eq!(purged["messages"], 1);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["paths"]["/sessions"]["get"]["operationId"], "sessions");
}
