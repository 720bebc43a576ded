//! How threads that look at credentials share the processor with those that serve clients.
//!
//! Invariant: it changes the thread that calls it, and no other.

/// How much nicer than the rest of the process such a thread is. Where cores are free it runs as fast as ever; where none
/// is, threads of shards have nine times its share, so a flood of logins costs those who have logged in little.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// Lets all other threads of the process run before the one that calls this. On Linux a thread has a priority of its own;
/// elsewhere nothing changes.
pub(crate) fn yield_to_others() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let nice = getpriority_process(None).unwrap_or(0).saturating_add(NICER);
        // A sandbox may forbid it; then such threads are as before.
        let _ = setpriority_process(None, nice.min(19));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_asks_gets_nicer_and_no_other() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let inside = std::thread::spawn(move || {
            yield_to_others();
            nice()
        });
        assert_eq!(inside.join().unwrap(), (before + NICER).min(19));
        assert_eq!(nice(), before);
    }
}
