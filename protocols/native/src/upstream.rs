//! The client's side of a session: a node's conversation with its upstream.
//!
//! ```text
//!             HELLO ─▶              WELCOME                CLOSE
//!   begin ──────────────▶ Greeting ─────────▶ Up ─────────────────▶ end
//!                            │ deadline        │ silence, broken rules
//!                            └──────── end ◀───┘
//! ```
//! Relies on `codec` for the bytes; what is asked for comes as replies of the node's own broker, and what the upstream
//! says goes there as commands. Invariants: no bytes panic; nothing grows without a limit.

mod options;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{Context, Delivery, Opening, Output, Progress, Reply, Session};

pub use options::UpstreamOptions;

use crate::codec::{Auth, ClientMessage, Hello, VERSION};
use crate::limits::NODES_MAX;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waiting for WELCOME.
    Greeting,
    /// In order.
    Up,
}

/// A node's conversation with its upstream.
pub(crate) struct UpstreamSession {
    options: Arc<UpstreamOptions>,
    state: State,
    due: Time,
}

impl UpstreamSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<UpstreamOptions>, opening: &Opening<'_>) -> UpstreamSession {
        let due = opening.now.time + options.welcome_timeout;
        UpstreamSession { options, state: State::Greeting, due }
    }

    fn hello(&self, context: &mut Context<'_>) {
        let options = &*self.options;
        let names = std::iter::once(&options.node).chain(&options.behind);
        let nodes = names.map(String::as_str).filter(|name| !name.is_empty());
        let credentials = &options.credentials;
        let auth = match (&credentials.token, &credentials.login) {
            (Some(token), _) => Auth::Token(token),
            (None, Some(user)) => {
                Auth::Password { user, password: credentials.passcode.as_deref().unwrap_or("") }
            }
            (None, None) => Auth::Anonymous,
        };
        let hello = Hello {
            version: VERSION,
            auth,
            codecs: vec![1],
            client: &options.client,
            position: b"",
            host: credentials.host.as_deref(),
            nodes: nodes.take(NODES_MAX).collect(),
        };
        say(&ClientMessage::Hello(hello), &mut context.output);
    }
}

impl Session for UpstreamSession {
    fn begin(&mut self, _now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.hello(context);
        Ok(())
    }

    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        let reason = "the native protocol needs a transport that marks messages";
        Err(Close::new(CloseCode::UnexpectedFrame, reason))
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn reply(&mut self, _now: Now, _reply: Reply, _context: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _now: Now, _delivery: &Delivery<'_>, _output: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, _now: Now, _context: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if !close.code.is_silent() {
            say(&ClientMessage::Bye, output);
        }
    }

    fn is_established(&self) -> bool {
        self.state == State::Up
    }
}

/// Writes one message in a frame of its own.
fn say(message: &ClientMessage<'_>, output: &mut Output<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    output.frame(&bytes, false);
}
