//! Grafana's JSON, made from `panels.yaml`; and its queries as Prometheus takes them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Columns of Grafana's grid, and of one panel.
const WIDTH: usize = 24;
const PANEL: usize = 8;
/// Rows of one panel.
const HEIGHT: usize = 8;

/// Holds `schedscope.json` against its source, with UPDATE set writes it; gives every query, its variables replaced.
pub(super) fn dashboard(folder: &Path) -> Result<Vec<String>> {
    let source: Value = serde_yaml::from_str(&fs::read_to_string(folder.join("panels.yaml"))?)?;
    let (page, queries) = page(&source)?;
    let text = serde_json::to_string_pretty(&page)? + "\n";
    let file = folder.join("schedscope.json");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &text)?;
    }
    ensure!(fs::read_to_string(&file).is_ok_and(|there| there == text), "{}: UPDATE=1 writes it", file.display());
    Ok(queries)
}

fn page(source: &Value) -> Result<(Value, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (mut panels, mut queries, mut y) = (Vec::new(), Vec::new(), 0);
    for row in list(&source["rows"]) {
        panels.push(json!({"type": "row", "title": row["title"], "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}}));
        y += 1;
        let of_row = list(&row["panels"]);
        for (at, panel) in of_row.iter().enumerate() {
            let mut targets = Vec::new();
            for query in list(&panel["queries"]) {
                let query =
                    text(&query).replace("OWNER", &text(&source["owner"])).replace("CHOSEN", &text(&source["chosen"]));
                ensure!(!query.is_empty(), "an empty query in {}", panel["title"]);
                queries.push(query.replace("$__rate_interval", "1m").replace("$host", ".+").replace("$service", ".+"));
                let name = char::from(b'A' + u8::try_from(targets.len())?).to_string();
                targets.push(json!({"refId": name, "expr": query, "exemplar": panel["exemplars"] == true}));
            }
            let (x, below) = (at * PANEL % WIDTH, at * PANEL / WIDTH * HEIGHT);
            panels.push(json!({
                "type": "timeseries", "title": panel["title"], "description": panel["about"], "targets": targets,
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
                "gridPos": {"x": x, "y": y + below, "w": PANEL, "h": HEIGHT},
            }));
        }
        y += of_row.len().div_ceil(WIDTH / PANEL) * HEIGHT;
    }
    for (at, panel) in panels.iter_mut().enumerate() {
        panel["id"] = (at + 1).into();
    }
    let mut variables = vec![json!({"name": "datasource", "type": "datasource", "query": "prometheus"})];
    for (name, query) in source["variables"].as_object().context("no variables")? {
        variables.push(json!({
            "name": name, "type": "query", "query": query, "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "multi": true, "includeAll": true, "allValue": ".+", "refresh": 2, "current": {"text": "All", "value": "$__all"},
        }));
    }
    let page = json!({
        "title": "schedscope", "uid": "schedscope", "tags": ["schedscope"], "schemaVersion": 39, "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "templating": {"list": variables}, "panels": panels,
    });
    Ok((page, queries))
}
