//! Messages about what the server says of itself, and about services: which room each is for.

use tiderace_base::{Now, ShardId};

use super::Broker;
use crate::effects::Effects;
use crate::home::services::Address;
use crate::messages::{ServerMail, ServiceMail};
use crate::server_topics::Publication;

impl Broker {
    pub(super) fn server_mail(
        &mut self,
        now: Now,
        from: ShardId,
        mail: ServerMail,
        effects: &mut Effects,
    ) {
        match mail {
            ServerMail::Presence { path, on } => {
                self.session_side().presence_changed(now, &path, on, effects);
            }
            ServerMail::Unknown { session, path } => {
                self.session_side().tell_unknown(now, session, &path, effects);
            }
            ServerMail::Nothing { request } => {
                self.session_side().count_nothing(now, request, effects);
            }
            ServerMail::Notify { pattern, request, after } => {
                self.home_side().notify(from, pattern, request, after);
            }
            ServerMail::Ignore { pattern } => self.home.notice_interest_mut().end(from, &pattern),
            ServerMail::Noted { request, topics, after, next } => {
                self.session_side().noted(now, from, request, topics, (after, next), effects);
            }
            ServerMail::Notice { path, spec } => self.session_side().notice(&path, spec, effects),
            ServerMail::Publish { run, origin, author, confirm, blame } => {
                let publication = Publication { run: *run, origin, author, confirm, blame };
                self.home_side().publish_as_owner(now, from, publication, effects);
            }
            ServerMail::Owns { request, name, path } => {
                self.home_side().answer_owner(from, request, &name, &path, effects);
            }
            ServerMail::AsOwner { request, name } => {
                self.home_side().expect_owner(request, name);
            }
            ServerMail::Owned { request, owned } => {
                self.session_side().owner_answered(now, request, owned, effects);
            }
        }
    }

    pub(super) fn service_mail(
        &mut self,
        now: Now,
        from: ShardId,
        mail: ServiceMail,
        effects: &mut Effects,
    ) {
        match mail {
            ServiceMail::Call(call) => self.home_side().call_at_home(call, effects),
            ServiceMail::Cancel { service, caller } => {
                let caller = Address { shard: from, key: caller };
                self.home_side().cancel_at_home(&service, caller, effects);
            }
            ServiceMail::Released { responder } => {
                self.home_side().release_responder(responder, effects);
            }
            ServiceMail::Assigned(to, call) => {
                self.session_side().assigned(now, from, to, call, effects);
            }
            ServiceMail::Met { caller, responder } => {
                let responder = Address { shard: from, key: responder };
                self.session_side().met(caller, responder, effects);
            }
            ServiceMail::Spoken { to, said } => {
                self.session_side().heard(now, to, said, effects);
            }
            ServiceMail::Credit { to, messages } => {
                self.session_side().wanted_messages(to, messages, effects);
            }
            ServiceMail::Ended { to, close } => {
                self.session_side().told_of_end(now, to, close, effects);
            }
        }
    }
}
