//! Whether what is believed of proxies, and of which, belongs together.

use crate::config::Config;
use crate::problem::{Origin, Problems};
use crate::table::{Table, origin_of};

/// Who is believed, and in what: neither means anything without the other.
pub(crate) fn check(config: &Config, tables: &[Table], problems: &mut Problems) {
    if !problems.0.is_empty() {
        // Addresses that could not be read are not there.
        return;
    }
    let proxy = &config.proxy;
    match (proxy.believes(), proxy.trusted.is_empty()) {
        (true, true) => {
            let key = ["proxy.protocol", "proxy.header"]
                .into_iter()
                .find(|key| origin_of(tables, key) != Origin::Default);
            let key = key.unwrap_or("proxy.protocol");
            let message = format!(
                "{key}: nobody is trusted to say whom they serve; name the addresses of the proxies in proxy.trusted"
            );
            problems.add(origin_of(tables, key), message);
        }
        (false, false) => {
            let message = "proxy.trusted: the proxies are believed in nothing; set proxy.header to the field by which \
                           they name their clients, or proxy.protocol to \"accept\" or \"require\"";
            problems.add(origin_of(tables, "proxy.trusted"), message);
        }
        _ => {}
    }
}
