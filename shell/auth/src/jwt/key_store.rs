//! Keys that may change while the server runs, fetched by a thread of their own.
//!
//! The source is a closure, so that this room opens no file and no connection. It is asked at every interval, and sooner
//! when a token names a key that is not known, but never twice within [`PAUSE`]: who sends tokens with invented names
//! makes nobody's server busy. Invariant: a source that is away or says nonsense changes nothing; the keys of before hold
//! until there are others.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::key::Key;

/// Between two fetches at least.
const PAUSE: Duration = Duration::from_secs(5);

/// Where keys come from; the error says why there are none.
pub type KeySource = Box<dyn Fn() -> Result<Vec<Key>, String> + Send>;
/// Called after each fetch: with nothing if it went well, or why it did not.
pub type OnFetch = Box<dyn Fn(Option<&str>) + Send>;

/// The keys of one issuer.
#[derive(Debug)]
pub struct KeyStore {
    keys: RwLock<Arc<[Key]>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A thread fetches them.
    is_fetched: bool,
    is_stopping: bool,
    is_wanted: bool,
    last: Option<Instant>,
}

/// Whether keys may come that are not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// They are being fetched.
    Soon,
    /// They were fetched just now, or never change.
    None,
}

/// The thread that fetches keys; dropping it stops the thread.
#[derive(Debug)]
pub struct KeyFetcher {
    store: Arc<KeyStore>,
    thread: Option<JoinHandle<()>>,
}

impl KeyStore {
    /// These keys, for good or until others are fetched.
    pub fn new(keys: Vec<Key>) -> Arc<KeyStore> {
        Arc::new(KeyStore {
            keys: RwLock::new(keys.into()),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The keys of now.
    pub(crate) fn current(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A token names a key that is not known: has them fetched, unless that was done just now.
    pub(crate) fn want(&self) -> Prospect {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = state.last.is_some_and(|last| last.elapsed() < PAUSE);
        if !state.is_fetched || state.is_stopping || is_fresh && !state.is_wanted {
            return Prospect::None;
        }
        state.is_wanted = true;
        self.changed.notify_all();
        Prospect::Soon
    }

    /// Fetches at once, and then whenever it is time or somebody wants it, until it is told to stop.
    fn run(&self, source: &KeySource, on_fetch: &OnFetch, interval: Duration) {
        loop {
            let fetched = source();
            let problem = fetched.as_ref().err().cloned();
            if let Ok(keys) = fetched {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_wanted = false;
            state.last = Some(Instant::now());
            drop(state);
            on_fetch(problem.as_deref());
            // What could not be fetched is tried again sooner.
            let pause = if problem.is_some() { PAUSE.min(interval) } else { interval };
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let waits = |state: &mut State| !state.is_wanted && !state.is_stopping;
            let waited = self.changed.wait_timeout_while(state, pause, waits);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_stopping {
                return;
            }
        }
    }
}

impl KeyFetcher {
    /// Starts the thread, which fetches the first keys at once.
    ///
    /// # Errors
    /// When the operating system grants no thread.
    pub fn start(
        store: Arc<KeyStore>,
        source: KeySource,
        on_fetch: OnFetch,
        interval: Duration,
    ) -> io::Result<KeyFetcher> {
        {
            let mut state = store.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_fetched, state.is_wanted) = (true, true);
        }
        let own = Arc::clone(&store);
        let thread = thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || own.run(&source, &on_fetch, interval))?;
        Ok(KeyFetcher { store, thread: Some(thread) })
    }
}

impl Drop for KeyFetcher {
    fn drop(&mut self) {
        let mut state = self.store.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stopping = true;
        drop(state);
        self.store.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}
