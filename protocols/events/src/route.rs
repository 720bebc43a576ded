//! Whose a request is: paths, methods, origins, and preflights (Fetch standard, "CORS protocol").
//!
//! Relies on the event loop, which refuses pages of origins that are not allowed before a request is sorted; without that
//! any page could publish to a server on its visitor's own machine.

use std::borrow::Cow;

use tiderace_base::CloseCode;
use tiderace_manage::Place;
use tiderace_wire::{Kind, Request, Response, Route};

use crate::answer::{Fault, HttpFault, share};
use crate::content::{PATCH_TYPES, is_field_value};
use crate::manage;
use crate::options::EventsOptions;

/// What a path names; names are not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    /// `/topics/NAME`, `/queues/NAME`, `/services/NAME`.
    Destination(Kind, &'a str),
    /// `/topics`
    Topics,
    /// `/batch`
    Batch,
    /// `/events`
    Events,
    /// `/operations`
    Operations,
    /// `/views` or `/views/NAME`
    Views(Option<&'a str>),
    /// `/subscriptions` or `/subscriptions/NAME`, not decoded.
    Subscriptions(Option<&'a str>),
    /// Lists of what that name says.
    Browse(&'static str),
    /// What lies below `/manage`, if that is anything.
    Manage(Option<Place<'a>>),
    /// `/manage/openapi.json`
    OpenApi,
}

impl<'a> Resource<'a> {
    pub(crate) fn of(options: &EventsOptions, path: &'a str) -> Option<Resource<'a>> {
        let rest = path.strip_prefix(options.base_path.as_str())?.strip_prefix('/')?;
        let (first, name) = match rest.split_once('/') {
            Some((first, name)) => (first, Some(name)),
            None => (rest, None),
        };
        Some(match (first, name) {
            ("topics", None | Some("")) => Resource::Topics,
            ("topics", Some(name)) => Resource::Destination(Kind::Topic, name),
            ("queues", Some(name)) if !name.is_empty() => Resource::Destination(Kind::Queue, name),
            ("services", Some(name)) if !name.is_empty() => {
                Resource::Destination(Kind::Service, name)
            }
            ("sessions", None | Some("")) => Resource::Browse("sessions"),
            ("queues", None | Some("")) => Resource::Browse("queues"),
            ("services", None | Some("")) => Resource::Browse("services"),
            ("batch", None) => Resource::Batch,
            ("events", None) => Resource::Events,
            ("operations", None) => Resource::Operations,
            ("subscriptions", None | Some("")) => Resource::Subscriptions(None),
            ("subscriptions", Some(name)) => Resource::Subscriptions(Some(name)),
            ("views", None | Some("")) => Resource::Views(None),
            ("views", Some(name)) => Resource::Views(Some(name)),
            ("manage", Some("openapi.json")) => Resource::OpenApi,
            ("manage", name) => {
                let below = name.and_then(|_| rest.strip_prefix("manage"));
                Resource::Manage(below.and_then(Place::of))
            }
            _ => return None,
        })
    }

    /// The methods it knows, OPTIONS aside.
    fn methods(self) -> Cow<'static, [&'static str]> {
        Cow::Borrowed(match self {
            Resource::Manage(place) => {
                return Cow::Owned(place.map_or(Vec::new(), Place::methods));
            }
            Resource::Destination(Kind::Topic, _) => {
                &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
            }
            Resource::Destination(Kind::Queue, _) => &["GET", "HEAD", "POST", "DELETE"],
            Resource::Destination(..) | Resource::Batch | Resource::Operations => &["POST"],
            Resource::Topics => &["GET", "HEAD", "DELETE"],
            Resource::Events
            | Resource::OpenApi
            | Resource::Views(None)
            | Resource::Subscriptions(None)
            | Resource::Browse(_) => &["GET", "HEAD"],
            Resource::Subscriptions(Some(_)) => &["GET", "HEAD", "PUT", "DELETE"],
            Resource::Views(Some(_)) => &["PUT", "DELETE"],
        })
    }
}

/// Sorts a request; `None` if the path is somebody else's.
pub(crate) fn route(options: &EventsOptions, request: &Request<'_>) -> Option<Route> {
    let resource = Resource::of(options, request.path)?;
    if resource == Resource::Manage(None) {
        return Some(Route::Respond(share(manage::nothing().response(), origin(request))));
    }
    let methods = resource.methods();
    if methods.contains(&request.method) {
        return Some(match resource {
            // It is the same for everybody, as the pages and scripts that the server brings.
            Resource::OpenApi => Route::Respond(share(manage::openapi(), origin(request))),
            _ => Route::Open,
        });
    }
    let allow = format!("{}, OPTIONS", methods.join(", "));
    let response = if request.method == "OPTIONS" {
        let response = Response { status: 204, ..Response::default() };
        let response = match methods.contains(&"PATCH") {
            true => response.with("Accept-Patch", PATCH_TYPES.to_owned()),
            false => response,
        };
        if request.field("access-control-request-method").is_some() {
            preflight(response, &methods)
        } else {
            response
        }
    } else {
        let text = format!("{} is not for this path; use {allow}", shown(request.method));
        Fault::of_http(HttpFault::MethodNotAllowed, text).response()
    };
    Some(Route::Respond(share(response.with("Allow", allow), origin(request))))
}

/// The answer to a body above the limit.
pub(crate) fn too_large(options: &EventsOptions, request: &Request<'_>) -> Response {
    let most = options.message_bytes_max.max(options.batch_bytes_max);
    let text = format!("the body is larger than {most} bytes");
    let fault = Fault::new(CloseCode::FrameTooLarge, text);
    share(fault.response(), origin(request))
}

/// The origin to be named in the answer. Whether its pages may ask was decided before.
pub(crate) fn origin<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.text_field("origin").filter(|origin| is_field_value(origin))
}

fn preflight(response: Response, methods: &[&str]) -> Response {
    response
        .with("Access-Control-Allow-Methods", methods.join(", "))
        .with("Access-Control-Allow-Headers", ALLOWED_FIELDS)
        .with("Access-Control-Max-Age", "7200")
}

fn shown(method: &str) -> String {
    method.chars().take(16).collect()
}

/// The fields that pages of other origins may set.
const ALLOWED_FIELDS: &str = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, \
     Last-Event-ID, Tiderace-Retain, Tiderace-Ttl, Traceparent, Tracestate";

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> EventsOptions {
        EventsOptions { base_path: "/api".to_owned(), ..EventsOptions::default() }
    }

    fn routed(method: &str, path: &str, fields: &[(&str, &[u8])]) -> Option<Result<(), Response>> {
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let request = Request { method, path, query: None, fields, body: b"", peer };
        match route(&options(), &request)? {
            Route::Open => Some(Ok(())),
            Route::Respond(response) => Some(Err(response)),
            Route::Session(_) => None,
        }
    }

    fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        response.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn paths_and_methods() {
        for (method, path) in [
            ("GET", "/api/topics"),
            ("GET", "/api/topics/"),
            ("HEAD", "/api/topics/a/b"),
            ("POST", "/api/topics/a"),
            ("PUT", "/api/topics/a"),
            ("DELETE", "/api/topics/a"),
            ("POST", "/api/queues/a"),
            ("GET", "/api/queues/a/b"),
            ("DELETE", "/api/queues/a"),
            ("POST", "/api/services/a"),
            ("POST", "/api/batch"),
            ("GET", "/api/events"),
            ("HEAD", "/api/events"),
            ("HEAD", "/api/views"),
            ("GET", "/api/subscriptions"),
            ("HEAD", "/api/subscriptions/a"),
            ("PUT", "/api/subscriptions/a/b"),
            ("DELETE", "/api/subscriptions/a"),
            ("GET", "/api/sessions"),
            ("GET", "/api/queues"),
            ("GET", "/api/queues/"),
            ("GET", "/api/services"),
            ("GET", "/api/manage/sessions"),
            ("HEAD", "/api/manage/sessions/0-1-1"),
            ("DELETE", "/api/manage/sessions/0-1-1"),
            ("POST", "/api/manage/queues/a%2Fb/purge"),
        ] {
            assert_eq!(routed(method, path, &[]), Some(Ok(())), "{method} {path}");
        }
        for path in
            ["/", "/topics/a", "/api", "/api/", "/api/sessions/a", "/api/topic/a", "/api/events/x"]
        {
            assert_eq!(routed("GET", path, &[]), None, "{path}");
        }
        for (path, allowed) in [
            ("/api/queues/a", "GET, HEAD, POST, DELETE, OPTIONS"),
            ("/api/services/a", "POST, OPTIONS"),
            ("/api/manage/drain", "POST, GET, HEAD, DELETE, OPTIONS"),
            ("/api/manage/openapi.json", "GET, HEAD, OPTIONS"),
        ] {
            let response = routed("PATCH", path, &[]).unwrap().unwrap_err();
            assert_eq!((response.status, field(&response, "Allow")), (405, Some(allowed)));
        }
    }

    #[test]
    fn below_manage_nothing_is_left_to_others() {
        for path in ["", "/", "/nothing", "/queues/a/b", "/queues/a/b/purge", "/sessions/a/b"] {
            let response = routed("GET", &format!("/api/manage{path}"), &[]).unwrap().unwrap_err();
            assert_eq!(response.status, 404, "{path}");
        }
        assert_eq!(routed("GET", "/api/managed", &[]), None);
        let document = routed("GET", "/api/manage/openapi.json", &[]).unwrap().unwrap_err();
        assert_eq!(document.status, 200);
        assert!(document.body.starts_with(b"{"), "it needs no login");
    }

    #[test]
    fn a_preflight_says_what_is_allowed() {
        let fields: &[(&str, &[u8])] = &[
            ("Host", b"here"),
            ("Origin", b"https://good"),
            ("Access-Control-Request-Method", b"PUT"),
        ];
        let response = routed("OPTIONS", "/api/topics/a", fields).unwrap().unwrap_err();
        assert_eq!(response.status, 204);
        assert_eq!(field(&response, "Access-Control-Allow-Origin"), Some("https://good"));
        assert_eq!(field(&response, "Vary"), Some("Origin"));
        assert_eq!(
            field(&response, "Access-Control-Allow-Methods"),
            Some("GET, HEAD, POST, PUT, PATCH, DELETE")
        );
        assert!(
            field(&response, "Access-Control-Allow-Headers").unwrap().contains("Idempotency-Key")
        );
    }
}
