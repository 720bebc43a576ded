//! Waits for what clients do not say.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use tiderace_base::Span;
use tiderace_reactor::NodeHandle;

/// Waits until the brokers count so many; not every client asks for a receipt.
pub fn wait_for_subscriptions(node: &NodeHandle, wanted: u64) {
    let control = node.control();
    let count = || {
        let metrics = control.broker_metrics();
        let row = metrics.iter().find(|(row, _)| row.name == "tiderace_subscriptions");
        row.map(|(_, value)| *value).unwrap()
    };
    let start = std::time::Instant::now();
    while count() < wanted {
        assert!(start.elapsed() < Span::from_secs(20), "{} of {wanted}", count());
        std::thread::yield_now();
    }
}
