//! Virtual hosts, as clients name them.

use crate::support::{Rig, hello};
use tiderace_native::NativeOptions;
use tiderace_native::codec::{ClientMessage, Hello};
use tiderace_wire::{Command, Credentials};

// "The flag 1 says that the name follows by which the client wants to reach the server"
#[test]
fn a_hello_may_name_a_host() {
    let mut rig = Rig::fresh(NativeOptions::default());
    let ClientMessage::Hello(hello) = hello() else { panic!() };
    rig.send(&ClientMessage::Hello(Hello { host: Some("shop.example"), ..hello }));
    let named = |who: &Credentials| who.host.as_deref() == Some("shop.example");
    assert!(matches!(&rig.commands[..], [Command::Login(who)] if named(who)));
}
