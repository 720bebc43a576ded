//! Every way to get a configuration wrong, with the exact sentence the operator reads.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use support::{Setup, file};

/// A file and the problems it must cause, one per line.
const BAD_FILES: &[(&str, &str)] = &[
    // Syntax.
    ("[server", "t.toml:1:8: this is not valid TOML: unclosed table, expected `]`"),
    (
        "[server]\nshards = ",
        "t.toml:2:10: this is not valid TOML: string values must be quoted, expected literal string",
    ),
    ("[server]\nshards = 1\nshards = 2", "t.toml:3:1: this is not valid TOML: duplicate key"),
    // Unknown names.
    ("[sever]\nshards = 1", "t.toml:1:2: unknown section `sever`; did you mean `server`?"),
    ("[elephants]\n", "t.toml:1:2: unknown section `elephants`"),
    ("shards = 4", "t.toml:1:1: unknown key `shards`; did you mean `shards` in [server]?"),
    ("colour = 4", "t.toml:1:1: unknown key `colour`"),
    ("[server]\nshard = 4", "t.toml:2:1: unknown key `shard` in [server]; did you mean `shards`?"),
    (
        "[server]\nheaders_max = 9",
        "t.toml:2:1: unknown key `headers_max` in [server]; did you mean `headers_max` in [limits]?",
    ),
    ("[log]\ncolour = 9", "t.toml:2:1: unknown key `colour` in [log]; it has `format`, `level`"),
    (
        "[[listener]]\nadress = \"127.0.0.1:1\"",
        "t.toml:1:1: [[listener]] needs `address`: an address such as \"127.0.0.1:7800\" or \"stomp://127.0.0.1:61613\"\nt.toml:2:1: unknown key `adress` in [[listener]]; did you mean `address`?",
    ),
    // Tables and lists of tables.
    ("[topic]\nmatch = \"fx\"", "t.toml:1:2: `topic` is a list of tables; write [[topic]]"),
    ("[[limits]]\nheaders_max = 9", "t.toml:1:3: `limits` is one table; write [limits]"),
    ("limits = 3", "t.toml:1:1: `limits` is one table; write [limits]"),
    ("user = [1]", "t.toml:1:9: `user` is a list of tables; write [[user]]"),
    // By which ways it is looked after.
    (
        "[management]\nlisteners = \"marked\"",
        "t.toml:2:1: management.listeners: nobody could look after the server; set `management = true` for a [[listener]], or name a management.socket",
    ),
    (
        "[management]\nsocket = \"admin.sock\"",
        "t.toml:2:1: management.socket: name the whole path, such as /run/tiderace/admin.sock",
    ),
    // Proxies.
    (
        "[proxy]\nheader = \"x-forwarded-for\"",
        "t.toml:2:1: proxy.header: nobody is trusted to say whom they serve; name the addresses of the proxies in proxy.trusted",
    ),
    (
        "[proxy]\nprotocol = \"accept\"",
        "t.toml:2:1: proxy.protocol: nobody is trusted to say whom they serve; name the addresses of the proxies in proxy.trusted",
    ),
    (
        "[proxy]\ntrusted = [\"127.0.0.1\"]",
        "t.toml:2:1: proxy.trusted: the proxies are believed in nothing; set proxy.header to the field by which they name their clients, or proxy.protocol to \"accept\" or \"require\"",
    ),
    (
        "[proxy]\nheader = \"forwarded\"\ntrusted = [\"10.0.0.1/8\"]",
        "t.toml:3:12: proxy.trusted: expected an IP address such as \"127.0.0.1\" or a network such as \"10.0.0.0/8\", but found \"10.0.0.1/8\": the address has bits beyond its prefix; write 10.0.0.0/8, or the address without a prefix",
    ),
    (
        "[proxy]\nheader = \"forwarded\"\ntrusted = [\"0.0.0.0/0\"]",
        "t.toml:3:12: proxy.trusted: expected an IP address such as \"127.0.0.1\" or a network such as \"10.0.0.0/8\", but found \"0.0.0.0/0\": /0 is every address there is; name those that are meant",
    ),
    (
        "[proxy]\ntrusted = [\"127.0.0.1\"]\nheader = \"x-forwarded-for\"",
        "127.0.0.1:7800 can be reached by clients of proxies, but nobody would have to log in; add a [[user]], [[token]], [[jwt]] or [auth_http] and a [[rule]], leave [proxy] out, or accept the risk with --insecure-allow-anonymous",
    ),
    // Types and ranges.
    (
        "[server]\nshards = \"4\"",
        "t.toml:2:10: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found \"4\"",
    ),
    (
        "[server]\nshards = -1",
        "t.toml:2:10: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found -1",
    ),
    (
        "[server]\nshards = 5000",
        "t.toml:2:10: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found 5000",
    ),
    (
        "[server]\nshards = 1.5",
        "t.toml:2:10: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found 1.5",
    ),
    (
        "[server]\nshards = 99999999999999999999999999999999999999999999",
        "t.toml:2:10: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found a number that is too long",
    ),
    (
        "[server]\nnode = \"two words\"",
        "t.toml:2:8: server.node: expected a name of 1 to 128 characters without white space, control characters, `*`, `#`, `+` or `>`, but found \"two words\"",
    ),
    (
        "[server]\nlisten = \"127.0.0.1:1\"",
        "t.toml:2:10: server.listen: expected a list whose elements are an address such as \"127.0.0.1:7800\" or \"stomp://127.0.0.1:61613\", but found \"127.0.0.1:1\"",
    ),
    (
        "[server]\nlisten = [\"127.0.0.1\"]",
        "t.toml:2:11: server.listen: expected an address such as \"127.0.0.1:7800\" or \"stomp://127.0.0.1:61613\", but found \"127.0.0.1\"",
    ),
    (
        "[server]\nlisten = []",
        "t.toml:2:1: server.listen: the list is empty; name at least one address to listen on",
    ),
    (
        "[limits]\nmessage_bytes_max = \"16 apples\"",
        "t.toml:2:21: limits.message_bytes_max: expected a size from 1 KiB to 1 GiB, such as \"64 KiB\", but found \"16 apples\"",
    ),
    (
        "[limits]\nmessage_bytes_max = 5",
        "t.toml:2:21: limits.message_bytes_max: expected a size from 1 KiB to 1 GiB, such as \"64 KiB\", but found 5",
    ),
    (
        "[limits]\nmessage_bytes_max = true",
        "t.toml:2:21: limits.message_bytes_max: expected a size from 1 KiB to 1 GiB, such as \"64 KiB\", but found true",
    ),
    (
        "[limits]\nhead_timeout = 5",
        "t.toml:2:16: limits.head_timeout: expected a duration from 100ms to 10min, such as \"5s\" or \"250ms\", but found 5 without a unit; did you mean \"5s\"?",
    ),
    (
        "[limits]\nhead_timeout = \"1ms\"",
        "t.toml:2:16: limits.head_timeout: expected a duration from 100ms to 10min, such as \"5s\" or \"250ms\", but found \"1ms\"",
    ),
    (
        "[limits]\nhead_timeout = 2026-11-21",
        "t.toml:2:16: limits.head_timeout: expected a duration from 100ms to 10min, such as \"5s\" or \"250ms\", but found a date",
    ),
    (
        "[topics]\nretain = \"yes\"",
        "t.toml:2:10: topics.retain: expected true or false, but found \"yes\"",
    ),
    (
        "[topics]\npersistent = true",
        "t.toml:2:1: topics.persistent: nothing can be persistent without a store; set store.directory",
    ),
    (
        "[[topic]]\nmatch = \"a/**\"\npersistent = true",
        "t.toml:3:1: topic.persistent: nothing can be persistent without a store; set store.directory",
    ),
    (
        "[topics]\nslow_consumer = \"drop-oldst\"",
        "t.toml:2:17: topics.slow_consumer: expected one of \"block\", \"conflate\", \"disconnect\", \"drop-newest\", \"drop-oldest\", but found \"drop-oldst\"; did you mean `drop-oldest`?",
    ),
    (
        "[topics]\nslow_consumer = \"spill\"",
        "t.toml:2:17: topics.slow_consumer: expected one of \"block\", \"conflate\", \"disconnect\", \"drop-newest\", \"drop-oldest\", but found \"spill\"",
    ),
    (
        "[memory]\nmessages_bytes_max = \"120 %\"",
        "t.toml:2:22: memory.messages_bytes_max: expected a share of the memory such as \"25 %\", or a size such as \"4 GiB\", but found \"120 %\"",
    ),
    (
        "[stomp]\nwebsocket_paths = [\"stomp\"]",
        "t.toml:2:20: stomp.websocket_paths: expected the path of a URL such as \"/stomp\", but found \"stomp\"",
    ),
    (
        "[[topic]]\nmatch = \"fx/**/x\"",
        "t.toml:2:9: topic.match: expected a pattern such as \"fx/EUR-USD\", \"fx/*\" (one level) or \"fx/**\" (all below), but found \"fx/**/x\": level 2 of the pattern: `**` stands only as the whole last level, and a level has at most 4 stars",
    ),
    (
        "[[queue]]\nprefetch_count = 5",
        "t.toml:1:1: [[queue]] needs `match`: a pattern such as \"fx/EUR-USD\", \"fx/*\" (one level) or \"fx/**\" (all below)",
    ),
    // Options that bound each other.
    (
        "[session]\noutbox_bytes_max = \"512 KiB\"",
        "t.toml:2:1: session.outbox_bytes_low (1 MiB) must not exceed session.outbox_bytes_max (512 KiB); lower the one or raise the other",
    ),
    (
        "[session]\noutbox_bytes_max = \"1 MiB\"",
        "t.toml:2:1: session.outbox_bytes_low must be below session.outbox_bytes_max; half of it is usual",
    ),
    (
        "[limits]\nmessage_bytes_max = \"128 MiB\"\ntransaction_bytes_max = \"256 MiB\"",
        "t.toml:2:1: limits.message_bytes_max (128 MiB) must not exceed queues.memory_bytes_max (64 MiB); lower the one or raise the other",
    ),
    (
        "[[feed]]\nkind = \"timed\"\npath = \"a//b\"",
        "t.toml:3:1: feed.path: \"a//b\" is no path such as \"demo/fx\": level 2 of the name is empty (levels are joined by single separators)",
    ),
    (
        "[[subscription]]\nname = \"a//b\"\ntopics = [\"x\"]",
        "t.toml:2:1: subscription.name: a durable subscription cannot have that name: level 2 of the name is empty (levels are joined by single separators)",
    ),
    (
        "[[subscription]]\nname = \"a\"\ntopics = [\"x\"]\nselector = \"a =\"",
        "t.toml:4:1: subscription.selector: at byte 3 of the selector: unexpected end: expected a header name, a number, 'text', TRUE, FALSE, NULL or `(`",
    ),
    (
        "[[subscription]]\nname = \"a\"\ntopics = []",
        "t.toml:3:1: subscription.topics: 1 to 64 topics feed one, but 0 are listed",
    ),
    (
        "[[subscription]]\nname = \"a\"\ntopics = [\"x\"]\n[[subscription]]\nname = \"a\"\ntopics = [\"y\"]",
        "t.toml:5:1: subscription.name: two durable subscriptions are called \"a\"",
    ),
    (
        "[[quota]]\nprincipal = \"ann\"\n[[quota]]\nprincipal = \"ann\"\nbytes_max = \"1 GiB\"",
        "t.toml:4:1: quota.principal: two quotas are those of \"ann\"",
    ),
    (
        "[[view]]\nname = \"v\"\ntext = \"map a into b\"",
        "t.toml:3:1: view.text: line 1, column 7: expected `to` and a path, or `where`, `set`, `remove`, `insert`, `patch`, `as`, found `into`\n  map a into b\n        ^",
    ),
    (
        "[[view]]\nname = \"v\"\ntext = \"map a to b\"\n[[view]]\nname = \"v\"\ntext = \"map c to d\"",
        "t.toml:5:1: view.name: two views are called \"v\"",
    ),
    (
        "[queues]\ndead_letter = \"dlq//{queue}\"",
        "t.toml:2:1: queues.dead_letter: \"dlq//{queue}\" does not become a path such as \"dlq/{queue}\": level 2 of the name is empty (levels are joined by single separators)",
    ),
    (
        "[[queue]]\nmatch = \"@shop/a\"\ndead_letter = \"@bank/failed\"",
        "t.toml:3:1: queue.dead_letter: \"@bank/failed\" is in another virtual host than \"@shop\"; dead letters stay in their host",
    ),
    (
        "[[queue]]\nmatch = \"a\"\ndead_letter = \"{topic}\"",
        "t.toml:3:1: queue.dead_letter: \"{topic}\" does not become a path such as \"dlq/{queue}\": {queue} is the only placeholder",
    ),
    (
        "[server]\norigins = [\"https://example.org/app\"]",
        "t.toml:2:1: server.origins: \"https://example.org/app\" is no origin; write \"same-host\", \"loopback\", \"*\" or one such as \"https://example.org\" without a path",
    ),
    // Listeners.
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"localhost:1\"",
        "t.toml:4:1: 127.0.0.1:1 is listened on twice; remove one",
    ),
    (
        "[[listener]]\naddress = \"127.0.0.1:1\"\nprotocol = \"stmop\"",
        "t.toml:3:12: listener.protocol: expected one of \"any\", \"http\", \"rsocket\", \"stomp\", but found \"stmop\"; did you mean `stomp`?",
    ),
    (
        "[server]\nlisten = [\"0.0.0.0:7800\"]",
        "0.0.0.0:7800 can be reached by other machines, but nobody would have to log in; add a [[user]], [[token]], [[jwt]] or [auth_http] and a [[rule]], listen on 127.0.0.1 only, or accept the risk with --insecure-allow-anonymous",
    ),
    // Users, tokens and rules.
    (
        "[[user]]\nname = \"bob\"",
        "t.toml:1:1: user \"bob\" needs exactly one of `password_hash` (from `tiderace password`) and `password`",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:BOB\"\npassword_hash = \"$argon2id$x\"",
        "t.toml:1:1: user \"bob\" needs exactly one of `password_hash` (from `tiderace password`) and `password`",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"hunter2\"",
        "t.toml:3:12: user.password: expected \"file:PATH\" or \"env:NAME\"; secrets in clear text are refused",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword_hash = \"$2b$12$abc\"",
        "t.toml:3:17: user.password_hash: expected a hash that starts with \"$argon2id$\", or \"file:PATH\" or \"env:NAME\"; secrets in clear text are refused",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:NOBODY\"",
        "t.toml:3:1: user.password: env:NOBODY cannot be read: the variable is not set",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:EMPTY\"",
        "t.toml:3:1: user.password: env:EMPTY is empty; put the secret there",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"file:/missing\"",
        "t.toml:3:1: user.password: file:/missing cannot be read: no such file",
    ),
    (
        "[[user]]\nname = \"*\"\npassword = \"env:BOB\"",
        "t.toml:2:8: user.name: expected a name of 1 to 128 characters without white space, control characters, `*`, `#`, `+` or `>`, but found \"*\"",
    ),
    // A server that is asked about logins, and certificates that log in.
    (
        "[auth_http]\nlogin_url = \"http://app.example.org/login\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: auth_http.login_url: \"http://app.example.org/login\" would have passwords go over the network in the clear, or is no address; use https://, or http:// on this machine",
    ),
    (
        "[auth_http]\nlogin_url = \"app.example.org\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: auth_http.login_url: \"app.example.org\" would have passwords go over the network in the clear, or is no address; use https://, or http:// on this machine",
    ),
    (
        "[auth_http]\nlogin_url = \"https://\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: auth_http.login_url: \"https://\" names no host, or no port from 1 to 65535; write one such as \"https://app.example.org/login\"",
    ),
    (
        "[[jwt]]\nname = \"id\"\nkeys = \"https://:443/keys\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:3:1: jwt.keys: \"https://:443/keys\" names no host, or no port from 1 to 65535; write one such as \"https://id.example.org/keys\", or a file",
    ),
    (
        "[[limit]]\nprincipals = [\"ann\"]\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: limit.principals: \"ann\" names nobody; write \"user:NAME\", \"group:NAME\", \"anonymous\" or \"*\" for everybody",
    ),
    (
        "[[limit]]\nprincipals = [\"*\"]\nper = \"address\"\n[[limit]]\nprincipals = [\"anonymous\"]\nper = \"address\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:5:1: limit.principals: an earlier [[limit]] with per = \"address\" is for everybody, so this one would never apply; put it before that one",
    ),
    (
        "[[limit]]\nprincipals = [\"*\"]\nconnections_max = 5",
        "t.toml:2:1: a [[limit]] is by who clients are, and this server believes every name: it has no [[user]], [[token]], [[jwt]], [auth_http], client certificates or [[rule]]; add one, such as [[rule]] allow = [\"publish\", \"subscribe\"], principals = [\"*\"]",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"\nunanswered = \"allow\"",
        "t.toml:3:1: auth_http.unanswered = \"allow\" needs auth_http.unanswered_user, the user that clients are then",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"\ntimeout = \"5s\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:3:1: auth_http.timeout: 5s is not below limits.login_timeout, 5s; clients would be given up before they could be let in",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"",
        "t.toml:2:1: no [[rule]] allows anything, so everything would be refused; add one such as [[rule]] allow = [\"publish\", \"subscribe\"], principals = [\"*\"], paths = [\"**\"]",
    ),
    (
        "[[auth_http_header]]\nname = \"X-Key\"\nvalue = \"env:BOB\"",
        "t.toml:1:1: auth_http_header: nobody is asked, so no request has the field; set auth_http.login_url",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"\n[[auth_http_header]]\nname = \"Host\"\nvalue = \"env:BOB\"",
        "t.toml:4:1: auth_http_header.name: \"Host\" is no name of a field that can be set",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"\n[[auth_http_header]]\nname = \"X-Key\"\nvalue = \"clear\"",
        "t.toml:5:9: auth_http_header.value: expected \"file:PATH\" or \"env:NAME\"; secrets in clear text are refused",
    ),
    (
        "[auth_http]\nlogin_url = \"https://app.example.org\"\n[[auth_http_header]]\nname = \"X-Key\"\nvalue = \"env:TWO_LINES\"",
        "t.toml:5:1: auth_http_header.value: env:TWO_LINES has a line break or another character that no field may have; it must be one line",
    ),
    (
        "[auth_http]\nlogin_url = \"https://push:secret@app.example.org/login\"\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: auth_http.login_url: an address with a user or password in it would get into logs; set them by [[auth_http_header]], as \"Authorization\"",
    ),
    (
        "[[telemetry_header]]\nname = \"X-Key\"\nvalue = \"env:BOB\"",
        "t.toml:1:1: telemetry_header: nothing is posted, so no request has the field; set telemetry.endpoint",
    ),
    (
        "[telemetry]\nendpoint = \"http://collector:4318/v1/traces\"\n[[telemetry_header]]\nname = \"X-Key\"\nvalue = \"env:BOB\"",
        "t.toml:2:1: telemetry.endpoint: \"http://collector:4318/v1/traces\" would have the values of [[telemetry_header]] go over the network in the clear; use https://, or http:// on this machine",
    ),
    (
        "[telemetry]\nendpoint = \"collector:4318\"",
        "t.toml:2:1: telemetry.endpoint: \"collector:4318\" is no address with a host; write one such as \"http://127.0.0.1:4318/v1/traces\"",
    ),
    (
        "[telemetry]\nendpoint = \"https://me:secret@collector/v1/traces\"",
        "t.toml:2:1: telemetry.endpoint: an address with a user or password in it would get into logs; set them by [[telemetry_header]], as \"Authorization\"",
    ),
    (
        "[telemetry]\nendpoint = \"https://collector\"\n[[telemetry_header]]\nname = \"X-Key\"\nvalue = \"env:TWO_LINES\"",
        "t.toml:5:1: telemetry_header.value: env:TWO_LINES has a line break or another character that no field may have; it must be one line",
    ),
    (
        "[telemetry]\nendpoint = \"https://collector\"\n[[telemetry_header]]\nname = \"Content-Type\"\nvalue = \"env:BOB\"",
        "t.toml:4:1: telemetry_header.name: \"Content-Type\" is no name of a field that can be set",
    ),
    (
        "[tls]\nclient_names = [\"dns\"]\n[[rule]]\nallow = [\"call\"]\nprincipals = [\"*\"]",
        "t.toml:2:1: tls.client_names: clients are not asked for certificates; set tls.client_authorities",
    ),
    // Virtual hosts.
    (
        "[[virtual_host]]\nname = \"a/b\"\nhosts = [\"a.example\"]",
        "t.toml:2:1: virtual_host.name: \"a/b\" is no name of a virtual host; use up to 64 letters, digits, `-` and `_`",
    ),
    (
        "[[virtual_host]]\nname = \"a\"\nhosts = []",
        "t.toml:3:1: virtual_host.hosts: the list is empty, so nobody could reach it",
    ),
    (
        "[[virtual_host]]\nname = \"a\"\nhosts = [\"a.example:80\"]",
        "t.toml:3:1: virtual_host.hosts: \"a.example:80\" is no name of a host; write one such as \"shop.example\" or \"*.shop.example\", without a port",
    ),
    (
        "[[virtual_host]]\nname = \"a\"\nhosts = [\"a.*.example\"]",
        "t.toml:3:1: virtual_host.hosts: \"a.*.example\" is no name of a host; write one such as \"shop.example\" or \"*.shop.example\", without a port",
    ),
    (
        "[[virtual_host]]\nname = \"a\"\nhosts = [\"x.example\"]\n[[virtual_host]]\nname = \"a\"\nhosts = [\"X.example\"]",
        "t.toml:5:1: there is already a virtual_host \"a\"; names are unique\nt.toml:6:1: virtual_host.hosts: \"X.example\" stands twice; a name leads to one host",
    ),
    (
        "[virtual_hosts]\nunknown = \"refuse\"",
        "t.toml:2:1: virtual_hosts.unknown: without a [[virtual_host]] everybody would be refused; add one or use \"whole\"",
    ),
    (
        "[[virtual_host]]\nname = \"shop\"\nhosts = [\"shop\"]\n[[user]]\nname = \"bob\"\npassword = \"env:BOB\"\nhost = \"shob\"\n[[rule]]\nallow = [\"send\"]\nprincipals = [\"*\"]",
        "t.toml:7:1: user.host: there is no [[virtual_host]] with the name \"shob\"; did you mean `shop`?; `*` means the whole tree",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:BOB\"\n[[user]]\nname = \"bob\"\npassword = \"env:BOB\"",
        "t.toml:5:1: there is already a user \"bob\"; names are unique",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:BOB\"",
        "t.toml:1:1: no [[rule]] allows anything, so everything would be refused; add one such as [[rule]] allow = [\"publish\", \"subscribe\"], principals = [\"*\"], paths = [\"**\"]",
    ),
    (
        "[[token]]\nname = \"t\"\nsecret = \"abc\"",
        "t.toml:3:10: token.secret: expected a hash that starts with \"sha256:\", or \"file:PATH\" or \"env:NAME\"; secrets in clear text are refused",
    ),
    (
        "[[token]]\nname = \"t\"\nsecret = \"sha256:12\"",
        "t.toml:3:1: token.secret: expected \"sha256:\" and 64 hexadecimal digits, as `tiderace password --token` prints them",
    ),
    (
        "[[rule]]\nprincipals = [\"*\"]",
        "t.toml:1:1: a [[rule]] needs exactly one of `allow`, `deny` and `role`; write a rule for each",
    ),
    (
        "[[rule]]\nallow = [\"send\"]\ndeny = [\"send\"]\nprincipals = [\"*\"]",
        "t.toml:1:1: a [[rule]] needs exactly one of `allow`, `deny` and `role`; write a rule for each",
    ),
    (
        "[[rule]]\nrole = \"viewer\"\ndeny = [\"send\"]\nprincipals = [\"*\"]",
        "t.toml:1:1: a [[rule]] needs exactly one of `allow`, `deny` and `role`; write a rule for each",
    ),
    (
        "[[rule]]\nrole = \"viewer\"\nallow = [\"send\"]\nprincipals = [\"*\"]",
        "t.toml:1:1: a [[rule]] needs exactly one of `allow`, `deny` and `role`; write a rule for each",
    ),
    (
        "[[rule]]\nrole = \"viewer\"\nprincipals = []",
        "t.toml:3:1: rule.principals: the list is empty, so the rule would never apply; fill it or remove the rule",
    ),
    (
        "[[rule]]\nrole = \"vewer\"\nprincipals = [\"*\"]",
        "t.toml:2:8: rule.role: expected one of \"viewer\", \"operator\", \"admin\", but found \"vewer\"; did you mean `viewer`?",
    ),
    (
        "[[rule]]\nrole = \"viewer\"\nprincipals = [\"*\"]\npaths = [\"$sys/**\"]",
        "t.toml:4:1: rule.paths: a rule that gives a role has no `paths`, since the role says where; write a rule with `allow` for a part of it",
    ),
    (
        "[[rule]]\nrole = \"viewer\"\nprincipals = [\"*\"]\nkind = \"any\"",
        "t.toml:4:1: rule.kind: a rule that gives a role has no `kind`, since the role says where; write a rule with `allow` for a part of it",
    ),
    (
        "[[rule]]\nallow = [\"publsh\"]\nprincipals = [\"*\"]",
        "t.toml:2:10: rule.allow: expected one of \"admin\", \"browse\", \"call\", \"create\", \"manage\", \"monitor\", \"operate\", \"publish\", \"receive\", \"relay\", \"send\", \"serve\", \"subscribe\", but found \"publsh\"; did you mean `publish`?",
    ),
    (
        "[[rule]]\nallow = []\nprincipals = [\"*\"]",
        "t.toml:2:1: rule.allow: the list is empty, so the rule would never apply; fill it or remove the rule",
    ),
    (
        "[[rule]]\nallow = [\"send\"]",
        "t.toml:1:1: [[rule]] needs `principals`: a list whose elements are a text of 1 to 1,024 characters",
    ),
    (
        "[[rule]]\nallow = [\"send\"]\nprincipals = [\"bob\"]",
        "t.toml:3:1: rule.principals: \"bob\" names nobody; write \"user:NAME\", \"group:NAME\", \"anonymous\" or \"*\"",
    ),
    (
        "[[rule]]\nallow = [\"send\"]\nprincipals = [\"user:bob\"]",
        "t.toml:3:1: rule.principals: no user or token is called `bob`",
    ),
    (
        "[[user]]\nname = \"bob\"\npassword = \"env:BOB\"\ngroups = [\"traders\"]\n[[rule]]\nallow = [\"send\"]\nprincipals = [\"group:tradrs\"]",
        "t.toml:7:1: rule.principals: no user or token belongs to the group `tradrs`; did you mean `traders`?",
    ),
    (
        "[[rule]]\nallow = [\"send\"]\nprincipals = [\"*\"]\npaths = [\"/fx\"]",
        "t.toml:4:10: rule.paths: expected a pattern such as \"fx/EUR-USD\", \"fx/*\" (one level) or \"fx/**\" (all below), but found \"/fx\": level 1 of the name is empty (levels are joined by single separators)",
    ),
    (
        "[[rule]]\ndeny = [\"send\"]\nprincipals = [\"*\"]",
        "t.toml:1:1: no [[rule]] allows anything, so everything would be refused; add one such as [[rule]] allow = [\"publish\", \"subscribe\"], principals = [\"*\"], paths = [\"**\"]",
    ),
    // Several problems come together, in the order of the file.
    (
        "[server]\nshard = 1\n[log]\nlevel = \"loud\"",
        "t.toml:2:1: unknown key `shard` in [server]; did you mean `shards`?\nt.toml:4:9: log.level: expected one of \"debug\", \"error\", \"info\", \"trace\", \"warn\", but found \"loud\"",
    ),
];

#[test]
fn a_bad_file_is_refused_with_a_sentence_that_helps() {
    let mut failures = Vec::new();
    for (text, expected) in BAD_FILES {
        let actual = match file(text)
            .env("BOB", "secret")
            .env("EMPTY", "\n")
            .env("TWO_LINES", "a\r\nHost: b")
            .load()
        {
            Ok(_) => "accepted".to_owned(),
            Err(problems) => problems.to_string(),
        };
        if actual != *expected {
            failures.push(format!(
                "--- file\n{text}\n--- expected\n{expected}\n--- actual\n{actual}\n"
            ));
        }
    }
    assert!(failures.is_empty(), "{} wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_bad_variable_or_flag_is_refused_too() {
    let cases: &[(Setup, &str)] = &[
        (
            Setup::default().env("TIDERACE_SERVER__SHARD", "2"),
            "environment variable TIDERACE_SERVER__SHARD: there is no such option; did you mean `TIDERACE_SERVER__SHARDS`?",
        ),
        (
            Setup::default().env("TIDERACE_SERVER__SHARDS", "two"),
            "environment variable TIDERACE_SERVER__SHARDS: server.shards: expected a whole number from 1 to 64, or 0 (one per core), but found \"two\"",
        ),
        (
            Setup::default().flag("--set", "limits.header_max", "2"),
            "--set: there is no option `limits.header_max`; did you mean `limits.headers_max`?",
        ),
        (
            Setup::default().flag("--listen", "server.listen", "0.0.0.0:1,127.0.0.1"),
            "--listen: server.listen: expected an address such as \"127.0.0.1:7800\" or \"stomp://127.0.0.1:61613\", but found \"127.0.0.1\"",
        ),
        (
            Setup::default().flag("--listen", "server.listen", ","),
            "--listen: server.listen: the list is empty; name at least one address to listen on",
        ),
        (
            Setup::default().env("TIDERACE_TOPICS__RETAIN", "maybe"),
            "environment variable TIDERACE_TOPICS__RETAIN: topics.retain: expected true or false, but found \"maybe\"",
        ),
    ];
    for (setup, expected) in cases {
        let problems = setup.load().err().map(|problems| problems.to_string());
        assert_eq!(problems.as_deref(), Some(*expected));
    }
}

#[test]
fn tls_that_cannot_be_had_is_refused() {
    let cases = [
        (
            "[tls]\nonly = true",
            "t.toml:2:1: tls.only refuses plain text, but there is no certificate; set tls.certificate and tls.key",
        ),
        (
            "[tls]\ncertificate = \"a.pem\"",
            "t.toml:2:1: tls.certificate needs tls.key, the file with its private key",
        ),
        (
            "[[listener]]\naddress = \"127.0.0.1:1\"\ntls = \"only\"",
            "t.toml:3:1: listener.tls = \"only\" refuses plain text, but there is no certificate; set tls.certificate and tls.key",
        ),
        (
            "[tls]\nself_signed = true\n[[certificate]]\nchain = \"a\"\nkey = \"b\"",
            "t.toml:2:1: tls.self_signed makes a certificate, but there is one; remove one of the two",
        ),
        (
            "[tls]\nself_signed = true\n[server]\nlisten = [\"*:1\"]\n[auth]\nallow_anonymous = true",
            "t.toml:2:1: tls.self_signed is for this machine alone, but others can reach 0.0.0.0:1; nobody could tell this server from another that claims to be it: set tls.certificate and tls.key",
        ),
    ];
    for (text, expected) in cases {
        let problems = file(text).load().err().map(|problems| problems.to_string());
        assert_eq!(problems.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn development_mode_refuses_a_public_address() {
    let setup = Setup::default().development().env("TIDERACE_SERVER__LISTEN", "*:7800");
    let problems = setup.load().unwrap_err().to_string();
    assert!(problems.starts_with("0.0.0.0:7800 can be reached by other machines"), "{problems}");
}

#[test]
fn a_refused_secret_is_not_repeated() {
    let text = "[[user]]\nname = \"bob\"\npassword_hash = \"hunter2\"\n[[token]]\nname = \"t\"\nsecret = \"hunter2\"";
    let problems = file(text).load().unwrap_err().to_string();
    assert!(!problems.contains("hunter2"), "{problems}");
}
