//! The layer table of `src/lib.rs`, read as a rule.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

/// The folders whose children are components.
const KINDS: [&str; 4] = ["receivers", "processors", "exporters", "extensions"];

struct Row {
    modules: Vec<String>,
    /// Modules that they may import; "all above" has those of the row itself too.
    allowed: BTreeSet<String>,
}

/// Who may import whom.
pub(crate) struct Table {
    rows: Vec<Row>,
    /// Registered components (`exporters::otlp_grpc`); a folder beside them that is none is shared within its kind.
    components: BTreeSet<String>,
}

impl Table {
    /// Reads the table from the crate's documentation.
    pub(crate) fn read(doc: &str) -> Self {
        let word = Regex::new("`([a-z_]+)`").unwrap();
        let words = |cell: &str| word.captures_iter(cell).map(|found| found[1].to_owned()).collect::<Vec<_>>();
        let mut rows: Vec<Row> = Vec::new();
        for line in doc.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let above = || rows.iter().flat_map(|row| row.modules.clone());
            let mut allowed: BTreeSet<String> = words(cells[3]).into_iter().collect();
            if cells[3].contains("all above") || cells[3].contains("layers 0 to 2") {
                allowed.extend(above());
            }
            let modules = words(cells[2]);
            if cells[3].contains("all above") {
                allowed.extend(modules.clone());
            }
            rows.push(Row { modules, allowed });
        }
        assert!(rows.len() >= 5, "the layer table of src/lib.rs was not found");
        Self { rows, components: components() }
    }

    /// The box of the import graph that a module belongs to: a component, or a top-level module.
    pub(crate) fn node(&self, module: &str) -> Result<String, String> {
        let mut parts = module.split("::");
        let top = parts.next().unwrap_or_default();
        if self.row(top).is_none() {
            return Err(format!("`{top}` is not in the layer table of src/lib.rs"));
        }
        match parts.next() {
            Some(child) if KINDS.contains(&top) && child.starts_with(|c: char| c.is_ascii_lowercase()) => {
                Ok(format!("{top}::{child}"))
            }
            _ => Ok(top.to_owned()),
        }
    }

    /// Whether one box may import the other.
    pub(crate) fn allows(&self, from: &str, to: &str) -> Result<(), String> {
        let (from_top, to_top) = (top(from), top(to));
        if from_top == to_top {
            let is_list = from == from_top;
            let is_shared = !self.components.contains(to) && to != to_top;
            return if !KINDS.contains(&from_top) || is_list || is_shared {
                Ok(())
            } else {
                Err(format!("{from} may not import {to}; components meet in `pipeline` and `model`"))
            };
        }
        match self.row(from_top) {
            Some(row) if row.allowed.contains(to_top) => Ok(()),
            Some(row) => Err(format!("{from} may import only {:?}", row.allowed)),
            None => Err(format!("`{from_top}` is not in the layer table")),
        }
    }

    fn row(&self, top: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.modules.iter().any(|module| module == top))
    }
}

fn top(node: &str) -> &str {
    node.split("::").next().unwrap_or(node)
}

/// What the lists of factories name.
fn components() -> BTreeSet<String> {
    let factory = Regex::new(r"&([a-z_0-9]+)::(?:[a-z_0-9]+::)*[A-Z_]*FACTORY").unwrap();
    let mut found = BTreeSet::new();
    for kind in KINDS {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(kind).join("mod.rs");
        let text = fs::read_to_string(list).unwrap();
        found.extend(factory.captures_iter(&text).map(|name| format!("{kind}::{}", &name[1])));
    }
    found
}

#[test]
fn the_table_forbids_what_it_should() {
    let table = Table {
        components: ["exporters::file".to_owned(), "exporters::otlp_grpc".to_owned()].into(),
        ..Table::read(&crate::source::lib_doc())
    };
    let allowed = [
        ("timeline", "model"),
        ("pipeline", "config"),
        ("exporters::file", "pipeline"),
        ("exporters::otlp_grpc", "exporters::otlp_client"),
        ("exporters", "exporters::file"),
        ("agent", "components"),
        ("cli", "agent"),
    ];
    for (from, to) in allowed {
        assert_eq!(table.allows(from, to), Ok(()), "{from} -> {to}");
    }
    let forbidden = [
        ("model", "config"),
        ("timeline", "pipeline"),
        ("pipeline", "exporters"),
        ("pipeline", "agent"),
        ("exporters::otlp_grpc", "exporters::file"),
        ("exporters::file", "processors::batch"),
        ("exporters::file", "components"),
        ("agent", "cli"),
        ("telemetry", "config"),
    ];
    for (from, to) in forbidden {
        assert!(table.allows(from, to).is_err(), "{from} -> {to}");
    }
    assert!(table.node("utils::strings").is_err());
}
