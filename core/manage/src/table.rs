//! The table: a new verb is a row here, and the tests say what else it needs.

use crate::fields::{
    ADDRESS, AUDIT, BACKLOG, BACKUP, BLOCKED, BLOCKED_ADDRESS, BLOCKED_FOR, BLOCKS, CHANGED,
    CONFIG, DRAIN, DRY_RUN, FORCE, GROUPS, HOST, ID, IDENTITY, IDENTITY_LIMIT, MOST, NAME,
    NUMBER_AFTER, OPTION_AFTER, OPTION_LIMIT, PAGE_AFTER, PAGE_LIMIT, PATTERN, PRINCIPAL, PROTOCOL,
    QUEUE, REASON, RULE, SELECTOR, SESSION_AFTER, SESSIONS, SORT, STATS, TO, TOKEN, TRACE, UNDER,
    UP_TO, USER, delete, get, number, post, put, span, text, texts, truth, word,
};
use crate::verb::{Field, FieldKind, Verb};
use crate::{Kind, Right, Role};

/// Every verb, by what it is about.
pub const VERBS: &[Verb] = &[
    // Sessions.
    Verb::reads(
        "sessions",
        "Lists sessions: who they are, where their clients are, and how they fare.",
        get("/sessions"),
    )
    .takes(&[
        PROTOCOL,
        PRINCIPAL,
        ADDRESS,
        BACKLOG,
        SORT,
        SESSION_AFTER,
        number("limit", 500, "How many, at most.", "50"),
    ])
    .may(Role::Viewer, &[Right::node("monitor", SESSIONS)])
    .command("connections ls"),
    Verb::reads("show-session", "Shows one session.", get("/sessions/{id}"))
        .is("sessions")
        .takes(&[ID.required()])
        .may(Role::Viewer, &[Right::node("monitor", SESSIONS)])
        .command("connections show ID"),
    Verb::changes(
        "kick",
        "Ends the sessions for which all that is given holds; some of it has to be given.",
        post("/kick"),
    )
    .takes(&[ID, PROTOCOL, PRINCIPAL, ADDRESS, BACKLOG, REASON, DRY_RUN])
    .some_of(&["id", "protocol", "principal", "address", "backlog"])
    .may(Role::Operator, &[Right::node("operate", SESSIONS)])
    .command("connections kick --principal NAME")
    .confirm(),
    Verb::changes("kick-session", "Ends one session.", delete("/sessions/{id}"))
        .is("kick")
        .takes(&[ID.required(), REASON, DRY_RUN])
        .may(Role::Operator, &[Right::node("operate", SESSIONS)])
        .command("connections kick ID"),
    Verb::reads("blocks", "Lists who is kept out, and until when.", get("/blocks"))
        .takes(&[
            text("after", 0, "What `next` was in the page before.", "\"principal=ann\""),
            number("limit", 500, "How many, at most.", "100"),
        ])
        .may(Role::Operator, &[Right::node("operate", BLOCKS)])
        .command("connections blocks"),
    Verb::changes(
        "block",
        "Ends the sessions of a principal, and keeps it out for a while.",
        put("/blocks/principals/{principal}"),
    )
    .takes(&[BLOCKED.required(), BLOCKED_FOR, REASON, FORCE, DRY_RUN])
    .may(Role::Operator, &[Right::node("operate", BLOCKS)])
    .command("connections block --principal NAME")
    .confirm(),
    Verb::changes(
        "block-address",
        "Ends the sessions of clients with an address, or with one in a network, and keeps them out for a while.",
        put("/blocks/addresses/{address}"),
    )
    .is("block")
    .takes(&[BLOCKED_ADDRESS.required(), BLOCKED_FOR, REASON, FORCE, DRY_RUN])
    .may(Role::Operator, &[Right::node("operate", BLOCKS)])
    .command("connections block --address ADDRESS")
    .confirm(),
    Verb::changes("unblock", "Lets a principal in again.", delete("/blocks/principals/{principal}"))
        .takes(&[BLOCKED.required()])
        .may(Role::Operator, &[Right::node("operate", BLOCKS)])
        .command("connections unblock --principal NAME"),
    Verb::changes(
        "unblock-address",
        "Lets an address or a network in again.",
        delete("/blocks/addresses/{address}"),
    )
    .is("unblock")
    .takes(&[BLOCKED_ADDRESS.required()])
    .may(Role::Operator, &[Right::node("operate", BLOCKS)])
    .command("connections unblock --address ADDRESS"),
    Verb::changes("trace", "Begins to tell what sessions do as a series of events.", post("/traces"))
        .takes(&[
            text("session", 0, "What that session does, by its id as lists show it.", "\"0-17-1\""),
            PRINCIPAL,
            ADDRESS,
            text(
                "path",
                0,
                "Only what is about destinations that it names; a path or a pattern.",
                "\"fx/**\"",
            ),
            span("for", 600, "How long it lasts; a minute without it.", "\"5m\""),
            Field {
                name: "sample",
                kind: FieldKind::Fraction,
                required: false,
                says: "Which share of the events of messages is told; all without it.",
                example: "0.1",
            },
            number("bodies", 512, "Bytes that are shown of each body that you may read.", "64"),
        ])
        .some_of(&["session", "principal", "address", "path"])
        .may(Role::Operator, &[Right::node("operate", TRACE)])
        .command("connections trace ID"),
    Verb::reads("traces", "Lists the traces that go on.", get("/traces"))
        .may(Role::Operator, &[Right::node("operate", TRACE)])
        .command("connections traces"),
    Verb::changes("trace-end", "Ends a trace.", delete("/traces/{id}"))
        .takes(&[number("id", 0, "The number that `trace` has answered.", "1").required()])
        .may(Role::Operator, &[Right::node("operate", TRACE)])
        .command("connections untrace ID"),
    // Topics.
    Verb::reads("topics", "Lists topics without their values, in the order of their paths.", get("/topics"))
        .is("fetch")
        .takes(&[
            text("selector", 0, "Topics that match it; all if it is not given.", "\"fx/**\""),
            text("after", 0, "What `next` was in the page before.", "\"fx/EURUSD\""),
            number("limit", 0, "How many, at most; 1,000 are the most.", "1000"),
            number("depth", 0, "Paths with more levels are cut off there, and listed once.", "1"),
            truth("specs", "Whether specifications are wanted."),
        ])
        .may(Role::Viewer, &[Right::of("browse", Kind::Topic, "the topic")])
        .or_nothing()
        .command("topics ls"),
    Verb::reads(
        "topic",
        "Shows a topic without its value, and how many subscriptions it has.",
        get("/topics/{path}"),
    )
    .takes(&[text("path", 0, "The topic.", "\"fx/EURUSD\"").required()])
    .may(Role::Viewer, &[Right::of("browse", Kind::Topic, "the topic")])
    .command("topics show TOPIC"),
    // Queues.
    Verb::reads("queues", "Lists queues, and how they fare.", get("/queues"))
        .takes(&[PATTERN, PAGE_AFTER, PAGE_LIMIT])
        .may(Role::Viewer, &[Right::queue("browse")])
        .command("queues ls"),
    Verb::reads("queue", "Shows a queue with its options and consumers.", get("/queues/{path}"))
        .takes(&[
            QUEUE.required(),
            number("after", 0, "What `next` was in the page before.", "0"),
            PAGE_LIMIT,
        ])
        .may(Role::Viewer, &[Right::queue("browse")])
        .command("queues show QUEUE"),
    Verb::reads(
        "peek",
        "Shows messages that are ready in a queue, and stay there.",
        get("/queues/{path}/messages"),
    )
    .takes(&[
        QUEUE.required(),
        number("from", 0, "The position to begin at.", "0"),
        number("limit", 1_000, "How many, at most.", "20"),
        number("body_bytes", 64 << 10, "Bytes of each body; what is longer is cut.", "4096"),
        SELECTOR,
    ])
    .may(Role::Operator, &[Right::queue("receive")])
    .command("queues peek QUEUE"),
    Verb::changes(
        "purge",
        "Removes the messages that are ready in a queue.",
        post("/queues/{path}/purge"),
    )
    .takes(&[QUEUE.required(), SELECTOR, UP_TO])
    .may(Role::Operator, &[Right::queue("manage")])
    .command("queues purge QUEUE")
    .confirm(),
    Verb::changes(
        "move",
        "Moves the messages that are ready in a queue to another one.",
        post("/queues/{from}/move"),
    )
    .takes(&[
        QUEUE.called("from", "The queue that they are in.").required(),
        TO.required(),
        SELECTOR,
        MOST,
        UP_TO,
    ])
    .may(
        Role::Operator,
        &[Right::queue("manage"), Right::of("send", Kind::Queue, "the queue where they go")],
    )
    .command("queues move QUEUE QUEUE"),
    Verb::changes(
        "redrive",
        "Sends dead letters back to where they came from, as new.",
        post("/queues/{path}/redrive"),
    )
    .takes(&[QUEUE.required(), TO, SELECTOR, MOST, UP_TO])
    .may(
        Role::Operator,
        &[Right::queue("manage"), Right::of("send", Kind::Queue, "the queue where they go")],
    )
    .command("queues redrive QUEUE"),
    Verb::changes(
        "pause",
        "Lets the consumers of a queue wait until it is resumed.",
        post("/queues/{path}/pause"),
    )
    .takes(&[QUEUE.required()])
    .may(Role::Operator, &[Right::queue("manage")])
    .command("queues pause QUEUE"),
    Verb::changes(
        "resume",
        "Gives consumers the messages of a queue again.",
        post("/queues/{path}/resume"),
    )
    .takes(&[QUEUE.required()])
    .may(Role::Operator, &[Right::queue("manage")])
    .command("queues resume QUEUE"),
    // Durable subscriptions.
    Verb::reads(
        "subscriptions",
        "Lists the queues of durable subscriptions.",
        get("/subscriptions"),
    )
    .is("queues")
    .fixed(&[("pattern", "\"dsub/**\"")])
    .takes(&[PAGE_AFTER, PAGE_LIMIT])
    .may(Role::Viewer, &[Right::queue("browse")])
    .command("subscriptions ls"),
    Verb::changes(
        "create-subscription",
        "Makes a durable subscription, or changes what the one of that name gathers.",
        put("/subscriptions/{name}"),
    )
    .takes(&[
        NAME.required(),
        Field {
            name: "topics",
            kind: FieldKind::Texts(64),
            required: true,
            says: "What it gathers: topics and patterns of topics.",
            example: "[\"fx/**\"]",
        },
        SELECTOR,
    ])
    .may(Role::Admin, &[Right::queue("create"), Right::of("subscribe", Kind::Topic, "the topics")])
    .command("subscriptions create NAME TOPIC"),
    Verb::changes(
        "delete-subscription",
        "Ends a durable subscription with all that it has gathered.",
        delete("/subscriptions/{name}"),
    )
    .takes(&[NAME.required()])
    .may(Role::Admin, &[Right::queue("create")])
    .command("subscriptions rm NAME")
    .confirm(),
    // Services.
    Verb::reads(
        "services",
        "Lists what serves, with the exchanges that are open.",
        get("/services"),
    )
    .is("browse")
    .fixed(&[("what", "\"services\"")])
    .takes(&[PAGE_AFTER, PAGE_LIMIT])
    .may(Role::Viewer, &[Right::of("browse", Kind::Service, "the service")])
    .command("services ls"),
    // Views.
    Verb::reads("views", "Lists the views with what they say.", get("/views"))
        .may(Role::Viewer, &[Right::node("monitor", "$sys/views/**")])
        .or_nothing()
        .command("views ls"),
    Verb::changes("view", "Puts a view in place of the one of that name.", put("/views/{name}"))
        .takes(&[
            NAME.required(),
            text("text", 0, "What it says.", "\"map desk/* to desks/<path(1)>\"").required(),
        ])
        .may(Role::Admin, &[Right::node("admin", "$sys/views/**")])
        .command("views put NAME TEXT"),
    Verb::changes("unview", "Takes a view away.", delete("/views/{name}"))
        .takes(&[NAME.required()])
        .may(Role::Admin, &[Right::node("admin", "$sys/views/**")])
        .command("views rm NAME"),
    // Who may come in, and who may do what.
    Verb::reads("users", "Lists users, without their passwords.", get("/users"))
        .takes(&[NUMBER_AFTER, IDENTITY_LIMIT])
        .may(Role::Admin, IDENTITY)
        .command("users ls"),
    Verb::changes("put-user", "Adds a user, or puts it in place of the one of that name.", put("/users/{name}"))
        .takes(&[
            USER.required(),
            text("password", 1024, "Its password; without it and `password_hash`: the one that it has.", "\"a long one\""),
            text("password_hash", 0, "An argon2id hash of its password, as `tiderace password` prints it.", "\"$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA\""),
            GROUPS,
            HOST,
            DRY_RUN,
        ])
        .may(Role::Admin, IDENTITY)
        .command("users put NAME"),
    Verb::changes("remove-user", "Removes a user that was put, and ends its sessions.", delete("/users/{name}"))
        .takes(&[USER.required(), DRY_RUN])
        .may(Role::Admin, IDENTITY)
        .command("users rm NAME")
        .confirm(),
    Verb::reads("tokens", "Lists tokens, without what is shown for them.", get("/tokens"))
        .takes(&[NUMBER_AFTER, IDENTITY_LIMIT])
        .may(Role::Admin, IDENTITY)
        .command("tokens ls"),
    Verb::changes("put-token", "Adds a token, or puts it in place of the one of that name.", put("/tokens/{name}"))
        .takes(&[
            TOKEN.required(),
            text(
                "secret",
                0,
                "`sha256:` and the hash of the token in hexadecimal, as `tiderace password --token` prints it; without it: the one that there is.",
                "\"sha256:0\"",
            ),
            text("principal", 1024, "Who its bearer is; without it: who is called like the token.", "\"ann\""),
            GROUPS,
            HOST,
            span("for", 3_650 * 86_400, "For how long it is good; without it: until it is removed.", "\"30d\""),
            DRY_RUN,
        ])
        .may(Role::Admin, IDENTITY)
        .command("tokens put NAME"),
    Verb::changes("remove-token", "Removes a token that was put, and ends the sessions that began with it.", delete("/tokens/{name}"))
        .takes(&[TOKEN.required(), DRY_RUN])
        .may(Role::Admin, IDENTITY)
        .command("tokens rm NAME")
        .confirm(),
    Verb::reads("rules", "Lists the rules in the order of their numbers.", get("/rules"))
        .takes(&[NUMBER_AFTER, IDENTITY_LIMIT])
        .may(Role::Admin, IDENTITY)
        .command("rules ls"),
    Verb::changes("put-rule", "Adds a rule, or puts it in place of the one of that name.", put("/rules/{name}"))
        .takes(&[
            RULE.required(),
            texts("allow", "The actions that it allows; one of `allow`, `deny` and `role` is given.", "[\"publish\"]"),
            texts("deny", "The actions that it denies.", "[\"publish\"]"),
            word("role", Role::NAMES, "The role that it gives; such a rule has neither `paths` nor `kind`.", "\"viewer\""),
            texts("principals", "Whom it concerns: `user:NAME`, `group:NAME`, `anonymous`, or `*`.", "[\"group:sales\"]").required(),
            texts("paths", "Where, as patterns; everywhere if neither it nor `role` is given.", "[\"fx/**\"]"),
            word("kind", &["any", "queue", "service", "topic"], "For which kind of destinations.", "\"any\""),
            DRY_RUN,
        ])
        .may(Role::Admin, IDENTITY)
        .command("rules put NAME"),
    Verb::changes("remove-rule", "Removes a rule that was put.", delete("/rules/{name}"))
        .takes(&[RULE.required(), DRY_RUN])
        .may(Role::Admin, IDENTITY)
        .command("rules rm NAME")
        .confirm(),
    // The node.
    Verb::reads("alarms", "Shows what is wrong, and what to do.", get("/alarms"))
        .is("fetch")
        .fixed(&[("selector", "\"$sys/alarms/*\""), ("values", "true"), ("limit", "1000")])
        .may(Role::Viewer, &[Right::node("monitor", "$sys/alarms/*")])
        .or_nothing()
        .command("alarms"),
    Verb::reads(
        "explain",
        "Says whether somebody may do something, and which rule decides.",
        get("/explain"),
    )
    .takes(&[
        text("who", 0, "Who: a name, or `anonymous`; `@HOST/` before it for who connects by a virtual host.", "\"ann\"")
            .required(),
        Field {
            name: "groups",
            kind: FieldKind::Texts(64),
            required: false,
            says: "Groups besides those that users and tokens of that name have in the configuration.",
            example: "[\"sales\"]",
        },
        Field {
            name: "claims",
            kind: FieldKind::Texts(64),
            required: false,
            says: "Claims of the login, each as `NAME=VALUE`.",
            example: "[\"tenant=acme\"]",
        },
        word("action", ACTIONS, "What: an action of the rules.", "\"publish\"").required(),
        word(
            "kind",
            &["topic", "queue", "service"],
            "On what; without it, what the action is for.",
            "\"topic\"",
        ),
        text("path", 0, "Where, as that client writes it.", "\"fx/EUR-USD\"").required(),
    ])
    .may(Role::Admin, &[Right::node("admin", CONFIG)])
    .command("explain WHO ACTION PATH"),
    Verb::reads("config", "Shows which configuration the server holds to, and what of it waits.", get("/config"))
        .takes(&[UNDER, CHANGED, OPTION_AFTER, OPTION_LIMIT])
        .may(Role::Admin, &[Right::node("admin", CONFIG)])
        .command("config running"),
    Verb::reads("audit", "Shows who has changed what, and who was not to.", get("/audit"))
        .takes(&[
            number("after", 0, "Behind which number; without it, the last that there are.", "17"),
            number("limit", 500, "How many, at most.", "100"),
            text("who", 1024, "What that principal has asked for.", "\"oli\""),
            text("verb", 1024, "What is called so in the record.", "\"kick\""),
        ])
        .may(Role::Operator, &[Right::node("operate", AUDIT)])
        .command("audit"),
    Verb::reads("stats", "Tells what the node counts, as its metrics do.", get("/stats"))
        .may(Role::Viewer, &[Right::node("monitor", STATS)])
        .command("top"),
    Verb::changes("drain", "Sends the clients of the node to other nodes.", post("/drain"))
        .takes(&[
            span("over", 86_400, "Over how long the goodbyes are spread.", "\"10m\"").required(),
            span("delay", 3_600, "How long `/readyz` says so before listeners close.", "\"5s\""),
            Field {
                name: "to",
                kind: FieldKind::Texts(0),
                required: false,
                says: "Where clients are told to go, the best first.",
                example: "[\"wss://b.example.org/tiderace\"]",
            },
            truth("exit", "Whether the server stops when all have left."),
        ])
        .may(Role::Operator, &[Right::node("operate", DRAIN)])
        .command("drain --over DURATION")
        .confirm(),
    Verb::reads("drain-state", "Says how far a drain has come.", get("/drain"))
        .may(Role::Viewer, &[Right::node("monitor", DRAIN)])
        .command("drain --status"),
    Verb::changes(
        "drain-cancel",
        "Takes a drain back: listeners open again, and who has not left stays.",
        delete("/drain"),
    )
    .may(Role::Operator, &[Right::node("operate", DRAIN)])
    .command("drain --cancel"),
    Verb::changes(
        "log",
        "Says which lines the log gets; without `level`, as the configuration has it.",
        put("/log"),
    )
    .takes(&[
        word(
            "level",
            &["error", "warn", "info", "debug", "trace"],
            "The least important lines that are written.",
            "\"info\"",
        ),
        span(
            "for",
            86_400,
            "After how long the level is as it was configured; goes with `level`.",
            "\"15m\"",
        ),
    ])
    .may(Role::Operator, &[Right::node("operate", "$sys/log")])
    .command("log --level LEVEL"),
    Verb::changes(
        "reload",
        "Has the configuration read again, and says what that changes.",
        post("/reload"),
    )
    .takes(&[DRY_RUN])
    .may(Role::Admin, &[Right::node("admin", CONFIG)])
    .command("reload"),
    Verb::changes("backup", "Begins a copy of what is stored.", post("/backup"))
        .takes(&[DRY_RUN])
        .may(Role::Admin, &[Right::node("admin", BACKUP)])
        .command("backup FILE"),
    // A piece is given once, so it is nothing that a proxy or a client may ask for again by itself.
    Verb::changes("backup-read", "Reads the next bytes of a backup.", post("/backup/{backup}/read"))
        .takes(&[
            number("backup", 0, "The number that `backup` has answered.", "7").required(),
            number("from", 0, "How many bytes were read.", "0").required(),
        ])
        .may(Role::Admin, &[Right::node("admin", BACKUP)])
        .command("backup FILE"),
];

/// The actions of the rules.
pub const ACTIONS: &[&str] = &[
    "admin",
    "browse",
    "call",
    "create",
    "manage",
    "monitor",
    "operate",
    "publish",
    "receive",
    "relay",
    "send",
    "serve",
    "subscribe",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rest;
    use crate::{Effect, Place};

    #[test]
    fn each_verb_has_all_that_a_verb_has() {
        for verb in VERBS {
            let name = verb.name;
            assert_eq!(VERBS.iter().filter(|other| other.name == name).count(), 1, "{name}");
            assert!(verb.says.ends_with('.') && !verb.rights.is_empty(), "{name}");
            assert!(!verb.command.is_empty(), "{name} has no words on the command line");
            let Rest { method, path } = verb.rest;
            assert!(path.starts_with('/') && path.matches('{').count() < 2, "{name}: {path}");
            let is_read = method == "GET";
            assert_eq!(is_read, verb.effect == Effect::Reads, "{name}: {method} says otherwise");
            let same = VERBS.iter().filter(|other| other.rest == verb.rest);
            assert_eq!(same.count(), 1, "{method} {path} is several verbs");
            if let Some(field) = verb.rest.field() {
                let required = verb.field(field).is_some_and(|field| field.required);
                assert!(required, "{name}: {field} stands in the path");
            }
            for field in verb.fields {
                assert!(field.says.ends_with('.'), "{name}.{}", field.name);
                let is_fixed = verb.fixed.iter().any(|(fixed, _)| *fixed == field.name);
                let count = verb.fields.iter().filter(|other| other.name == field.name).count();
                assert!(!is_fixed && count == 1, "{name}.{} stands twice", field.name);
            }
        }
    }

    #[test]
    fn no_path_hides_another() {
        for verb in VERBS {
            let path = verb.rest.path.replace(['{', '}'], "");
            let place = Place::of(&path).map(|place| place.verb(verb.rest.method));
            assert_eq!(place.flatten().map(|verb| verb.name), Some(verb.name), "{path}");
        }
    }

    #[test]
    fn roles_have_the_rights_of_their_verbs_and_no_role_before_them() {
        for verb in VERBS {
            for role in Role::ALL {
                let covers = |right: &Right| {
                    role.rules().iter().any(|rule| {
                        let is_node = right.at.starts_with("$sys");
                        let is_there =
                            rule.paths.iter().any(|path| path.starts_with("$sys") == is_node);
                        let is_kind = rule.kind == Kind::Any || rule.kind == right.kind;
                        rule.allow.contains(&right.action) && is_there && is_kind
                    })
                };
                let may = verb.rights.iter().all(covers);
                assert_eq!(may, role >= verb.role, "{} {}", verb.name, role.name());
            }
        }
    }

    #[test]
    fn an_operation_takes_what_any_of_its_verbs_has() {
        assert_eq!(
            crate::members("kick"),
            ["id", "protocol", "principal", "address", "backlog", "reason", "dry_run"]
        );
        assert_eq!(crate::members("browse"), ["what", "after", "limit"]);
        assert_eq!(crate::operations().filter(|name| *name == "queues").count(), 1);
        assert!(crate::members("nothing").is_empty());
    }
}
