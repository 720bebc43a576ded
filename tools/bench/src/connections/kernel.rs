//! What the kernel holds for connections: slabs and socket buffers, both ends of loopback together.

use std::fs;

use crate::report::table::thousands;

/// The kernel's memory at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KernelMemory {
    slab_bytes: u64,
    buffer_bytes: u64,
}

impl KernelMemory {
    /// Reads it; zero where it cannot be read.
    pub(crate) fn read() -> KernelMemory {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
        KernelMemory { slab_bytes: slab_bytes(&memory), buffer_bytes: buffer_bytes(&sockets) }
    }

    /// A sentence about what was added.
    pub(crate) fn since(&self, before: &KernelMemory, count: usize) -> String {
        let count = count.max(1) as u64;
        let slab = self.slab_bytes.saturating_sub(before.slab_bytes) / count;
        let buffers = self.buffer_bytes.saturating_sub(before.buffer_bytes) / count;
        format!(
            "kernel, both ends together: {} bytes of slab and {} bytes of buffers per connection",
            thousands(slab),
            thousands(buffers)
        )
    }
}

fn slab_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find(|line| line.starts_with("Slab:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

fn buffer_bytes(sockstat: &str) -> u64 {
    let line = sockstat.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "mem");
    words.nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read() {
        assert_eq!(slab_bytes("MemTotal: 1 kB\nSlab:   20 kB\n"), 20_480);
        let sockets = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 1 alloc 6 mem 3\nUDP: mem 9\n";
        assert_eq!(buffer_bytes(sockets), 3 * PAGE_BYTES);
    }
}
