//! Boards of Grafana as JSON.
//!
//! Pure. Invariant: panels do not overlap, each has a sentence, and all follow the variables of their board.

use serde_json::{Value as Json, json};

/// A board.
pub(super) struct Board {
    pub(super) uid: &'static str,
    pub(super) title: &'static str,
    /// What it is for, in a sentence.
    pub(super) about: &'static str,
    pub(super) panels: &'static [Panel],
}

/// A panel.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// What it shows and what to look for, in a sentence.
    pub(super) about: &'static str,
    /// The unit as Grafana calls it.
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    /// Expressions, and the legend of each. `$s` selects the servers that were chosen, `$r` is a stretch of time that fits.
    pub(super) shows: &'static [(&'static str, &'static str)],
}

/// How it is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Over time.
    Lines,
    /// One number.
    Number,
    /// A list of what is there now.
    Table,
}

/// Of the 24 columns of a board.
const COLUMNS: u32 = 24;

/// An expression with what the variables of a board stand for.
fn expression(text: &str) -> String {
    text.replace("$s", "job=~\"$job\",instance=~\"$instance\"").replace("$r", "$__rate_interval")
}

impl Board {
    /// The file.
    pub(super) fn render(&self) -> String {
        let (mut x, mut y, mut row) = (0, 0, 0);
        let mut panels = Vec::new();
        for (panel, id) in self.panels.iter().zip(1..) {
            let (width, height) = match panel.kind {
                Kind::Lines => (8, 8),
                Kind::Number => (4, 4),
                Kind::Table => (COLUMNS, 6),
            };
            if x + width > COLUMNS || (row != height && x > 0) {
                (x, y) = (0, y + row);
            }
            row = height;
            let place = json!({"x": x, "y": y, "w": width, "h": height});
            panels.push(panel.json(id, &place));
            x += width;
        }
        let board = json!({
            "__comment": "Made by `cargo xtask docs`; do not edit.",
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["tiderace"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "timezone": "browser",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": variables()},
            "links": [{"type": "dashboards", "tags": ["tiderace"], "title": "Tiderace", "asDropdown": true, "keepTime": true, "includeVars": true}],
            "annotations": {"list": []},
            "panels": panels,
        });
        format!("{board:#}\n")
    }
}

fn variables() -> [Json; 3] {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let of = |name: &str, label: &str, query: &str| {
        json!({
            "name": name, "type": "query", "label": label, "datasource": source,
            "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": true, "includeAll": true,
            "allValue": ".*", "current": {"text": "All", "value": "$__all"},
        })
    };
    [
        json!({"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus", "hide": 0, "refresh": 1, "current": {}}),
        of("job", "Job", "label_values(tiderace_build_info, job)"),
        of("instance", "Server", "label_values(tiderace_build_info{job=~\"$job\"}, instance)"),
    ]
}

impl Panel {
    fn json(&self, id: u32, place: &Json) -> Json {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let is_table = self.kind == Kind::Table;
        let target = |((text, legend), place): (&(&str, &str), usize)| {
            let name = char::from(b'A' + u8::try_from(place).unwrap_or(0));
            json!({
                "refId": name.to_string(), "datasource": source, "expr": expression(text), "legendFormat": legend,
                "instant": is_table, "range": !is_table, "format": if is_table { "table" } else { "time_series" },
            })
        };
        let targets: Vec<Json> = self.shows.iter().zip(0..).map(target).collect();
        let (kind, options) = match self.kind {
            Kind::Lines => (
                "timeseries",
                json!({
                    "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                }),
            ),
            Kind::Number => (
                "stat",
                json!({"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none", "graphMode": "area"}),
            ),
            Kind::Table => ("table", json!({"showHeader": true})),
        };
        json!({
            "id": id, "type": kind, "title": self.title, "description": self.about, "datasource": source,
            "gridPos": place, "options": options, "targets": targets,
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}},
                "overrides": [],
            },
        })
    }
}
