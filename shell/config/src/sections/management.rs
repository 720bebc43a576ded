//! By which ways the server is looked after.

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is};
use crate::spec::{choice, section};

section! {
    /// By which ways the server is [looked after](management.md#by-which-way).
    "management" TABLE ManagementConfig {
        /// The admin socket, a Unix socket: root and the user of the server may do there what [admins](management.md#who-may) may, without a login. The file is made with the mode 0600, and removed when the server ends; its directory has to be there. The packages have it at `/run/tiderace/admin.sock`, where `-s unix:` looks for it. Not set: there is none.
        "socket" socket: Option<String> = Absent, Kind::Text;
        /// Where the server answers what takes the rights `monitor`, `operate` and `admin`, `/metrics` among it.
        "listeners" listeners: ManagementListeners = Is("all"), Kind::Choice(ManagementListeners::WORDS);
    }
}

choice! {
    /// Where the server is looked after.
    ManagementListeners {
        /// At every listener, by who has the rights.
        All = "all",
        /// Only at each `[[listener]]` with `management = true`, by who has the rights, and on the admin socket.
        Marked = "marked",
    }
}
