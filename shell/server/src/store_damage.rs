//! What the log says of a store that was damaged, and is used without what is lost of it.
//!
//! Data alone. Invariant: who has accepted damage is told what it has cost.

use tiderace_store::{Recovered, SetAside};
use tracing::warn;

/// Says what is lost of a damaged store, and where its bytes are.
pub(crate) fn tell_damage(recovered: &Recovered) {
    let report = &recovered.report;
    for damage in &report.damage {
        let paths = recovered.paths_of(damage);
        let path = (!paths.is_empty()).then(|| paths.join(", "));
        warn!(event = "store-damage-accepted", %damage, path, "what cannot be read is lost");
    }
    for SetAside { file, bytes } in &report.set_aside {
        warn!(event = "store-damage-set-aside", file, bytes, "damaged bytes are kept in this file");
    }
    if report.not_set_aside > 0 {
        let bytes = report.not_set_aside;
        warn!(
            event = "store-damage-not-set-aside",
            bytes, "of so many damaged bytes there is no copy"
        );
    }
}
