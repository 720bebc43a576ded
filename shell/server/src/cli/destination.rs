//! How destinations are typed: a path or pattern, of topics unless `--queue` says otherwise.
//!
//! Relies on the paths of topics. Invariant: all commands mean the same topic by the same text.

use tiderace_client::{Kind, SubscribeOptions};
use tiderace_topics::{Path, Selector};

use super::error::ClientError;

/// The kind, and the path or pattern. `/topic/` and `/queue/` in front say the kind, too.
fn split(typed: &str, is_queue: bool) -> Result<(Kind, &str), ClientError> {
    for (prefix, kind) in [("/topic/", Kind::Topic), ("/queue/", Kind::Queue)] {
        if let Some(path) = typed.strip_prefix(prefix) {
            return Ok((kind, path));
        }
    }
    if ["/temp-topic/", "/temp-queue/"].iter().any(|prefix| typed.starts_with(prefix)) {
        let problem = "would belong to this command alone; name a topic or a queue";
        return Err(ClientError::Usage(format!("{typed:?} {problem}")));
    }
    let kind = if is_queue { Kind::Queue } else { Kind::Topic };
    Ok((kind, typed.trim_start_matches('/')))
}

/// A subscription to what is typed. The server says what is wrong with it.
pub(super) fn subscription(typed: &str, is_queue: bool) -> Result<SubscribeOptions, ClientError> {
    let (kind, path) = split(typed, is_queue)?;
    let options = match kind {
        Kind::Queue => SubscribeOptions::queue(path).explicit(),
        _ => SubscribeOptions::topic(path).snapshot(),
    };
    Ok(if Path::parse(path).is_ok() { options } else { options.pattern() })
}

/// Where to publish: one path, or those of a set such as `[a, b/c]`.
pub(super) fn targets(typed: &str, is_queue: bool) -> Result<(Kind, Vec<String>), ClientError> {
    let (kind, path) = split(typed, is_queue)?;
    if path.starts_with('?') || path.contains(['*', '+', '#']) {
        let problem = "has a wildcard; name one topic to publish to";
        return Err(ClientError::Usage(format!("{typed:?} {problem}")));
    }
    let paths = match Selector::parse(path) {
        Ok(selector) => {
            selector.patterns().iter().map(|member| member.as_str().to_owned()).collect()
        }
        // The server says what is wrong with it.
        Err(_) => vec![path.to_owned()],
    };
    Ok((kind, paths))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_a_subscription() {
        for (typed, is_queue, kind, path) in [
            ("fx/EUR-USD", false, Kind::Topic, "fx/EUR-USD"),
            ("/fx/EUR-USD", false, Kind::Topic, "fx/EUR-USD"),
            ("jobs", true, Kind::Queue, "jobs"),
            ("fx/**", false, Kind::Topic, "fx/**"),
            ("v1.0/price", false, Kind::Topic, "v1.0/price"),
            ("a,b/100%", true, Kind::Queue, "a,b/100%"),
            ("/topic/fx", true, Kind::Topic, "fx"),
            ("/queue/jobs", false, Kind::Queue, "jobs"),
            ("?fx/[A-Z]{3,4}-USD/.*", false, Kind::Topic, "?fx/[A-Z]{3,4}-USD/.*"),
        ] {
            let options = subscription(typed, is_queue).unwrap();
            assert_eq!((options.kind(), options.path()), (kind, path), "{typed}");
        }
        assert!(subscription("/temp-queue/a", false).is_err());
    }

    #[test]
    fn messages_go_to_one_path_or_to_those_of_a_set() {
        let paths = |typed: &str| targets(typed, false).map(|(_, paths)| paths);
        for typed in ["fx/EUR-USD", "v1.0/price", "a,b", "100%", "~/inbox"] {
            assert_eq!(paths(typed).unwrap(), [typed]);
        }
        assert_eq!(paths("[a/b, c.d]").unwrap(), ["a/b", "c.d"]);
        assert_eq!(targets("jobs", true).unwrap(), (Kind::Queue, vec!["jobs".to_owned()]));
        for typed in ["fx/*", "fx/#", "?fx", "[a, b/**]", "/temp-queue/a"] {
            assert!(paths(typed).is_err(), "{typed}");
        }
    }
}
