//! Where a server is looked after: at every listener, or only where that is to be.

use std::io::{Read, Write};

use serde_json::{Value, json};
use tiderace_manage::VERBS;

use crate::connections::ask;
use crate::management::{Node, is_done, operation, resource, token_of};
use crate::program::logins::{LoggedIn, Show, Way, authorization, exchange};
use crate::program::{Directory, FREE};

const ELSEWHERE: &str = "managed-elsewhere";

/// A server with a listener for clients, one for those who look after it, and an admin socket.
fn apart(name: &str) -> (Node, [(Way, bool); 3]) {
    let directory = Directory::new(name);
    let socket = directory.0.join("admin.sock");
    let more = format!(
        "[[listener]]\naddress = {FREE:?}\nmanagement = true\n\
         [management]\nlisteners = \"marked\"\nsocket = {socket:?}\n"
    );
    let node = Node::with(directory, &more);
    let [clients, management] = node.server.addresses[..] else { panic!("two addresses") };
    let ways = [Way::plain(clients), Way::plain(management), Way::local(&socket)];
    let [clients, management, local] = ways;
    (node, [(clients, true), (management, false), (local, false)])
}

/// One request as the admin; on the admin socket nobody has to say so.
fn request(way: &Way, method: &str, target: &str, body: &str) -> (u16, Value) {
    let token = token_of("admin");
    let show = if way.socket.is_some() { Show::Nothing } else { Show::Token(&token) };
    let head = format!("{method} {target} HTTP/1.1\r\n{}", authorization(show));
    let (head, body) = exchange(way, &head, body);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn each_verb_of_the_node_is_answered_only_where_the_node_is_looked_after() {
    let (node, ways) = apart("ways");
    let (mut cells, mut refused) = (0, 0);
    for verb in VERBS {
        let of_node = verb.rights.iter().any(|right| right.at.starts_with("$sys"));
        for (way, for_clients) in &ways {
            let token = token_of("admin");
            let show = if way.socket.is_some() { Show::Nothing } else { Show::Token(&token) };
            let mut native = LoggedIn::begin("native", way, show).unwrap();
            for by in ["rest", "operation", "native"] {
                cells += 1;
                node.prepare(verb);
                let (fields, _) = node.tried(verb, cells);
                let asked = operation(verb, &fields);
                let (status, answer) = match by {
                    "rest" => {
                        let (target, body) = resource(verb, &fields);
                        request(way, verb.rest.method, &target, &body)
                    }
                    "operation" => request(way, "POST", "/operations", &asked.to_string()),
                    _ => match ask(&mut native, &asked) {
                        Ok(answer) => (200, answer),
                        Err(code) if code == ELSEWHERE => (403, json!({ "code": code })),
                        Err(code) => (400, json!({ "code": code })),
                    },
                };
                let case = format!("{} by {by} at {:?}: {status} {answer}", verb.name, way.socket);
                if of_node && *for_clients {
                    refused += 1;
                    assert_eq!((status, &answer["code"]), (403, &json!(ELSEWHERE)), "{case}");
                    continue;
                }
                assert!(is_done(verb, status), "{case}");
            }
        }
        node.operate("admin", &json!({"do": "drain-cancel"}));
    }
    assert_eq!(cells, VERBS.len() * 9);
    let all = VERBS.iter().filter(|it| it.rights.iter().any(|right| right.at.starts_with("$sys")));
    assert_eq!(refused, 3 * all.count());
}

#[test]
fn what_the_server_counts_is_told_where_it_is_looked_after() {
    let (node, [(clients, _), (management, _), (local, _)]) = apart("ways-metrics");
    let get = |way: &Way, target: &str| exchange(way, &format!("GET {target} HTTP/1.1\r\n"), "");
    let (head, body) = get(&clients, "/metrics");
    assert!(head.starts_with("HTTP/1.1 403 ") && body.contains(ELSEWHERE), "{head}{body}");
    assert!(body.contains("management = true"), "{body}");
    for way in [&management, &local] {
        let (head, body) = get(way, "/metrics");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
    }
    // Alarms are topics, which who may monitor may watch, and no operations.
    let token = authorization(Show::Token("the token of viewer"));
    let watch = |way: &Way| {
        let head = format!("GET /events?topic=$sys/alarms/* HTTP/1.1\r\n{token}");
        let mut wire = way.open();
        write!(wire, "{head}Host: localhost\r\n\r\n").unwrap();
        let mut said = [0; 1024];
        let count = wire.read(&mut said).unwrap();
        String::from_utf8_lossy(&said[..count]).into_owned()
    };
    assert!(watch(&management).starts_with("HTTP/1.1 200 "));
    let said = watch(&clients);
    assert!(said.starts_with("HTTP/1.1 403 ") && said.contains(ELSEWHERE), "{said}");
    // Whether it is ready is everybody's business, and what could be asked is no secret.
    for target in ["/readyz", "/livez", "/manage/openapi.json"] {
        assert!(get(&clients, target).0.starts_with("HTTP/1.1 200 "), "{target}");
    }
    // What applications do goes on by their rights.
    let fetched = json!({"do": "fetch", "selector": "made/*"}).to_string();
    let (status, page) = request(&clients, "POST", "/operations", &fetched);
    assert_eq!((status, page["topics"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
    // The record says who was refused there.
    request(&clients, "POST", "/operations", &json!({"do": "drain-cancel"}).to_string());
    let (_, audit) = node.operate("admin", &json!({"do": "audit", "verb": "drain-cancel"}));
    let record = &audit["records"][0];
    assert_eq!((&record["who"], &record["outcome"]), (&json!("admin"), &json!("refused")));
    assert_eq!(record["code"], ELSEWHERE, "{audit}");
}

#[test]
fn a_session_does_not_take_its_way_along_to_another_listener() {
    let (_node, [(clients, _), (management, _), _]) = apart("ways-sessions");
    let poll = |way: &Way, session: &str| {
        let head = format!("GET /socket.io/?EIO=4&transport=polling{session} HTTP/1.1\r\n");
        exchange(way, &head, "").1
    };
    let opened = poll(&management, "");
    let opened: Value = serde_json::from_str(opened.strip_prefix('0').unwrap()).unwrap();
    let session = format!("&sid={}", opened["sid"].as_str().unwrap());
    assert!(poll(&clients, &session).contains("unknown"), "another way");
    let head = format!("POST /socket.io/?EIO=4&transport=polling{session} HTTP/1.1\r\n");
    exchange(&management, &head, &format!("40{}", json!({"token": token_of("admin")})));
    assert!(poll(&management, &session).starts_with("40"), "its own way");
}
