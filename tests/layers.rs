//! Executes the architecture that `src/lib.rs` writes down: the layer table there is read and held against
//! every `use` and path in `src/`, and the invariants below it against the code.
//!
//! `cargo test --test layers -- --nocapture` draws the import graph and the file sizes.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "layers/source.rs"]
mod source;
#[path = "layers/table.rs"]
mod table;

use std::collections::BTreeSet;

use source::Source;
use table::Table;

/// Fails with every finding, not only the first.
fn check(rule: &str, findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "{rule}:\n  {}\n", findings.join("\n  "));
}

fn is_within(module: &str, parent: &str) -> bool {
    module == parent || module.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn imports_follow_the_layer_table() {
    let sources = source::all();
    let table = Table::read(&source::lib_doc());
    let mut edges = BTreeSet::new();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test_file && source.module != "lib") {
        for import in source.own_imports() {
            let (from, to) = (table.node(&source.module), table.node(&import));
            match (from, to) {
                (Err(why), _) | (_, Err(why)) => findings.push(format!("{}: {why}", source.path)),
                (Ok(from), Ok(to)) if from == to => {}
                (Ok(from), Ok(to)) => {
                    if let Err(why) = table.allows(&from, &to) {
                        findings.push(format!("{}: imports {import}: {why}", source.path));
                    }
                    edges.insert(format!("{from} -> {to}"));
                }
            }
        }
    }
    println!("import graph:\n  {}", edges.into_iter().collect::<Vec<_>>().join("\n  "));
    check("an import that the layer table of src/lib.rs forbids", findings);
}

#[test]
fn every_module_says_what_it_is_for() {
    let sources = source::all();
    let silent = sources.iter().filter(|source| !source.is_test_file && !source.raw.starts_with("//!"));
    check("opens without `//!`", silent.map(|source| source.path.clone()));
}

#[test]
fn pure_files_have_no_clock_file_socket_thread_runtime_or_log() {
    let forbidden = [
        "std::fs",
        "std::net",
        "std::os",
        "std::thread",
        "std::env",
        "std::process",
        "tokio",
        "tracing",
        "rustix",
        "libbpf_rs",
    ];
    let sources = source::all();
    let pure = |source: &&Source| {
        let by_place = ["model", "timeline"].iter().any(|place| is_within(&source.module, place));
        !source.is_test_file && (by_place || source.raw.starts_with("//! Pure:"))
    };
    let mut findings = Vec::new();
    for source in sources.iter().filter(pure) {
        // an Instant may be taken as an argument; reading the clock is what is forbidden
        let readings = ["::now(", ".elapsed()"].into_iter().filter(|reading| source.code.contains(reading));
        findings.extend(readings.map(|reading| format!("{}: reads a clock (`{reading}`)", source.path)));
        for path in &source.paths {
            findings.extend(
                forbidden
                    .iter()
                    .filter(|word| is_within(path, word))
                    .map(|word| format!("{}: {path} (no {word} in a pure file)", source.path)),
            );
        }
    }
    check("an impure word in a pure file", findings);
}

#[test]
fn unsafe_stands_only_in_the_driver() {
    let sources = source::all();
    let findings = sources
        .iter()
        .filter(|source| !source.path.starts_with("src/receivers/sched/driver"))
        .filter(|source| source.words().any(|word| word == "unsafe") || source.code.contains("allow(unsafe_code"));
    check("`unsafe` outside src/receivers/sched/driver", findings.map(|source| source.path.clone()));
}

#[test]
fn otlp_types_stay_out_of_the_early_stages() {
    let early = ["model", "timeline", "receivers::sched", "processors::container"];
    let sources = source::all();
    let findings = sources.iter().filter(|source| !source.is_test_file).filter(|source| {
        early.iter().any(|place| is_within(&source.module, place))
            && source.paths.iter().any(|path| is_within(path, "opentelemetry_proto"))
    });
    check("OTLP types before sched_spans and sched_metrics", findings.map(|source| source.path.clone()));
}

#[test]
fn only_the_command_line_prints_and_only_main_exits() {
    let sources = source::all();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test_file) {
        let is_cli = is_within(&source.module, "cli");
        if !is_cli && source.code.contains("allow(clippy::print_std") {
            findings.push(format!("{}: prints", source.path));
        }
        if !is_cli && source.module != "main" && source.words().any(|word| word == "ExitCode") {
            findings.push(format!("{}: knows exit codes", source.path));
        }
    }
    check("printing or exiting in the wrong place", findings);
}

#[test]
fn nothing_is_global_and_mutable() {
    let sources = source::all();
    let mutable = ["mut ", "Mutex", "RwLock", "Atomic", "Cell<", "OnceLock"];
    // libbpf takes a bare function for its messages, which has nowhere else to leave them
    let forced = "src/receivers/sched/driver/messages.rs";
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test_file && source.path != forced) {
        for line in source.code.lines().map(str::trim) {
            let item =
                ["static ", "pub static ", "pub(crate) static "].iter().find_map(|start| line.strip_prefix(start));
            if item.is_some_and(|item| mutable.iter().any(|word| item.contains(word))) {
                findings.push(format!("{}: {line}", source.path));
            }
        }
    }
    check("global mutable state", findings);
}

#[test]
fn files_are_small() {
    let mut sizes: Vec<(usize, String)> =
        source::all().iter().filter(|s| !s.is_test_file).map(|s| (s.lines(), s.path.clone())).collect();
    sizes.sort();
    let median = sizes[sizes.len() / 2].0;
    println!("{} files, median {median} lines without tests, largest {:?}", sizes.len(), sizes[sizes.len() - 1]);
    check(
        "more than 400 lines without tests",
        sizes.iter().filter(|(lines, _)| *lines > 400).map(|(lines, path)| format!("{path}: {lines}")),
    );
    assert!(median <= 180, "the median file has {median} lines; 180 is the bound");
}
