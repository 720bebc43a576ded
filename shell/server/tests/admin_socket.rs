//! The admin socket of the real program: who may use it, by every protocol, and whose it is.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::connections::ask;
use crate::program::logins::{LoggedIn, PROTOCOLS, Show, Way, exchange};
use crate::program::watched::{Watched, serve_on};
use crate::program::{Directory, FREE};

const TOKEN: &str = "the token of ann";

/// A server with an admin socket, with somebody who may do nothing of interest, and one whose name is that of nobody.
struct Node {
    directory: Directory,
    socket: PathBuf,
    server: Watched,
}

fn configuration(directory: &Path) -> String {
    let secret = directory.join("ann.token");
    std::fs::write(&secret, TOKEN).unwrap();
    let other = directory.join("other.token");
    std::fs::write(&other, "the token of another").unwrap();
    let (socket, store) = (directory.join("admin.sock"), directory.join("store"));
    format!(
        "[monitoring]\nmetrics_access = \"authorised\"\n[management]\nsocket = {socket:?}\n[store]\ndirectory = {store:?}\n\
         [[token]]\nname = \"ann\"\nsecret = \"file:{}\"\n\
         [[token]]\nname = \"uid:0\"\nsecret = \"file:{}\"\n\
         [[rule]]\nallow = [\"subscribe\"]\nprincipals = [\"user:ann\"]\npaths = [\"fx/**\"]\n\
         [[rule]]\ndeny = [\"monitor\", \"operate\", \"admin\"]\nprincipals = [\"*\"]\n",
        secret.display(),
        other.display()
    )
}

impl Node {
    fn start(name: &str) -> Node {
        let directory = Directory::new(name);
        let server = Watched::start(&directory.0, "", &configuration(&directory.0));
        Node { socket: directory.0.join("admin.sock"), server, directory }
    }

    fn way(&self) -> Way {
        Way::local(&self.socket)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let socket = format!("unix:{}", self.socket.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
        command.args(arguments).args(["-s", &socket]).output().unwrap()
    }

    /// What a command prints, which succeeds.
    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The user of this test, as the server knows it.
fn own(node: &Node) -> u32 {
    std::fs::metadata(&node.socket).unwrap().uid()
}

#[test]
fn metrics_are_for_its_owner_whatever_they_take_elsewhere() {
    let node = Node::start("admin-socket-metrics");
    let status = |way: &Way| exchange(way, "GET /metrics HTTP/1.1\r\n", "").0;
    assert!(status(&node.way()).contains(" 200 "));
    let elsewhere = status(&Way::plain(node.server.addresses[0]));
    assert!(elsewhere.contains(" 401 "), "{elsewhere}");
}

#[test]
fn a_server_that_is_full_of_clients_lets_its_owner_in() {
    let directory = Directory::new("admin-socket-full");
    let config = configuration(&directory.0) + "[limits]\nconnections_max = 4\n";
    let server = Watched::start(&directory.0, "", &config);
    let node = Node { socket: directory.0.join("admin.sock"), server, directory };
    let address = node.server.addresses[0];
    let way = Way::plain(address);
    let begin = |way: &Way, show| LoggedIn::begin("stomp", way, show).unwrap();
    let clients: Vec<_> = (0..4).map(|_| begin(&way, Show::Token(TOKEN))).collect();
    let mut refused = TcpStream::connect(address).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap_or_default(), 0, "it is full");
    assert!(node.prints(&["connections", "ls", "--json"]).contains("uid:"));
    // Its own are bounded as well.
    let mut own = Vec::new();
    while let Ok(one) = LoggedIn::begin("native", &node.way(), Show::Nothing) {
        own.push(one);
        assert!(own.len() <= 16);
    }
    assert!(own.len() >= 15, "the command of before may count still: {}", own.len());
    drop((clients, own));
}

#[test]
fn by_every_protocol_its_owner_may_what_admins_may_without_a_login() {
    let node = Node::start("admin-socket");
    let metadata = std::fs::symlink_metadata(&node.socket).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    let name = format!("uid:{}", own(&node));
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut command = Command::new("curl");
        command.args(["-s", version, "--unix-socket"]).arg(&node.socket);
        let answer = command.arg("http://localhost/manage/sessions").output().unwrap().stdout;
        let listed: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(listed["sessions"][0]["name"], json!(name), "{version} {listed}");
    }
    let mut held = Vec::new();
    for protocol in PROTOCOLS {
        held.push(LoggedIn::begin(protocol, &node.way(), Show::Nothing).expect(protocol));
    }
    let sessions = node.prints(&["connections", "ls", "--json", "--principal", &name]);
    let sessions: Vec<Value> =
        sessions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // All but the request that is over, and besides them the one that asks.
    assert_eq!(sessions.len(), PROTOCOLS.len(), "{sessions:?}");
    assert!(sessions.iter().all(|it| it["address"] == "local" && it["port"] == Value::Null));
    // Commands that look and that change, whatever the rules deny.
    for arguments in [
        &["top", "--once", "--interval", "100ms"][..],
        &["alarms"],
        &["reload"],
        &["log", "--level", "info"],
        &["views", "ls"],
        &["queues", "ls"],
        &["topics", "ls"],
        &["drain", "--over", "1s", "--delay", "1h", "--no-wait"],
        &["drain", "--cancel"],
    ] {
        node.prints(arguments);
    }
    let backup = node.directory.0.join("a.backup");
    node.prints(&["backup", backup.to_str().unwrap()]);
    // Nobody has its rights for having its name, and it has none that admins have not.
    let output = node.run(&["pub", "fx/a", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("{name} may not publish on topic fx/a")), "{said}");
    let record = node.prints(&["audit", "--json"]);
    let drained: Value = record
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|it: &Value| it["verb"] == "drain")
        .unwrap();
    let said = [&drained["who"], &drained["from"], &drained["outcome"]];
    assert_eq!(said, [&json!(name), &json!("local"), &json!("done")]);
}

#[test]
fn who_logs_in_there_is_who_he_logs_in_as_and_nobody_logs_in_by_its_name() {
    let node = Node::start("admin-socket-logins");
    let output = node.run(&["connections", "ls", "--passcode", TOKEN]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ann may not monitor on topic $sys/sessions"), "{said}");
    for way in [node.way(), Way::plain(node.server.addresses[0])] {
        let refused = LoggedIn::begin("stomp", &way, Show::Token("the token of another"));
        let said = refused.err().unwrap();
        assert!(said.contains("nobody logs in as uid:0"), "{said}");
    }
    // Without a login there is nothing at an address.
    let way = Way::plain(node.server.addresses[0]);
    assert!(LoggedIn::begin("stomp", &way, Show::Nothing).is_err());
}

#[test]
fn it_leads_to_the_whole_server_whatever_its_virtual_hosts() {
    let directory = Directory::new("admin-socket-hosts");
    let hosts = "[virtual_hosts]\nunknown = \"refuse\"\n\
        [[virtual_host]]\nname = \"shop\"\nhosts = [\"shop.example.org\"]\n";
    let server = Watched::start(&directory.0, "", &(configuration(&directory.0) + hosts));
    let node = Node { socket: directory.0.join("admin.sock"), server, directory };
    node.prints(&["queues", "ls"]);
    let name = format!("uid:{}", own(&node));
    let sessions = node.prints(&["connections", "ls", "--json", "--principal", &name]);
    assert_eq!(sessions.lines().count(), 1, "{sessions}");
}

#[test]
fn no_block_keeps_its_owner_out() {
    let node = Node::start("admin-socket-blocks");
    let name = format!("uid:{}", own(&node));
    let mut native = LoggedIn::begin("native", &node.way(), Show::Nothing).unwrap();
    let block = json!({"do": "block", "principal": name, "force": true});
    assert_eq!(ask(&mut native, &block), Err("bad-operation".to_owned()));
    for address in ["::/1", "8000::/1", "0.0.0.0/1", "128.0.0.0/1"] {
        let block = json!({"do": "block", "address": address, "force": true});
        assert_eq!(ask(&mut native, &block).map(|it| it["sessions"].clone()), Ok(json!(0)));
    }
    for protocol in PROTOCOLS {
        LoggedIn::begin(protocol, &node.way(), Show::Nothing).expect(protocol);
    }
    // Its sessions end as others do, and it may come again.
    let mut other = LoggedIn::begin("stomp", &node.way(), Show::Nothing).unwrap();
    let kicked = ask(&mut native, &json!({"do": "kick", "protocol": "stomp"}));
    assert_eq!(kicked, Ok(json!({"sessions": 1, "dry_run": false})));
    assert!(other.last_words().contains("kicked"));
    LoggedIn::begin("stomp", &node.way(), Show::Nothing).unwrap();
}

#[test]
fn a_drain_leaves_it_open_and_a_reload_leaves_it_where_it_is() {
    let node = Node::start("admin-socket-stays");
    node.prints(&["drain", "--over", "0s", "--delay", "0s"]);
    assert!(TcpStream::connect(node.server.addresses[0]).is_err());
    assert!(node.prints(&["drain", "--status"]).contains("drained"));
    node.prints(&["drain", "--cancel"]);
    assert!(TcpStream::connect(node.server.addresses[0]).is_ok());
    let file = node.directory.0.join("tiderace.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("admin.sock", "other.sock")).unwrap();
    let said = node.prints(&["reload"]);
    assert_eq!(said, "management.socket  at the next start\n");
    assert!(node.socket.exists() && !node.directory.0.join("other.sock").exists());
}

/// A program that runs as another user, which takes root: by `sudo` where the tests run as somebody else.
fn as_other(program: &str, is_root: bool) -> Command {
    if is_root {
        let mut command = Command::new(program);
        command.uid(65_533).gid(65_533);
        return command;
    }
    let mut command = Command::new("sudo");
    command.args([
        "-n",
        "setpriv",
        "--reuid",
        "65533",
        "--regid",
        "65533",
        "--clear-groups",
        program,
    ]);
    command
}

#[test]
fn another_user_is_told_why_he_is_kept_out() {
    let node = Node::start("admin-socket-others");
    let is_root = own(&node) == 0;
    let can_be_other = as_other("true", is_root).status().is_ok_and(|status| status.success());
    if !can_be_other {
        // Where everything has to be tried, this has to be possible; `entrances` tests the decision for whatever user.
        assert!(std::env::var_os("CI").is_none(), "neither root nor sudo");
        return;
    }
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&node.directory.0, 0o755);
    let ask = |target: &str| {
        let mut command = as_other("curl", is_root);
        command.args(["-s", "--unix-socket"]).arg(&node.socket);
        command.arg(format!("http://localhost{target}"));
        command.output().unwrap()
    };
    // The mode of the file keeps him out.
    assert!(!ask("/livez").status.success());
    // Somebody has given it another one.
    open(&node.socket, 0o666);
    for target in ["/livez", "/metrics", "/manage/sessions", "/topics/fx/a"] {
        let said = String::from_utf8(ask(target).stdout).unwrap();
        assert!(said.contains("not-authorised") && said.contains("you are uid 65533"), "{said}");
    }
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
        s.sendall(b'CONNECT\\naccept-version:1.2\\nhost:x\\n\\n\\0')\nprint(s.makefile('rb').read())";
    let mut command = as_other("python3", is_root);
    command.args(["-c", script]).arg(&node.socket);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(said.contains("ERROR") && said.contains("you are uid 65533"), "{said}");
}

#[test]
fn one_of_a_killed_server_is_replaced_and_one_of_a_living_server_stays() {
    let mut node = Node::start("admin-socket-stale");
    let file = node.directory.0.join("tiderace.toml");
    let serve = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
        command.args(["serve", "--config"]).arg(&file);
        command
    };
    // A second one that has everything else for itself.
    let second = node.directory.0.join("second.toml");
    let text = format!("[server]\nlisten = [{FREE:?}]\n[management]\nsocket = {:?}\n", node.socket);
    std::fs::write(&second, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    let output = command.args(["serve", "--config"]).arg(&second).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another server"), "{said}");
    node.prints(&["alarms"]);
    node.server.child.kill().unwrap();
    node.server.child.wait().unwrap();
    assert!(node.socket.exists());
    assert_eq!(node.run(&["alarms"]).status.code(), Some(4));
    node.server = Watched::of(&mut serve());
    node.prints(&["alarms"]);
    node.server.signal("TERM");
    node.server.read_to("server-stopped");
    assert!(node.server.child.wait().unwrap().success());
    assert!(!node.socket.exists());
}

#[test]
fn one_that_the_server_was_given_is_served_and_left_there() {
    let directory = Directory::new("admin-socket-given");
    let path = directory.0.join("admin.sock");
    let given = UnixListener::bind(&path).unwrap();
    let file = directory.0.join("tiderace.toml");
    let listen = format!("[server]\nlisten = [{FREE:?}]\n");
    std::fs::write(&file, listen.clone() + &configuration(&directory.0)).unwrap();
    let mut server = Watched::of(&mut serve_on(given.try_clone().unwrap().into(), &file));
    let (head, _) = exchange(&Way::local(&path), "GET /manage/sessions HTTP/1.1\r\n", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    server.signal("TERM");
    server.read_to("server-stopped");
    assert!(server.child.wait().unwrap().success());
    assert!(path.exists());
    // One that is not the admin socket is a mistake, and not a silent hole.
    std::fs::write(&file, listen).unwrap();
    let mut command = serve_on(given.into(), &file);
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("management.socket"), "{said}");
}
