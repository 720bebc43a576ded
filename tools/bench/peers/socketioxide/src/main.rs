//! A socketioxide server as its documentation would write it: clients join rooms, the server emits.
//!
//! Usage: `tiderace-bench-peer-socketioxide [port] [topics] [bytes]`. Relies on a wall clock that does not
//! jump. Invariant: messages are those of the `timed-text` feed.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use socketioxide::SocketIo;
use socketioxide::extract::{AckSender, Data, SocketRef};
use socketioxide::handler::ConnectHandler;

/// Messages per second; [`u64::MAX`] for as many as possible.
type Rate = Arc<AtomicU64>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |at: usize, usual: u64| {
        std::env::args().nth(at).and_then(|word| word.parse().ok()).unwrap_or(usual)
    };
    let (port, topics, bytes) = (argument(1, 3001), argument(2, 1), argument(3, 1024));
    let rate = Rate::default();
    // What a socket may have waiting before emits to it fail.
    let (layer, io) = SocketIo::builder().max_buffer_size(1024).build_layer();
    let told = Arc::clone(&rate);
    // In a middleware, which is over before a client hears that it is connected: handlers that are set
    // later miss what it says at once.
    let prepare = async move |socket: SocketRef| {
        socket.on("subscribe", async |socket: SocketRef, Data::<String>(topic), ack: AckSender| {
            socket.join(topic);
            let _ = ack.send(&Answer { ok: true });
        });
        let told = Arc::clone(&told);
        socket.on("control", async move |Data::<String>(word)| {
            let rate = match word.as_str() {
                "max" => u64::MAX,
                number => number.parse().unwrap_or(0),
            };
            told.store(rate, Relaxed);
        });
        Ok::<(), Infallible>(())
    };
    io.ns("/", connected.with(prepare));
    tokio::spawn(publish(io, rate, topics, bytes));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port as u16)).await?;
    axum::serve(listener, axum::Router::new().layer(layer)).await?;
    Ok(())
}

async fn connected(_: SocketRef) {}

async fn publish(io: SocketIo, rate: Rate, topics: u64, bytes: u64) {
    let filling = ".".repeat((bytes as usize).saturating_sub(16));
    let (mut turn, mut followed, mut begun, mut taken) = (0u64, 0, unix_ns(), 0u64);
    loop {
        let wanted = rate.load(Relaxed);
        if wanted != followed {
            (followed, begun, taken) = (wanted, unix_ns(), 0);
        }
        let mut published = 0;
        while published < 16 {
            let now = unix_ns();
            let due = match followed {
                0 => break,
                u64::MAX => now,
                rate => begun + (u128::from(taken) * 1_000_000_000 / u128::from(rate)) as u64,
            };
            if due > now {
                break;
            }
            let topic = format!("bench/{}", turn % topics.max(1));
            let value = format!("{due:016x}{filling}");
            // What does not fit into a client's buffer is lost to it.
            let _ = io.to(topic.clone()).emit("message", &(topic, value)).await;
            (turn, taken, published) = (turn + 1, taken + 1, published + 1);
        }
        match (followed, published) {
            (u64::MAX, _) => tokio::task::yield_now().await,
            (_, 16) => {}
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The acknowledgement of a subscription.
#[derive(serde::Serialize)]
struct Answer {
    ok: bool,
}
