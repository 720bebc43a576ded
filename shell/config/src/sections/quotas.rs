//! What single principals may have in queues, instead of what all may.

use super::destinations::{ACCOUNT_BYTES, ACCOUNT_QUEUES, WITHOUT_LIMIT};
use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Required};
use crate::spec::section;

section! {
    /// What one principal may have in queues: [quotas](queues.md#quotas).
    "quota" LIST QuotaConfig {
        /// The name of the principal: a user, who a token stands for, `anonymous`, or the `owner` of a `[[queue]]`.
        "principal" principal: String = Required, Kind::Name;
        /// Instead of `queues.principal_bytes_max`.
        "bytes_max" bytes_max: Option<u64> = Absent, ACCOUNT_BYTES, zero("no limit but those of queues and of the server");
        /// Instead of `queues.principal_queues_max`.
        "queues_max" queues_max: Option<usize> = Absent, ACCOUNT_QUEUES, zero(WITHOUT_LIMIT);
    }
}
