//! A SEND that depends on what its topic is, or changes a part of the topic's value: `if-version`,
//! `if-absent` and `patch`.
//!
//! Relies on the topic's home for the comparison, so that nothing comes in between. Invariant: such a
//! SEND is done whole or ends the session with an ERROR, as any other that is refused; its receipt
//! says the version that came of it.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{
    Change, Command, Condition, Confirm, Context, Destination, Flags, Kind, Operation,
    OperationResult, Token, Update,
};

use super::publication::{ColdHeaders, Publication, UpdateHeaders};
use super::request::number;
use super::state::StompSession;
use crate::destination::parse_destinations;
use crate::error::{bad_header, fault, shown, unreadable};

/// The token of what is done without a receipt.
pub(super) const UNTOLD: Token = 0;

impl UpdateHeaders<'_> {
    fn condition(&self) -> Result<Option<Condition>, Close> {
        let absent = match self.if_absent {
            None | Some(b"false") => false,
            Some(b"true") => true,
            Some(other) => {
                let text = format_args!("`if-absent:{}` is not known. Use `true`.", shown(other));
                return Err(bad_header("SEND", text));
            }
        };
        match (self.if_version, absent) {
            (None, absent) => Ok(absent.then_some(Condition::Absent)),
            (Some(_), true) => {
                let text = "`if-version` and `if-absent` exclude each other. Leave one out.";
                Err(bad_header("SEND", text))
            }
            (Some(text), false) => match number(text) {
                Some(version) => Ok(Some(Condition::Version(version))),
                None => {
                    let text = format_args!("`if-version:{}` is no whole number.", shown(text));
                    Err(bad_header("SEND", text))
                }
            },
        }
    }

    fn change(&self, body: &[u8]) -> Result<Change, Close> {
        match self.patch {
            None => Ok(Change::Value(body.into())),
            Some(b"json") => Ok(Change::Patch(body.into())),
            Some(b"merge") => Ok(Change::Merge(body.into())),
            Some(other) => {
                let text = format_args!(
                    "`patch:{}` is not known. Use `json` for a JSON Patch, `merge` for a JSON Merge \
                     Patch.",
                    shown(other)
                );
                Err(bad_header("SEND", text))
            }
        }
    }
}

impl StompSession {
    #[cold]
    pub(super) fn send_operation(
        &mut self,
        spelling: &[u8],
        publication: &Publication<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let cold = publication.cold;
        check_company(cold)?;
        let (bytes, most) = (publication.body.len(), self.options.message_bytes_max);
        if bytes > most {
            let text = format_args!(
                "the body has {bytes} bytes; at most {most} are allowed where the update depends on the topic."
            );
            return Err(fault(CloseCode::FrameTooLarge, "SEND", text));
        }
        let condition = cold.update.condition()?;
        let change = cold.update.change(publication.body)?;
        let destination = self.one_topic(spelling, publication)?;
        let (mut properties, mut flags) = (None, publication.meta.flags);
        // The value keeps its properties when a part of it is changed.
        if matches!(change, Change::Value(_)) {
            let mut block = Vec::new();
            if publication.append_properties(&self.temporary, &mut block)? {
                flags = flags | Flags::ESCAPED;
            }
            properties = Some(block.into());
        } else {
            flags = Flags::NONE;
        }
        let token = match publication.receipt {
            Some(text) => self.owe_text("SEND", publication.headers, text, 1)?,
            None => UNTOLD,
        };
        let path = destination.path;
        let update = Update { path, change, properties, flags, condition, spec: None };
        let operation = Box::new(Operation::Update(Box::new(update)));
        context.commands.push(Command::Operate { token, operation });
        Ok(())
    }

    fn one_topic(
        &self,
        spelling: &[u8],
        publication: &Publication<'_>,
    ) -> Result<Destination, Close> {
        let text = publication.headers.decode(spelling).map_err(|why| unreadable("SEND", why))?;
        let wrong = |why: &dyn std::fmt::Display| {
            let text = format_args!("`{}`: {why}", shown(spelling));
            fault(CloseCode::BadDestination, "SEND", text)
        };
        let all = parse_destinations(&text, &self.temporary).map_err(|error| wrong(&error))?;
        match <[Destination; 1]>::try_from(all) {
            Ok([one]) if one.kind == Kind::Topic => Ok(one),
            _ => Err(wrong(&"`if-version`, `if-absent` and `patch` are for one topic.")),
        }
    }

    /// Something was done: its receipt is due.
    pub(super) fn operated(
        &mut self,
        token: Token,
        result: &OperationResult,
        context: &mut Context<'_>,
    ) {
        let Some(cold) = self.cold.as_mut().filter(|_| token != UNTOLD) else { return };
        if let OperationResult::Updated { version } = result {
            cold.receipts.say_more(token, format!("\nversion:{version}").as_bytes());
        }
        cold.receipts.confirm(Confirm::one(token));
        self.write_receipts(context);
    }
}

/// Refuses what cannot be asked for at the same time.
fn check_company(cold: &ColdHeaders<'_>) -> Result<(), Close> {
    let given = [
        ("transaction", cold.transaction.is_some()),
        ("expires", cold.expires.is_some()),
        ("ttl", cold.ttl.is_some()),
        ("retain:remove", cold.retain == Some(b"remove")),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            let text = format_args!(
                "`{name}` cannot go with `if-version`, `if-absent` or `patch`. Leave it out."
            );
            Err(bad_header("SEND", text))
        }
    }
}
