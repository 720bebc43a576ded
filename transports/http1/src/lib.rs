//! HTTP/1.1 request heads and responses, sans-I/O
