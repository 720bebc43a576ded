//! What a row of the table says of a verb.

use crate::{Right, Role};

/// Something that can be asked of a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub says: &'static str,
    /// The operation that it is: what stands behind `do`.
    pub operation: &'static str,
    /// The members of that operation which are always the same, with their values as JSON.
    pub fixed: &'static [(&'static str, &'static str)],
    /// The members that may be given.
    pub fields: &'static [Field],
    /// Of these at least one has to be given.
    pub some_of: &'static [&'static str],
    /// The first role that may.
    pub role: Role,
    /// The rights that it takes. Who may `admin` what lies below `$sys` may what `monitor` and `operate` allow there.
    pub rights: &'static [Right],
    /// Whether who may not is shown an empty list, and not told so.
    pub hides: bool,
    /// Whether the server is another one behind it.
    pub effect: Effect,
    /// Its way by REST.
    pub rest: Rest,
    /// Its words on the command line, behind `tiderace`; those in upper case stand for something.
    pub command: &'static str,
    /// Whether a person is to be asked before it is done.
    pub danger: Danger,
}

/// Whether something changes what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only tells.
    Reads,
    /// It changes something, unless it has the field `dry_run` and that is true.
    Changes,
}

/// Whether a person is to be asked before something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// It can be taken back, or harms nobody.
    None,
    /// It cannot be taken back: a person is to agree.
    Confirm,
}

/// A verb as a resource of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The method; HEAD is known where GET is.
    pub method: &'static str,
    /// The path below `/manage`; a level in braces stands for the field of that name.
    pub path: &'static str,
}

impl Rest {
    /// Whether fields stand in the body, as an object of JSON; otherwise they stand in the query.
    pub fn has_body(self) -> bool {
        matches!(self.method, "POST" | "PUT")
    }

    /// The field that a level of the path stands for.
    pub fn field(self) -> Option<&'static str> {
        self.path.split('/').find_map(in_braces)
    }
}

/// The name in a level of a path that stands for something.
pub(crate) fn in_braces(level: &str) -> Option<&str> {
    level.strip_prefix('{')?.strip_suffix('}')
}

/// A member of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub kind: FieldKind,
    /// Whether the verb makes no sense without it.
    pub required: bool,
    /// What it means, in a sentence.
    pub says: &'static str,
    /// One that makes sense, as JSON.
    pub example: &'static str,
}

impl Field {
    /// The same, where the verb makes no sense without it.
    pub(crate) const fn required(self) -> Field {
        Field { required: true, ..self }
    }

    /// The same by another name.
    pub(crate) const fn called(self, name: &'static str, says: &'static str) -> Field {
        Field { name, says, ..self }
    }
}

/// What the value of a field may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text of at most so many bytes; zero: no bound of its own.
    Text(usize),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number. What is above the bound is taken as if it were the bound; zero: no bound of its own.
    Number(u64),
    /// A number above zero and up to one.
    Fraction,
    /// True or false.
    Truth,
    /// A span such as `10m`, or milliseconds; at most so many seconds.
    Span(u64),
    /// Texts, at most so many; zero: no bound of its own.
    Texts(usize),
}

impl Verb {
    /// A verb that only tells.
    pub(crate) const fn reads(name: &'static str, says: &'static str, rest: Rest) -> Verb {
        Verb {
            name,
            says,
            operation: name,
            fixed: &[],
            fields: &[],
            some_of: &[],
            role: Role::Viewer,
            rights: &[],
            hides: false,
            effect: Effect::Reads,
            rest,
            command: "",
            danger: Danger::None,
        }
    }

    /// A verb that changes something.
    pub(crate) const fn changes(name: &'static str, says: &'static str, rest: Rest) -> Verb {
        Verb { effect: Effect::Changes, ..Verb::reads(name, says, rest) }
    }

    /// The same as an operation that has not its name.
    pub(crate) const fn is(self, operation: &'static str) -> Verb {
        Verb { operation, ..self }
    }

    /// The same with members that are always the same.
    pub(crate) const fn fixed(self, fixed: &'static [(&'static str, &'static str)]) -> Verb {
        Verb { fixed, ..self }
    }

    /// The same with members that may be given.
    pub(crate) const fn takes(self, fields: &'static [Field]) -> Verb {
        Verb { fields, ..self }
    }

    /// The same, of whose members at least one of these has to be given.
    pub(crate) const fn some_of(self, some_of: &'static [&'static str]) -> Verb {
        Verb { some_of, ..self }
    }

    /// The same for those who have a role and rights.
    pub(crate) const fn may(self, role: Role, rights: &'static [Right]) -> Verb {
        Verb { role, rights, ..self }
    }

    /// The same, which shows nothing to others instead of refusing.
    pub(crate) const fn or_nothing(self) -> Verb {
        Verb { hides: true, ..self }
    }

    /// The same with its words on the command line.
    pub(crate) const fn command(self, command: &'static str) -> Verb {
        Verb { command, ..self }
    }

    /// The same, before which a person is to be asked.
    pub(crate) const fn confirm(self) -> Verb {
        Verb { danger: Danger::Confirm, ..self }
    }

    /// Its field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field that says where a page begins, of a list that is given in pages. Its answer has the list, `more`, and as
    /// `next` what that field is for the page behind.
    pub fn pages_by(&self) -> Option<&'static Field> {
        let is_list = self.effect == Effect::Reads && self.field("limit").is_some();
        ["after", "from"].into_iter().filter(|_| is_list).find_map(|name| self.field(name))
    }

    /// The fields that do not stand in its path.
    pub fn other_fields(&self) -> impl Iterator<Item = &'static Field> {
        let in_path = self.rest.field();
        self.fields.iter().filter(move |field| Some(field.name) != in_path)
    }
}
