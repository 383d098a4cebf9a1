//! The library as another program uses it: `examples/custom_exporter`, an agent with an exporter of its own.
//!
//! `cargo test` builds the example; for this test alone, `cargo build --example custom_exporter` before it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;

const CONFIG: &str = "examples/custom_exporter/agent.yaml";

/// `web` ran for 100 ms and then waited 300 ms for `batch`.
const TRACE: &str = "\
          <idle>-0       [000] d..2.   100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=web next_pid=10 next_prio=120
             web-10      [000] d..2.   100.100000: sched_switch: prev_comm=web prev_pid=10 prev_prio=120 prev_state=R ==> next_comm=batch next_pid=20 next_prio=120
           batch-20      [000] d..2.   100.400000: sched_switch: prev_comm=batch prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=web next_pid=10 next_prio=120
             web-10      [000] d..2.   100.500000: sched_switch: prev_comm=web prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

/// Runs the example, which `cargo test` builds beside the tests: exit code and all that it said.
fn custom(arguments: &[&str]) -> (Option<i32>, String) {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/custom_exporter");
    assert!(program.exists(), "cargo build --example custom_exporter");
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said)
}

#[test]
fn the_exporter_stands_among_the_stock_ones() {
    let (code, said) = custom(&["components"]);
    assert!(code == Some(0) && said.contains("name: alert") && said.contains("name: otlp_grpc"), "{said}");
}

#[test]
fn its_settings_are_checked_as_theirs() {
    assert_eq!(custom(&["validate", "--config", CONFIG]), (Some(0), String::new()));
    for (set, told) in [("over=2", "exporters::alert::over: is a share"), ("ovr=0.1", "did you mean `over`")] {
        let (code, said) = custom(&["validate", "--config", CONFIG, "--set", &format!("exporters::alert::{set}")]);
        assert!(code == Some(1) && said.contains(told), "{said}");
    }
}

#[test]
fn it_gets_what_the_stages_give() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    std::fs::write(&trace, TRACE).unwrap();
    let (code, said) = custom(&["replay", trace.to_str().unwrap(), "--config", CONFIG]);
    assert!(code == Some(0) && said.contains("had to wait for 0.300 s beside 0.500 s on a CPU"), "{said}");
}
