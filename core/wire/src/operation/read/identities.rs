//! The operations on users, tokens and rules, read.

use tiderace_base::{Close, is_name};
use tiderace_manage::Role;

use super::{Given, bad, short};
use crate::operation::identity::{
    Hidden, IdentityKind, IdentityOperation, NewIdentity, TOKEN_TIME_MAX,
};

impl Given<'_> {
    /// The operation of that name, if it is one on users, tokens or rules.
    pub(super) fn identity_operation(
        &self,
        what: &str,
    ) -> Result<Option<IdentityOperation>, Close> {
        let kinds = [IdentityKind::User, IdentityKind::Token, IdentityKind::Rule];
        let of = |verb: &str| {
            let name = what.strip_prefix(verb)?;
            kinds.into_iter().find(|kind| kind.name() == name)
        };
        if let Some(kind) =
            kinds.into_iter().find(|kind| what.strip_suffix('s') == Some(kind.name()))
        {
            let (after, limit) = (self.number("after")?.unwrap_or(0), self.small("limit")?);
            return Ok(Some(IdentityOperation::List { kind, after, limit }));
        }
        if let Some(kind) = of("put-") {
            let (name, what) = (self.identity_name()?, Box::new(self.identity(kind)?));
            let dry_run = self.truth("dry_run")?;
            return Ok(Some(IdentityOperation::Put { name, what, dry_run }));
        }
        let Some(kind) = of("remove-") else { return Ok(None) };
        let (name, dry_run) = (self.identity_name()?, self.truth("dry_run")?);
        Ok(Some(IdentityOperation::Remove { kind, name, dry_run }))
    }

    fn identity_name(&self) -> Result<Box<str>, Close> {
        let name = self.text("name")?;
        if !is_name(&name) {
            let shown = short(&name);
            return Err(bad(format!(
                "`{shown}` is no name: it has 1 to 128 characters, none of which is white space, a control character, `*`, `#`, `+` or `>`"
            )));
        }
        Ok((&*name).into())
    }

    fn identity(&self, kind: IdentityKind) -> Result<NewIdentity, Close> {
        let hidden = |member: &str| {
            let text = self.name(member)?;
            Ok::<_, Close>(text.map(|text| Hidden::new(&text)))
        };
        Ok(match kind {
            IdentityKind::User => NewIdentity::User {
                password: hidden("password")?,
                password_hash: hidden("password_hash")?,
                groups: self.texts("groups")?,
                host: self.name("host")?,
            },
            IdentityKind::Token => NewIdentity::Token {
                secret: hidden("secret")?,
                principal: self.name("principal")?,
                groups: self.texts("groups")?,
                host: self.name("host")?,
                lasts: match self.span("for")? {
                    Some(lasts) if lasts.is_zero() || lasts > TOKEN_TIME_MAX => {
                        return Err(bad(
                            "`for` is how long the token is good, such as \"30d\": at most 3,650 days",
                        ));
                    }
                    lasts => lasts,
                },
            },
            IdentityKind::Rule => NewIdentity::Rule {
                allow: self.texts("allow")?,
                deny: self.texts("deny")?,
                role: self.role()?,
                principals: match self.texts("principals")? {
                    principals if principals.is_empty() => {
                        return Err(bad(
                            "`principals` is missing: whom the rule concerns, such as `group:sales`",
                        ));
                    }
                    principals => principals,
                },
                paths: self.texts("paths")?,
                kind: self.kind_of_rule()?,
            },
        })
    }

    fn role(&self) -> Result<Option<Box<str>>, Close> {
        let Some(role) = self.optional_text("role")? else { return Ok(None) };
        if !Role::NAMES.contains(&&*role) {
            return Err(bad("`role` is viewer, operator or admin"));
        }
        Ok(Some((&*role).into()))
    }

    fn kind_of_rule(&self) -> Result<Option<Box<str>>, Close> {
        let Some(kind) = self.optional_text("kind")? else { return Ok(None) };
        if !matches!(&*kind, "any" | "queue" | "service" | "topic") {
            return Err(bad("`kind` is any, queue, service or topic"));
        }
        Ok(Some((&*kind).into()))
    }
}
