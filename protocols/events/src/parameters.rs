//! Parameters of a request, which stand in its query or in a field of its head.

use tiderace_wire::Request;

use crate::answer::Fault;
use crate::uri::values;

/// A parameter from the query or else from a field.
pub(crate) fn parameter(
    request: &Request<'_>,
    name: &str,
    field: &str,
) -> Result<Option<String>, Fault> {
    if let Some(value) = values(request.query, name).next() {
        return value.map(Some).ok_or_else(|| undecodable(name));
    }
    match request.field(field) {
        None => Ok(None),
        Some(value) => match std::str::from_utf8(value) {
            Ok(value) => Ok(Some(value.trim().to_owned())),
            Err(_) => Err(undecodable(field)),
        },
    }
}

/// A parameter that is yes or no.
pub(crate) fn choice(
    request: &Request<'_>,
    name: &str,
    field: &str,
) -> Result<Option<bool>, Fault> {
    match parameter(request, name, field)?.as_deref() {
        None => Ok(None),
        Some("true" | "1" | "") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(Fault::bad_request(format!("`{name}` is `true` or `false`"))),
    }
}

/// What is said of a name or a value that cannot be read.
pub(crate) fn undecodable(name: &str) -> Fault {
    Fault::bad_request(format!("`{name}` is not percent-encoded UTF-8"))
}

/// What is said of a path that cannot be read.
pub(crate) fn undecodable_path() -> Fault {
    Fault::bad_request("the path is not percent-encoded UTF-8")
}
