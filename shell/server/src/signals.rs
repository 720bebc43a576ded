//! What the server does when it gets a signal.
//!
//! SIGINT and SIGTERM ask for an orderly end (the first of them; the second ends the process at once), SIGHUP for reading again what can be read again. Signals that end
//! a process unless somebody listens, though they mean nothing to a server, are taken and said in the log:
//! nobody who runs `systemctl reload`, rotates logs or closes a terminal wants all connections to end. SIGPIPE
//! is ignored by Rust's runtime already. SIGQUIT, SIGXCPU, real-time signals and those of defects keep their
//! meaning. Invariant: before the server takes connections, SIGINT and SIGTERM end it at once, as nothing is lost then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use anyhow::Context;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
};
use tracing::info;

use crate::alarms::Lookout;
use crate::control::Control;

/// The signals of this process.
pub(crate) struct Signals {
    /// The name of the signal that asked for an end.
    pub(crate) stop: Receiver<&'static str>,
    /// For who asks for an end without a signal.
    pub(crate) stopper: Sender<&'static str>,
    is_serving: Arc<AtomicBool>,
}

impl Signals {
    /// Takes signals from now on.
    ///
    /// # Errors
    /// When the operating system does not let them be taken.
    pub(crate) fn take(control: Control) -> anyhow::Result<Signals> {
        let (stop_sender, stop) = channel();
        let is_serving = Arc::new(AtomicBool::new(false));
        let numbers = [SIGINT, SIGTERM, SIGHUP].iter().chain(MEANINGLESS.iter().map(|(it, _)| it));
        let mut signals =
            signal_hook::iterator::Signals::new(numbers).context("signals cannot be received")?;
        let listener = Listener {
            stop: stop_sender.clone(),
            control,
            is_serving: Arc::clone(&is_serving),
            is_stopping: false,
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || listener.listen(&mut signals))
            .context("the signal thread could not be started")?;
        Ok(Signals { stop, stopper: stop_sender, is_serving })
    }

    /// From now on an end has to be orderly.
    pub(crate) fn serving(&self) {
        self.is_serving.store(true, Ordering::Release);
    }
}

/// Waits until somebody asks for an end, and looks for alarms meanwhile; the name of the signal.
///
/// # Errors
/// When nobody can ask any more.
pub(crate) fn wait(
    stop: &Receiver<&'static str>,
    lookout: &mut Lookout,
) -> anyhow::Result<&'static str> {
    let asked = lookout.look_until(|most| match stop.recv_timeout(most) {
        Err(RecvTimeoutError::Timeout) => None,
        asked => Some(asked),
    });
    asked.context("the signal thread ended")
}

struct Listener {
    stop: Sender<&'static str>,
    control: Control,
    is_serving: Arc<AtomicBool>,
    is_stopping: bool,
}

impl Listener {
    fn listen(mut self, signals: &mut signal_hook::iterator::Signals) {
        for signal in signals.forever() {
            match signal {
                SIGHUP => self.control.hang_up(),
                SIGINT | SIGTERM => self.stop(signal),
                other => {
                    let name = MEANINGLESS.iter().find(|(number, _)| *number == other);
                    let signal = name.map_or("unknown", |(_, name)| *name);
                    info!(
                        event = "signal-ignored",
                        signal, "this signal means nothing to the server"
                    );
                }
            }
        }
    }

    /// The second one ends the process at once; so does the first before the server takes connections.
    fn stop(&mut self, signal: i32) {
        let is_again = std::mem::replace(&mut self.is_stopping, true);
        if is_again {
            crate::logging::finish();
            std::process::exit(130);
        }
        if !self.is_serving.load(Ordering::Acquire) {
            crate::logging::finish();
            // As if nobody had listened; it does not return.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        // Nobody hears it if the server is ending already.
        let _ = self.stop.send(if signal == SIGINT { "SIGINT" } else { "SIGTERM" });
    }
}

/// Signals that would end the process and mean nothing to it. SIGXFSZ would hide the error of a file that may
/// not grow, which the store takes for a full disk.
const MEANINGLESS: &[(i32, &str)] = &[
    (SIGUSR1, "SIGUSR1"),
    (SIGUSR2, "SIGUSR2"),
    (SIGALRM, "SIGALRM"),
    (SIGVTALRM, "SIGVTALRM"),
    (SIGPROF, "SIGPROF"),
    (SIGIO, "SIGIO"),
    (SIGXFSZ, "SIGXFSZ"),
    #[cfg(target_os = "linux")]
    (libc::SIGPWR, "SIGPWR"),
    #[cfg(target_os = "linux")]
    (libc::SIGSTKFLT, "SIGSTKFLT"),
];
