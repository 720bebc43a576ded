//! The allocator of the server, and what is asked of it and of the kernel besides memory.
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

/// Keeps the kernel from giving this process huge pages, whatever the machine's setting.
///
/// A huge page is cleared at its first use, in the middle of a shard's turn. On a virtual machine that has given it back to
/// its host that took 17 ms, and freed memory is given back in huge pages alone. It also makes memory that is used here and
/// there larger. Kernels that know no huge pages refuse, which is as good.
pub(crate) fn refuse_huge_pages() {
    rustix::thread::disable_transparent_huge_pages(true).ok();
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
