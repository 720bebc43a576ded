//! The live page of development mode, and the SDK: files that were built before and are part of the program.
//!
//! Relies on `console/live/dist` and `clients/typescript/dist`, which their tests keep fresh. Invariant:
//! only this machine is given the page, and the page loads nothing from elsewhere.

use tiderace_wire::{Request, Response};

/// One file.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../../../console/live/dist/index.html"),
    },
    Asset {
        path: "/live.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../console/live/dist/live.js"),
    },
    Asset {
        path: "/live.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../console/live/dist/live.css"),
    },
    Asset {
        path: "/live.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../../../console/live/dist/live.svg"),
    },
];

/// The SDK.
const SDK: &[Asset] = &[
    Asset {
        path: "/tiderace.min.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../clients/typescript/dist/tiderace.min.js"),
    },
    Asset {
        path: "/topics.min.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../clients/typescript/dist/topics.min.js"),
    },
];

/// The answer to a request for one of the SDK's files. Pages of every origin may load them: they hold nothing but the
/// program.
pub(crate) fn sdk(request: &Request<'_>) -> Option<Response> {
    let asset = SDK.iter().find(|asset| asset.path == request.path)?;
    let response = Response::new(200, asset.content_type, asset.bytes)
        .with("Access-Control-Allow-Origin", "*")
        .with("Cross-Origin-Resource-Policy", "cross-origin")
        .with("X-Content-Type-Options", "nosniff")
        .with("Cache-Control", "no-cache");
    Some(response)
}

/// The answer to a request for one of the page's files. A program that asks for `/` without wanting
/// HTML is for somebody else to answer.
pub(crate) fn answer(request: &Request<'_>) -> Option<Response> {
    if !request.peer.ip().to_canonical().is_loopback() {
        return None;
    }
    if request.path == "/" && !request.text_field("accept")?.contains("text/html") {
        return None;
    }
    // Where a directory of one's own has the page at `/`, the live page is still there.
    let path = if request.path == "/live" { "/" } else { request.path };
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    let response = Response::new(200, asset.content_type, asset.bytes)
        .with("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
        .with("X-Content-Type-Options", "nosniff")
        .with("Referrer-Policy", "no-referrer")
        .with("Cache-Control", "no-cache");
    Some(response)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;

    use super::*;

    fn ask(path: &str, accept: &[u8], peer: [u8; 4]) -> Option<Response> {
        answer(&Request {
            method: "GET",
            path,
            query: None,
            fields: &[("Accept", accept)],
            body: b"",
            peer: SocketAddr::from((peer, 1)),
        })
    }

    #[test]
    fn a_browser_on_this_machine_gets_the_page_and_nobody_else() {
        let page = ask("/", b"text/html,*/*", [127, 0, 0, 1]).unwrap();
        assert!(page.body.starts_with(b"<!doctype html>"));
        assert!(page.headers.iter().any(|(name, _)| *name == "Content-Security-Policy"));
        assert_eq!(ask("/live", b"*/*", [127, 0, 0, 1]).unwrap().body, page.body);
        assert!(ask("/", b"*/*", [127, 0, 0, 1]).is_none());
        assert!(ask("/", b"text/html", [192, 0, 2, 1]).is_none());
        assert!(ask("/other", b"text/html", [127, 0, 0, 1]).is_none());
    }

    #[test]
    fn what_the_page_names_is_there() {
        let page = String::from_utf8_lossy(ASSETS.first().unwrap().bytes).into_owned();
        for asset in ASSETS.iter().skip(1) {
            assert!(page.contains(asset.path.trim_start_matches('/')), "{}", asset.path);
            assert!(ask(asset.path, b"*/*", [127, 0, 0, 1]).is_some());
        }
        assert!(page.contains("tiderace.min.js"));
    }

    #[test]
    fn pages_of_every_origin_may_load_the_sdk() {
        for path in ["/tiderace.min.js", "/topics.min.js"] {
            let peer = SocketAddr::from(([192, 0, 2, 1], 1));
            let fields = &[("Origin", &b"http://localhost:5173"[..])];
            let request = Request { method: "GET", path, query: None, fields, body: b"", peer };
            let file = sdk(&request).unwrap();
            assert!(file.headers.contains(&("Access-Control-Allow-Origin", "*".to_owned())));
            assert!(file.body.len() > 1000);
        }
    }
}
