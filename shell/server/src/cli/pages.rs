//! Lists that a server gives a page at a time, printed as they come.
//!
//! Relies on `client`. Invariant: no more than a page is kept, so that a list may have any length.

use serde_json::{Value as Json, json};

use super::connection::ConnectionArgs;
use super::table::{Table, print_table};
use super::topics::print_line;

/// How a list is printed.
pub(super) struct Printing<R> {
    /// Each entry as a line of JSON, and not as a row of the table.
    pub(super) json: bool,
    /// The names of the table's columns.
    pub(super) columns: &'static [&'static str],
    /// An entry as a row; nothing: it is not shown.
    pub(super) row: R,
    /// At most so many entries.
    pub(super) limit: Option<usize>,
}

/// Asks for a list page by page and prints the entries, which answers have as that member; how many were shown.
///
/// If the operation has a `limit`, no page is asked to be larger, and the last one is asked to have no more than are still wanted.
pub(super) fn print_list(
    connection: &ConnectionArgs,
    mut operation: Json,
    member: &str,
    printing: &Printing<impl Fn(&Json) -> Option<Vec<String>>>,
) -> anyhow::Result<usize> {
    let Printing { json, columns, row, limit } = printing;
    let most = limit.unwrap_or(usize::MAX);
    let page_entries = operation["limit"].as_u64();
    let mut table = Table::new(columns);
    let mut client = connection.connect()?;
    let mut shown = 0;
    while shown < most {
        if let Some(page_entries) = page_entries {
            operation["limit"] = json!(page_entries.min((most - shown) as u64));
        }
        let result = client.operate(&operation, None)?.result;
        let entries = result[member].as_array().into_iter().flatten();
        let rows = entries.filter_map(|entry| Some((entry, row(entry)?)));
        for (entry, cells) in rows.take(most - shown) {
            shown += 1;
            match json {
                true => print_line(entry.to_string().as_bytes())?,
                false => table.row(cells),
            }
        }
        print_table(&mut table)?;
        if result["more"] != json!(true) || result["next"].is_null() {
            break;
        }
        operation["after"] = result["next"].clone();
    }
    client.leave()?;
    Ok(shown)
}
