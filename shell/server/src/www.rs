//! A directory of one's own pages, served to browsers.
//!
//! Event loops must not wait for a disk, so its files are held in memory; a thread looks twice a second whether they
//! have changed and reads those that have. Requests only look up what was read: no name in a request leads to a
//! file system. Relies on the directory's owner for what is in it. Invariants: nothing outside the directory is served;
//! all files together have [`BYTES_MAX`] at most; what was read last stays if the directory cannot be read.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use bytes::Bytes;
use tiderace_wire::{Request, Response};
use tracing::{info, warn};

/// The files of a directory, as they were read last.
#[derive(Debug)]
pub(crate) struct Www {
    root: PathBuf,
    // Held for one look-up, by requests that are no protocol's.
    site: RwLock<Arc<Site>>,
}

/// What requests find.
#[derive(Debug, Default)]
struct Site {
    /// By the path in a URL, decoded: `/app/main.js`.
    files: HashMap<String, File>,
    /// Paths of directories without the slash at their end, except the root's.
    directories: Vec<String>,
    /// Files that were left out, and why.
    left_out: Vec<String>,
}

#[derive(Clone, Debug)]
struct File {
    content_type: &'static str,
    tag: String,
    body: Bytes,
    /// Tells whether it has to be read again.
    stamp: Stamp,
}

/// Length and time of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, Option<SystemTime>);

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp(metadata.len(), metadata.modified().ok())
    }
}

impl Www {
    /// Reads a directory, and from then on what changes in it.
    ///
    /// # Errors
    /// When it cannot be read, or its thread cannot be started.
    pub(crate) fn open(directory: &str) -> anyhow::Result<Arc<Www>> {
        let wrong = || format!("server.www: the directory {directory:?} cannot be read");
        let root = fs::canonicalize(directory).with_context(wrong)?;
        let site = Site::read(&root, &Site::default()).with_context(wrong)?;
        site.warn_of_left_out(&Site::default());
        info!(
            event = "www-read",
            directory,
            files = site.files.len(),
            "serving pages of a directory"
        );
        let www = Arc::new(Www { root, site: RwLock::new(Arc::new(site)) });
        let watched = Arc::downgrade(&www);
        thread::Builder::new()
            .name("www".to_owned())
            .spawn(move || {
                let mut pause = LOOK_EVERY;
                loop {
                    thread::sleep(pause);
                    let Some(www) = watched.upgrade() else { return };
                    let begun = Instant::now();
                    www.look();
                    // Very many files take a fiftieth of a core at most.
                    pause = LOOK_EVERY.max(begun.elapsed() * 50);
                }
            })
            .context("the thread that reads pages could not be started")?;
        Ok(www)
    }

    /// Reads what has changed.
    fn look(&self) {
        let before = self.site();
        // A directory that is being replaced is there again at the next look.
        let Ok(site) = Site::read(&self.root, &before) else { return };
        site.warn_of_left_out(&before);
        *self.site.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(site);
    }

    fn site(&self) -> Arc<Site> {
        self.site.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answer, if there is such a file or directory.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Option<Response> {
        self.site().answer(request)
    }
}

impl Site {
    /// Reads a directory; files that have not changed are taken from what was read before.
    fn read(root: &Path, before: &Site) -> io::Result<Site> {
        let mut site = Site::default();
        let mut bytes = 0;
        let mut waiting = vec![(root.to_owned(), String::new(), 0)];
        while let Some((directory, url, depth)) = waiting.pop() {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                // What begins with a dot is not meant for others: `.git`, `.env`.
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                    continue;
                };
                let url = format!("{url}/{name}");
                // Links to directories are not followed: they can lead in circles.
                if entry.file_type()?.is_dir() {
                    match depth < DEPTH_MAX {
                        true => {
                            site.directories.push(url.clone());
                            waiting.push((entry.path(), url, depth + 1));
                        }
                        false => site.leave_out(url, "it lies too deep"),
                    }
                    continue;
                }
                if site.files.len() >= FILES_MAX {
                    site.leave_out(url, "there are too many files");
                    continue;
                }
                match File::read(root, &entry.path(), before.files.get(&url), BYTES_MAX - bytes) {
                    Ok(Some(file)) => {
                        bytes += file.body.len();
                        site.files.insert(url, file);
                    }
                    Ok(None) => site.leave_out(url, "all files together may have 64 MiB"),
                    // It has gone since its name was read, or is none of ours.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => site.leave_out(url, &error.to_string()),
                }
            }
        }
        Ok(site)
    }

    fn leave_out(&mut self, url: String, why: &str) {
        if self.left_out.len() < LEFT_OUT_SHOWN_MAX {
            self.left_out.push(format!("{url}: {why}"));
        }
    }

    /// Says once of each file that it is left out.
    fn warn_of_left_out(&self, before: &Site) {
        for file in self.left_out.iter().filter(|file| !before.left_out.contains(file)) {
            warn!(event = "www-file-left-out", file, "a file of server.www is not served");
        }
    }

    fn answer(&self, request: &Request<'_>) -> Option<Response> {
        let path = decoded(request.path)?;
        let file = match path.strip_suffix('/') {
            Some(directory) => self.files.get(&format!("{directory}/index.html"))?,
            None => match self.files.get(&path) {
                Some(file) => file,
                // So that what the page names beside itself is looked for below it.
                None if self.directories.contains(&path) => {
                    let response = Response { status: 308, ..Response::default() };
                    return Some(response.with("Location", format!("{}/", request.path)));
                }
                None => return None,
            },
        };
        if !matches!(request.method, "GET" | "HEAD") {
            let why = "a page is read, by GET or HEAD";
            return Some(
                Response::refusal(405, "method-not-allowed", why).with("Allow", "GET, HEAD"),
            );
        }
        let known = request.text_field("if-none-match").unwrap_or_default();
        let is_known = known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == file.tag);
        let response = match is_known {
            true => Response { status: 304, ..Response::default() },
            false => Response::new(200, file.content_type, file.body.clone()),
        };
        Some(
            response
                .with("ETag", file.tag.clone())
                .with("Cache-Control", "no-cache")
                .with("X-Content-Type-Options", "nosniff"),
        )
    }
}

impl File {
    /// Reads a file below a directory; `None` if it has more than so many bytes.
    fn read(
        root: &Path,
        path: &Path,
        before: Option<&File>,
        bytes_max: usize,
    ) -> io::Result<Option<File>> {
        let mut metadata = fs::symlink_metadata(path)?;
        if metadata.is_symlink() {
            if !fs::canonicalize(path)?.starts_with(root) {
                return Err(io::Error::other("it leads out of the directory"));
            }
            metadata = fs::metadata(path)?;
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let stamp = Stamp::of(&metadata);
        if metadata.len() > bytes_max as u64 {
            return Ok(None);
        }
        if let Some(known) = before.filter(|known| known.stamp == stamp) {
            return Ok(Some(known.clone()));
        }
        let body = fs::read(path)?;
        if body.len() > bytes_max {
            return Ok(None);
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&body);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let content_type = content_type(path);
        Ok(Some(File { content_type, tag, body: body.into(), stamp }))
    }
}

/// A path of a request without percent signs; `None` if it is no text.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" | "md" | "ts" | "tsx" | "jsx" => "text/plain; charset=utf-8",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

/// Of all files together.
const BYTES_MAX: usize = 64 << 20;
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 32;
/// Of which the log tells.
const LEFT_OUT_SHOWN_MAX: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(fs::canonicalize(path).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn ask(site: &Site, method: &str, path: &str, known: &[u8]) -> Option<Response> {
        let fields: &[(&str, &[u8])] = &[("If-None-Match", known)];
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        site.answer(&Request { method, path, query: None, fields, body: b"", peer })
    }

    fn get(site: &Site, path: &str) -> Option<Response> {
        ask(site, "GET", path, b"")
    }

    fn field<'a>(response: &'a Response, name: &str) -> &'a str {
        let found = response.headers.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    #[test]
    fn what_is_in_the_directory_is_served_and_nothing_else() {
        let outside = Folder::new("www-outside");
        let root = outside.0.join("www");
        fs::create_dir_all(root.join("app/.git")).unwrap();
        fs::write(outside.0.join("secret.txt"), "secret").unwrap();
        fs::write(root.join("index.html"), "<!doctype html>").unwrap();
        fs::write(root.join("app/main page.js"), "1").unwrap();
        fs::write(root.join("app/.git/config"), "hidden").unwrap();
        fs::write(root.join(".env"), "hidden").unwrap();
        symlink(outside.0.join("secret.txt"), root.join("link.txt")).unwrap();
        symlink(&outside.0, root.join("up")).unwrap();
        symlink(root.join("index.html"), root.join("home.html")).unwrap();
        symlink(&root, root.join("app/circle")).unwrap();
        let site = Site::read(&root, &Site::default()).unwrap();

        for path in ["/", "/index.html", "/home.html", "/%69ndex.html"] {
            let page = get(&site, path).unwrap();
            assert_eq!((page.status, &page.body[..]), (200, &b"<!doctype html>"[..]), "{path}");
            assert_eq!(field(&page, "Content-Type"), "text/html; charset=utf-8");
        }
        let script = get(&site, "/app/main%20page.js").unwrap();
        assert_eq!(
            (field(&script, "Content-Type"), &script.body[..]),
            ("text/javascript; charset=utf-8", &b"1"[..])
        );
        let moved = get(&site, "/app").unwrap();
        assert_eq!((moved.status, field(&moved, "Location")), (308, "/app/"));
        for path in [
            "/app/",
            "/.env",
            "/app/.git/config",
            "/link.txt",
            "/up/secret.txt",
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "/app/circle/index.html",
            "/none",
            "/%",
            "/%ff",
            "",
            "//index.html",
            "/app/../index.html",
        ] {
            assert!(get(&site, path).is_none(), "{path}");
        }
        assert_eq!(ask(&site, "POST", "/index.html", b"").unwrap().status, 405);
        assert!(site.left_out.iter().any(|file| file.starts_with("/link.txt: ")));
    }

    #[test]
    fn a_file_that_has_changed_is_read_again_and_one_that_a_browser_has_is_not_sent() {
        let root = Folder::new("www-changed");
        let path = root.0.join("a.css");
        fs::write(&path, "first").unwrap();
        let first = Site::read(&root.0, &Site::default()).unwrap();
        let tag = field(&get(&first, "/a.css").unwrap(), "ETag").to_owned();
        let same = Site::read(&root.0, &first).unwrap();
        assert_eq!(
            get(&same, "/a.css").unwrap().body.as_ptr(),
            get(&first, "/a.css").unwrap().body.as_ptr(),
            "it was read again"
        );
        for known in [tag.clone(), format!("\"x\", W/{tag}")] {
            let known = ask(&first, "GET", "/a.css", known.as_bytes()).unwrap();
            assert_eq!((known.status, known.body.len()), (304, 0));
        }
        fs::write(&path, "second").unwrap();
        let second = Site::read(&root.0, &first).unwrap();
        let changed = ask(&second, "GET", "/a.css", tag.as_bytes()).unwrap();
        assert_eq!((changed.status, &changed.body[..]), (200, &b"second"[..]));
        fs::remove_file(&path).unwrap();
        assert!(get(&Site::read(&root.0, &second).unwrap(), "/a.css").is_none());
    }

    #[test]
    fn files_beyond_the_bound_are_left_out() {
        let root = Folder::new("www-bound");
        for name in ["a", "b"] {
            fs::File::create(root.0.join(name)).unwrap().set_len(BYTES_MAX as u64 / 2 + 1).unwrap();
        }
        let site = Site::read(&root.0, &Site::default()).unwrap();
        assert_eq!((site.files.len(), site.left_out.len()), (1, 1));
        assert!(site.left_out[0].contains("64 MiB"));
    }
}
