//! A terminal on which pictures are drawn one over the other, and which is given back as it was.
//!
//! Two threads wait for keys and signals, so that an end is heard of whatever the command waits for. Relies on ANSI's
//! sequences. Invariant: what ends the command has given the terminal back first, unless it is killed.

use std::io::{self, IsTerminal, Read, Write};
use std::process::exit;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The other screen, without a cursor, and lines that end at its edge.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// See the module's documentation.
pub(super) struct Screen {
    terminal: Arc<Terminal>,
    redraw: Receiver<()>,
}

struct Terminal {
    /// How the terminal was, if keys come from it.
    before: Option<Termios>,
    /// Whether pictures are drawn on it. Who writes to it holds this.
    is_taken: Mutex<bool>,
}

impl Screen {
    /// Takes the terminal that standard output is.
    ///
    /// # Errors
    /// When it cannot be written to, or signals cannot be received.
    pub(super) fn open() -> io::Result<Screen> {
        let has_keys = io::stdin().is_terminal();
        let before = if has_keys { tcgetattr(io::stdin()).ok() } else { None };
        let terminal = Arc::new(Terminal { before, is_taken: Mutex::new(false) });
        let (sender, redraw) = channel();
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH])?;
        let of_signals = terminal.clone();
        thread("signals", move || obey(signals, &of_signals, &sender))?;
        terminal.take(&mut terminal.lock())?;
        if has_keys {
            let of_keys = terminal.clone();
            thread("keys", move || listen(&of_keys))?;
        }
        Ok(Screen { terminal, redraw })
    }

    /// Columns and lines; of a terminal that does not say, those that most have.
    pub(super) fn size() -> (usize, usize) {
        let size = terminal_size::terminal_size_of(io::stdout());
        let (width, height) = size.map_or((0, 0), |(width, height)| (width.0, height.0));
        let or = |size: u16, usual: u16| usize::from(if size == 0 { usual } else { size });
        (or(width, 80), or(height, 24))
    }

    /// Draws over what was drawn before.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let rows: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        let text = format!("\x1b[H{}\x1b[J", rows.join("\r\n"));
        let is_taken = self.terminal.lock();
        if *is_taken { write(&text) } else { Ok(()) }
    }

    /// Waits for so long; whether something has changed the terminal meanwhile.
    pub(super) fn wants_drawing(&self, most: Duration) -> bool {
        self.redraw.recv_timeout(most).is_ok()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.terminal.give_back());
    }
}

impl Terminal {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless a picture is being drawn on a terminal that nobody reads: the command ends all the same.
    fn lock_soon(&self) -> Option<MutexGuard<'_, bool>> {
        for _ in 0..100 {
            match self.is_taken.try_lock() {
                Ok(is_taken) => return Some(is_taken),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }

    fn take(&self, is_taken: &mut bool) -> io::Result<()> {
        if let Some(before) = &self.before {
            let mut modes = before.clone();
            // Keys come one by one, and are not shown. Those that mean signals still do.
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        }
        *is_taken = true;
        write(BEGIN)
    }

    /// Gives it back; nothing is drawn while what it returns is held. `None`: a picture is still being drawn, on a terminal that
    /// nobody reads.
    fn give_back(&self) -> Option<MutexGuard<'_, bool>> {
        // Modes first, for which a terminal need not be read. One that is gone needs nothing.
        if let Some(before) = &self.before {
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        let mut is_taken = self.lock_soon()?;
        if std::mem::take(&mut *is_taken) && has_room() {
            let _ = write(END);
        }
        Some(is_taken)
    }
}

/// Whether what is written to the terminal does not wait for somebody to read it.
fn has_room() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|ready| ready == 1)
}

/// Ends the command when `q` is pressed.
fn listen(terminal: &Terminal) {
    let keys = io::stdin().lock().bytes().map_while(Result::ok);
    for key in keys {
        if matches!(key, b'q' | b'Q') {
            leave(terminal);
        }
    }
}

/// Does what signals ask for.
fn obey(mut signals: Signals, terminal: &Terminal, redraw: &Sender<()>) {
    for signal in signals.forever() {
        match signal {
            SIGWINCH => {}
            SIGTSTP => {
                drop(terminal.give_back());
                // Returns when the command goes on.
                let _ = emulate_default_handler(SIGTSTP);
                if let Some(mut is_taken) = terminal.lock_soon() {
                    let _ = terminal.take(&mut is_taken);
                }
            }
            SIGINT => leave(terminal),
            other => {
                let is_taken = terminal.give_back();
                let _ = emulate_default_handler(other);
                drop(is_taken);
            }
        }
        // Nobody draws any more.
        let _ = redraw.send(());
    }
}

/// Nothing is drawn behind the end, since the lock is held.
fn leave(terminal: &Terminal) {
    let is_taken = terminal.give_back();
    exit(if is_taken.is_some() { 0 } else { 1 });
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}
