//! Ids, time as a value, close codes, limits, slabs, timer wheel: what every layer shares.
