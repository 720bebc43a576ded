//! The event loop: one per shard; owns sockets, timers and buffers
