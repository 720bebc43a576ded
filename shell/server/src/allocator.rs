//! The allocator of the server, and the one thing that is asked of it besides memory.
//!
//! Invariant: nothing here changes what is allocated.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives what has been freed back to the system at once, where the allocator would keep it for a second in case it is
/// needed again. Takes milliseconds.
pub(crate) fn release_freed() {
    // SAFETY: `mi_collect` takes no pointers, and any thread may call it at any time: it looks at the calling thread's
    // own heap and at memory that nobody uses.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_freed_is_given_back_and_what_is_kept_stays() {
        let kept: Vec<Vec<u8>> = (0..64).map(|fill| vec![fill; 1 << 20]).collect();
        let freed: Vec<Vec<u8>> = (0..64).map(|fill| vec![fill; 1 << 20]).collect();
        let before = resident();
        drop(freed);
        super::release_freed();
        let less = before.saturating_sub(resident());
        assert!(less > 32 << 20, "{less} bytes less of {before}");
        assert!(kept.iter().zip(0..).all(|(block, fill)| block.iter().all(|byte| *byte == fill)));
    }

    /// Bytes of memory that this process has in use.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages: usize =
            text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }
}
