//! The three commands of docs/edges.md and of README.md: a source, an edge, and a client that survives the edge's end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::nodes::Node;

/// The commands of the first block of a section.
fn commands(page: &str, section: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once(section).unwrap();
    let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let command = |line: &str| {
        let (command, _) = line.split_once("   #").unwrap_or((line, ""));
        let (_, arguments) = command.trim().split_once("tiderace").unwrap();
        arguments.trim().to_owned()
    };
    block.lines().map(command).collect()
}

fn program(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiderace"));
    command.args(arguments.split_whitespace().map(|word| word.trim_matches('\'')));
    command
}

/// Starts a server of the page at a port that is free.
fn serve(arguments: &str, port: &str) -> Node {
    let arguments = match arguments.contains("--listen") {
        true => arguments.replace(&format!("--listen 127.0.0.1:{port}"), "--listen 127.0.0.1:0"),
        false => format!("{arguments} --listen 127.0.0.1:0"),
    };
    Node::of(&mut program(&arguments))
}

fn as_the_page_says(page: &str, section: &str) {
    let commands = commands(page, section);
    let [source, edge, client] = &commands[..] else { panic!("{page}: {commands:?}") };
    let at = |text: &str, port: &str, address: SocketAddr| {
        text.replace(&format!("127.0.0.1:{port}"), &address.to_string())
    };
    let source = serve(source, "7800");
    let mut edge = serve(&at(edge, "7800", source.address), "7801");
    let client = at(&at(client, "7801", edge.address), "7800", source.address);
    let mut client = program(&client).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("demo/fx/"));
    edge.kill();
    // More than what may have been on its way: a quote comes every two milliseconds.
    let after: Vec<String> = lines.take(5_000).collect();
    assert!(after.len() == 5_000 && after.iter().all(|line| line.starts_with("demo/fx/")));
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn the_page_about_edges_is_as_it_says() {
    as_the_page_says("docs/edges.md", "## Three commands");
}

#[test]
fn the_readme_is_as_it_says() {
    as_the_page_says("README.md", "## Several servers");
}
