//! Tells the service manager that the server is alive, as long as every shard goes on.
//!
//! Relies on the numbers of turns that shards have ended, which grow also when there is nothing to do. Invariant: the
//! manager hears of the server only if every shard has ended a turn since it has heard last. A server that stops is no
//! longer watched so: shards end, and the manager bounds that time by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tiderace_reactor::NodeControl;
use tracing::{info, warn};

use crate::service_manager;

/// Begins to tell it, if there is a manager that wants to hear it. `serving` is how the server stands otherwise.
///
/// # Errors
/// When the thread could not be started.
pub(crate) fn start(
    node: NodeControl,
    is_stopping: Arc<AtomicBool>,
    serving: String,
) -> anyhow::Result<()> {
    let Some(interval) = service_manager::watchdog_interval() else { return Ok(()) };
    let look = move || {
        let turns = || node.turns().collect::<Vec<u64>>();
        let mut watch = Watch::new(&turns());
        let mut since = Instant::now();
        loop {
            std::thread::sleep(interval / LOOKS);
            let stuck = match is_stopping.load(Ordering::Acquire) {
                true => None,
                false => watch.stuck(&turns()),
            };
            let Some((shard, is_news)) = stuck else {
                if watch.goes_on() {
                    info!(event = "shard-goes-on", "all event loops go on again");
                    service_manager::status(&serving);
                }
                service_manager::alive();
                since = Instant::now();
                continue;
            };
            say_stuck(shard, is_news, since.elapsed());
        }
    };
    let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(look);
    thread.map(drop).context("the thread that watches over the event loops could not be started")
}

fn say_stuck(shard: usize, is_news: bool, silence: Duration) {
    let seconds = silence.as_secs_f32();
    if is_news {
        warn!(
            event = "shard-stuck",
            shard,
            seconds,
            "an event loop does not go on; the service manager is not told that the server is alive"
        );
    }
    service_manager::status(&format!(
        "Shard {shard} does not go on; the watchdog has not been fed for {seconds:.1} s."
    ));
}

/// What has been seen of the shards.
#[derive(Debug)]
struct Watch {
    /// Turns that they had ended when all were seen to go on.
    turns: Vec<u64>,
    is_stuck: bool,
}

impl Watch {
    fn new(turns: &[u64]) -> Watch {
        Watch { turns: turns.to_vec(), is_stuck: false }
    }

    /// The first shard that has not ended a turn since all had, and whether that is news.
    fn stuck(&mut self, turns: &[u64]) -> Option<(usize, bool)> {
        let stuck = turns.iter().zip(&self.turns).position(|(now, before)| now == before);
        if stuck.is_none() {
            self.turns = turns.to_vec();
        }
        stuck.map(|shard| (shard, !std::mem::replace(&mut self.is_stuck, true)))
    }

    /// All go on: whether that is news.
    fn goes_on(&mut self) -> bool {
        std::mem::take(&mut self.is_stuck)
    }
}

/// How many times within the manager's interval shards are looked at: one that hangs is found out within the interval and a
/// quarter of it.
const LOOKS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shard_that_hangs_is_enough() {
        let mut watch = Watch::new(&[0, 0, 0]);
        assert_eq!(watch.stuck(&[1, 1, 1]), None);
        assert_eq!(watch.stuck(&[2, 1, 2]), Some((1, true)));
        assert_eq!(watch.stuck(&[3, 1, 3]), Some((1, false)));
        // The others are not asked for more than one turn since all were seen.
        assert_eq!(watch.stuck(&[3, 2, 3]), None);
        assert!(watch.goes_on() && !watch.goes_on());
        assert_eq!(watch.stuck(&[3, 3, 3]), Some((0, true)));
    }
}
