//! In-memory queues: ready and in-flight messages, dispatch, acknowledgement, redelivery, expiry
