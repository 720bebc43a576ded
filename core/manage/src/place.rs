//! What a path below `/manage` names.

use crate::verb::in_braces;
use crate::{VERBS, Verb};

/// A resource: one for each path of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    path: &'static str,
    /// What stands where the path of the table has a field: one level, as it was written.
    pub value: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// What a path names that begins behind `/manage`. A slash at its end means nothing.
    pub fn of(path: &'a str) -> Option<Place<'a>> {
        let path = path.strip_suffix('/').unwrap_or(path);
        VERBS.iter().find_map(|verb| {
            let value = matched(verb.rest.path, path)?;
            Some(Place { path: verb.rest.path, value })
        })
    }

    /// The verbs that it has, one for each method.
    pub fn verbs(self) -> impl Iterator<Item = &'static Verb> {
        VERBS.iter().filter(move |verb| verb.rest.path == self.path)
    }

    /// The verb of that method.
    pub fn verb(self, method: &str) -> Option<&'static Verb> {
        let method = if method == "HEAD" { "GET" } else { method };
        self.verbs().find(|verb| verb.rest.method == method)
    }

    /// The methods that it knows.
    pub fn methods(self) -> Vec<&'static str> {
        let mut known = Vec::new();
        for verb in self.verbs() {
            known.push(verb.rest.method);
            if verb.rest.method == "GET" {
                known.push("HEAD");
            }
        }
        known
    }
}

/// Whether a path is of that form, and what stands in it for a field.
fn matched<'a>(form: &str, path: &'a str) -> Option<Option<&'a str>> {
    let (mut levels, mut value) = (path.split('/'), None);
    for known in form.split('/') {
        let level = levels.next()?;
        match in_braces(known) {
            Some(_) if !level.is_empty() => value = Some(level),
            None if level == known => {}
            _ => return None,
        }
    }
    levels.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_with_what_they_name() {
        for (path, method, expected) in [
            ("/sessions", "GET", Some(("sessions", None))),
            ("/sessions/", "HEAD", Some(("sessions", None))),
            ("/sessions/0-1-1", "GET", Some(("show-session", Some("0-1-1")))),
            ("/sessions/0-1-1", "DELETE", Some(("kick-session", Some("0-1-1")))),
            ("/queues/a%2Fb/purge", "POST", Some(("purge", Some("a%2Fb")))),
            ("/queues/purge", "GET", Some(("queue", Some("purge")))),
            ("/queues/a/purge", "GET", None),
            ("/queues//purge", "POST", None),
            ("/queues/a/b/purge", "POST", None),
            ("/queues//", "GET", None),
            ("", "GET", None),
            ("/", "GET", None),
            ("/nothing", "GET", None),
        ] {
            let place = Place::of(path);
            let found = place.and_then(|place| Some((place.verb(method)?.name, place.value)));
            assert_eq!(found, expected, "{method} {path}");
        }
    }

    #[test]
    fn methods_are_those_of_the_verbs() {
        let methods = |path| Place::of(path).map(Place::methods);
        assert_eq!(methods("/sessions/0-1-1"), Some(vec!["GET", "HEAD", "DELETE"]));
        assert_eq!(methods("/kick"), Some(vec!["POST"]));
    }
}
