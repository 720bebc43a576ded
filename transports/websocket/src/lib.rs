//! RFC 6455 WebSocket codec, sans-I/O
