//! Who is connected, as topics.

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::section;

section! {
    /// Who is connected and who subscribes, as topics below `$sys/`. Presence of a topic's subscribers is asked for by its specification.
    "presence" TABLE PresenceConfig {
        /// Whether every session that has logged in shows as a topic below `$sys/sessions/`, for those who may subscribe there. Takes some memory for each.
        "sessions" sessions: bool = Is("false"), Kind::Boolean;
    }
}
