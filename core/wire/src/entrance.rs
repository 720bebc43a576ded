//! By which way a session has come, as far as that says who may look after the node.
//!
//! The shell knows it from the listener, and the broker decides by it. Invariant: a session keeps to its way, whichever
//! connections carry it.

/// A way into the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Entrance {
    /// A listener where the rules alone decide.
    #[default]
    Rules,
    /// A listener where nobody looks after the node, whatever the rules say.
    Clients,
    /// The admin socket, by a process of that user, who need not log in.
    Admin(u32),
}
