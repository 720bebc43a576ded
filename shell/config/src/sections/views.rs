//! Topic views that are there from the start.

use crate::kind::Kind;
use crate::spec::DefaultValue::Required;
use crate::spec::section;

section! {
    /// Topic views that are there from the start, in their order; see [views](views.md). What clients change of them holds until the server stops; views that clients put survive if there is a store.
    "view" LIST ViewConfig {
        /// Its name: a path such as `prices/euro`.
        "name" name: String = Required, Kind::Text;
        /// What it says, such as `map prices/* to quotes/<path(1)>`; quotes of three `'` can hold several lines.
        "text" text: String = Required, Kind::Text;
    }
}
