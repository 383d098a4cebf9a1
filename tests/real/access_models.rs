//! Every way in which a program or a library can hold its thread-local pointer: each thread's intervals go to that
//! thread's own span, never to another's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::program::Program;
use crate::support::agent::Agent;
use crate::support::folder;

/// Threads of each program.
const THREADS: usize = 4;
/// How a library reaches its thread-local variables; empty: the compiler's default.
const LIBRARIES: [(&str, &str); 2] =
    [("libdefault.so", "-ftls-model=global-dynamic"), ("libdescriptor.so", "-mtls-dialect=gnu2")];

pub(crate) fn give_every_thread_its_own() -> Result<()> {
    let folder = folder()?;
    let programs = build(folder.path())?;
    let out = folder.path().join("spans.jsonl");
    let mut agent = Agent::start(folder.path(), &to_file(&out))?;
    let mut running = Vec::new();
    for (name, arguments) in &programs {
        let mut command = Command::new(folder.path().join(name));
        command.args(arguments).env("LD_LIBRARY_PATH", folder.path());
        running.push(Program::start("publisher", &mut command, folder.path())?);
    }
    std::thread::sleep(Duration::from_secs(5));
    for program in &mut running {
        program.is_alive()?;
    }
    drop(running);
    agent.stop()?;
    let found = attached(&fs::read_to_string(&out)?)?;
    println!("  spans of each process and thread: {found:?}");
    ensure!(found.len() == programs.len() * THREADS, "{} of {} threads", found.len(), programs.len() * THREADS);
    ensure!(found.values().all(|spans| *spans > 20), "a thread is told too little of: {found:?}");
    Ok(())
}

fn to_file(out: &Path) -> String {
    format!(
        "receivers: {{sched: {{collection_interval: 1s, overhead_limit: 100%, select: {{rate_per_cgroup: 0, rate_total: 0}}}}}}
processors: {{container: {{runtimes: [], kubernetes: {{source: none}}}}, sched_spans: {{window: 1s}}}}
exporters: {{file: {{path: {}}}}}
service:
  pipelines:
    traces: {{receivers: [sched], processors: [container, sched_spans], exporters: [file]}}
",
        out.display()
    )
}

/// The variable in the program, in a library that is there from the start, and in one that is opened later.
fn build(folder: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/publisher/");
    let compile = |arguments: &[&str]| -> Result<()> {
        let mut command = Command::new("cc");
        let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/traced_c");
        command.current_dir(folder).args(["-O1", "-I", headers]).args(arguments);
        let output = command.output().context("no C compiler")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let (main, context) = (format!("{source}main.c"), format!("{source}context.c"));
    compile(&["-rdynamic", &main, &context, "-o", "program", "-lpthread", "-ldl"])?;
    compile(&["-rdynamic", &main, &format!("{source}beside.c"), "-o", "beside", "-lpthread", "-ldl"])?;
    compile(&["-DDLOPEN", &main, "-o", "opens", "-lpthread", "-ldl"])?;
    let mut programs = vec![("program".to_owned(), Vec::new()), ("beside".to_owned(), Vec::new())];
    for (library, model) in LIBRARIES {
        if cfg!(target_arch = "aarch64") && model.contains("dialect") {
            // descriptors are the default there
            continue;
        }
        compile(&["-fPIC", "-shared", model, &context, "-o", library])?;
        let linked = format!("linked_{library}");
        compile(&[&main, library, "-o", &linked, "-lpthread", "-ldl"])?;
        programs.push((linked, Vec::new()));
        programs.push(("opens".to_owned(), vec![folder.join(library).display().to_string()]));
    }
    Ok(programs)
}

/// Attached spans of each process and thread; fails at the first that is under another thread's span.
fn attached(lines: &str) -> Result<BTreeMap<(u64, String), usize>> {
    let mut found = BTreeMap::new();
    for line in lines.lines() {
        let data: Value = serde_json::from_str(line)?;
        for resource in data["resourceSpans"].as_array().into_iter().flatten() {
            let pid =
                attribute(&resource["resource"], "process.pid")["intValue"].as_str().and_then(|pid| pid.parse().ok());
            let spans = resource["scopeSpans"].as_array().into_iter().flatten();
            for span in spans.flat_map(|scope| scope["spans"].as_array()).flatten() {
                if attribute(span, "linux.sched.context.source").is_null() {
                    continue;
                }
                let text = |key: &str| span[key].as_str().unwrap_or_default();
                let (trace, parent) = (text("traceId"), text("parentSpanId"));
                let own = trace.get(1..2).context("no trace id")?;
                ensure!(trace == format!("4{own}").repeat(16) && parent == format!("5{own}").repeat(8), "{span}");
                *found.entry((pid.context("no process.pid")?, own.to_owned())).or_insert(0) += 1;
            }
        }
    }
    Ok(found)
}

fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
    let mut all = of["attributes"].as_array().into_iter().flatten();
    all.find(|attribute| attribute["key"] == key).map_or(&Value::Null, |attribute| &attribute["value"])
}
