//! The load generator and its reports
