//! Messages whose bodies lie in files.

use bytes::Bytes;
use tiderace_base::limits::IN_FILE_BYTES_MIN;
use tiderace_wire::{Commands, Meta, Token};

use super::{Outgoing, World, destination};

impl World {
    /// Publishes a message whose body lies in a file, with spaces behind it, so that it is large enough for that.
    pub fn publish_in_file(&mut self, client: usize, to: &str, message: &Outgoing) -> Token {
        let token = self.token(client);
        let body = Bytes::from(message.body.clone() + &" ".repeat(IN_FILE_BYTES_MIN));
        let mut commands = Commands::new();
        commands.begin_turn(self.now.time);
        commands.set_input_file(Some(body.clone()));
        commands.message(&destination(to)).extend_from_slice(message.properties.as_bytes());
        let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
        commands.publish(&body, meta, Some(token));
        commands.set_input_file(None);
        self.commands(client, &mut commands);
        token
    }

    /// Publishes one message, whose body lies in a file or not.
    pub fn publish_alone(
        &mut self,
        client: usize,
        to: &str,
        message: &Outgoing,
        in_file: bool,
    ) -> Token {
        match in_file {
            true => self.publish_in_file(client, to, message),
            false => self.publish_all(client, to, std::slice::from_ref(message)),
        }
    }
}
