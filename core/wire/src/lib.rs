//! The contract between transports, protocols and broker
