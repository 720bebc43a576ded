//! What a server says of itself on `/metrics`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A metric, the rows of all labels added up; `None` if the server does not tell.
pub(crate) fn metric(address: SocketAddr, name: &str) -> Option<u64> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(BYTES_MAX).read_to_string(&mut answer).ok()?;
    sum(&answer, name)
}

fn sum(metrics: &str, wanted: &str) -> Option<u64> {
    let rows = metrics.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        let name = name.split('{').next().unwrap_or_default();
        (name == wanted).then(|| value.parse::<u64>().ok()).flatten()
    });
    rows.fold(None, |sum, value| Some(sum.unwrap_or(0) + value))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Only a server that does not answer at all is given up: figures would be missing without a word, and a machine that does much
/// besides may take seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_added_up() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# HELP tiderace_write_blocks_total Writes.\n\
                    tiderace_write_blocks_total{shard=\"0\"} 5\ntiderace_write_blocks_total{shard=\"1\"} 7\n\
                    tiderace_write_blocks_total_other 9\n";
        let name = "tiderace_write_blocks_total";
        assert_eq!(sum(text, name), Some(12));
        assert_eq!(sum("tiderace_write_blocks_total 3\n", name), Some(3));
        assert_eq!(sum("nothing", name), None);
    }
}
