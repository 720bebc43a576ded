//! Which topics a user subscribes to.

/// Topics of a user by path: `subscriptions` of `topics`, distinct, and spread like random ones.
pub fn topics(prefix: &str, (topics, subscriptions): (usize, usize), user: usize) -> Vec<String> {
    let count = topics as u64;
    // A step that shares no divisor with the count visits each topic once.
    let mut step = (user as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
    while divisor(step, count) != 1 {
        step = (step + 1) % count.max(2);
    }
    let begin = (user as u64 + 7).wrapping_mul(0xbf58_476d_1ce4_e5b9) % count;
    (0..subscriptions as u64)
        .map(|at| format!("{prefix}/{}", (begin + at * step) % count))
        .collect()
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn users_have_distinct_topics_that_differ() {
        for count in [1, 2, 10, 1000, 50000] {
            let subscriptions = count.min(1000);
            for user in [0, 1, 2, 77, 999] {
                let topics: HashSet<String> =
                    topics("x", (count, subscriptions), user).into_iter().collect();
                assert_eq!(topics.len(), subscriptions, "{count} {user}");
            }
        }
        assert_ne!(topics("x", (50_000, 1000), 0), topics("x", (50_000, 1000), 1));
    }
}
