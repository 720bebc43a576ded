//! What principals may have in queues, from the configuration.
//!
//! Relies on the configuration having checked each value. Invariant: what an exception does not say is as for all.

use tiderace_config::{QueuesConfig, QuotaConfig};
use tiderace_queues::{Quota, Quotas};

/// What principals may have in queues.
pub(crate) fn all(queues: &QueuesConfig, exceptions: &[QuotaConfig]) -> Quotas {
    let usual =
        Quota { bytes_max: queues.principal_bytes_max, queues_max: queues.principal_queues_max };
    let of = |exception: &QuotaConfig| Quota {
        bytes_max: exception.bytes_max.unwrap_or(usual.bytes_max),
        queues_max: exception.queues_max.unwrap_or(usual.queues_max),
    };
    let of =
        exceptions.iter().map(|exception| (exception.principal.as_str().into(), of(exception)));
    Quotas { usual, of: of.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tiderace_config::{FileSource, Sources, load};

    #[test]
    fn an_exception_is_as_for_all_but_for_what_it_says() {
        let text = "[queues]\nprincipal_bytes_max = \"1 MiB\"\nprincipal_queues_max = 7\n\
                    [[quota]]\nprincipal = \"ann\"\nbytes_max = 0\n[[quota]]\nprincipal = \"bob\"\nqueues_max = 9\n";
        let config = load(&Sources {
            file: Some(FileSource { name: "t.toml".into(), text: text.into() }),
            environment: Vec::new(),
            flags: Vec::new(),
            tables: Vec::new(),
            development: false,
            read_secret: &|_: &Path| Ok(String::new()),
        });
        let config = config.unwrap().config;
        let Quotas { usual, of } = all(&config.queues, &config.quotas);
        assert_eq!(usual, Quota { bytes_max: 1 << 20, queues_max: 7 });
        let ann = ("ann".into(), Quota { bytes_max: 0, queues_max: 7 });
        let bob = ("bob".into(), Quota { bytes_max: 1 << 20, queues_max: 9 });
        assert_eq!(of, [ann, bob]);
    }
}
