//! A new binary over what an older one left: its queue on disk is sent, its recordings are replayed.
//!
//! `tests/data/upgrade/VERSION` holds what that version wrote. `UPDATE=1 cargo test --test upgrade` adds the folder of the
//! present version, once for each release; what is there is never written anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "support/http.rs"]
mod http;
#[path = "support/program.rs"]
mod program;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use program::{Program, eventually, free_address};
use rustix::process::Signal;
use schedscope::model::{BootNs, CgroupKey, ProcessKey};
use schedscope::record::{Entry, Facts, Writer};
use schedscope::timeline::{Comm, Event, Named, Record, SwitchOut};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/upgrade");
const RESOURCE: &str = r#""resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}"#;

/// Every version's folder; with UPDATE the present one's is made.
fn versions() -> Vec<PathBuf> {
    static WRITING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WRITING.lock();
    let present = Path::new(ROOT).join(env!("CARGO_PKG_VERSION"));
    if std::env::var_os("UPDATE").is_some() && !present.exists() {
        write(&present);
    }
    let mut found: Vec<PathBuf> = fs::read_dir(ROOT).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn an_old_queue_is_sent() {
    for version in versions() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("queue");
        for from in fs::read_dir(version.join("queue")).unwrap().map(|entry| entry.unwrap().path()) {
            let to = queue.join(from.file_name().unwrap());
            fs::create_dir_all(&to).unwrap();
            for record in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
                fs::copy(&record, to.join(record.file_name().unwrap())).unwrap();
            }
        }
        let (inlet, outlet) = (free_address().unwrap(), free_address().unwrap());
        let mut taking = run("taking", &taking(outlet, folder.path()), folder.path());
        taking.listens(outlet).unwrap();
        let mut sending = run("sending", &sending(inlet, outlet, &queue), folder.path());
        let got = eventually("all of the queue", Duration::from_secs(20), || {
            let mut lines = Vec::new();
            for name in ["traces", "metrics", "logs"] {
                let text = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
                lines.extend(text.lines().map(|line| line.to_owned() + "\n"));
            }
            Ok((lines.len() == 3).then(|| lines.concat()))
        });
        let got = got.unwrap_or_else(|error| panic!("{error}\n{}\n{}", sending.output(), taking.output()));
        let sent = version.join("sent.jsonl");
        if std::env::var_os("UPDATE").is_some() && !sent.exists() {
            fs::write(&sent, &got).unwrap();
        }
        assert_eq!(got, fs::read_to_string(&sent).unwrap(), "{}", version.display());
        assert!(sending.stop(Signal::TERM).unwrap().success() && taking.stop(Signal::TERM).unwrap().success());
    }
}

#[test]
fn an_old_recording_is_replayed() {
    for version in versions() {
        let want = fs::read_to_string(version.join("run.txt")).unwrap();
        assert_eq!(replayed(&version.join("run.sched")), want, "{}", version.display());
    }
}

fn replayed(file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_schedscope"))
        .args(["replay", "--format", "summary", file.file_name().unwrap().to_str().unwrap()])
        .current_dir(file.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn run(name: &'static str, config: &str, folder: &Path) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedscope"));
    Program::start(name, command.args(["--config", &format!("yaml:{config}")]), folder).unwrap()
}

fn sending(inlet: SocketAddr, outlet: SocketAddr, queue: &Path) -> String {
    format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{inlet}'}}}}}}}}
extensions: {{file_storage: {{directory: '{}', create_directory: true}}}}
exporters: {{otlp_grpc: {{endpoint: '{outlet}', tls: {{insecure: true}}, sending_queue: {{storage: file_storage}}}}}}
service:
  extensions: [file_storage]
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_grpc]}}
    metrics: {{receivers: [otlp], exporters: [otlp_grpc]}}
    logs: {{receivers: [otlp], exporters: [otlp_grpc]}}
",
        queue.display()
    )
}

fn taking(at: SocketAddr, folder: &Path) -> String {
    let files = folder.display();
    format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{at}'}}}}}}}}
exporters: {{file/traces: {{path: '{files}/traces'}}, file/metrics: {{path: '{files}/metrics'}}, file/logs: {{path: '{files}/logs'}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file/traces]}}
    metrics: {{receivers: [otlp], exporters: [file/metrics]}}
    logs: {{receivers: [otlp], exporters: [file/logs]}}
"
    )
}

/// What the present version leaves: a queue of one request of each signal, and a recording with every kind of event.
fn write(to: &Path) {
    fs::create_dir_all(to).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (inlet, nobody) = (free_address().unwrap(), free_address().unwrap());
    let mut sending = run("sending", &sending(inlet, nobody, &to.join("queue")), folder.path());
    sending.listens(inlet).unwrap();
    let requests = [
        (
            "traces",
            format!(
                r#"{{"resourceSpans":[{{{RESOURCE},"scopeSpans":[{{"scope":{{"name":"s"}},"spans":[{{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"GET /","kind":2,"startTimeUnixNano":"1796083737505788035","endTimeUnixNano":"1796083737605788035","status":{{}}}}]}}]}}]}}"#
            ),
        ),
        (
            "metrics",
            format!(
                r#"{{"resourceMetrics":[{{{RESOURCE},"scopeMetrics":[{{"scope":{{"name":"s"}},"metrics":[{{"name":"m","unit":"s","sum":{{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{{"startTimeUnixNano":"1","timeUnixNano":"2","asDouble":1.5}}]}}}}]}}]}}]}}"#
            ),
        ),
        (
            "logs",
            format!(
                r#"{{"resourceLogs":[{{{RESOURCE},"scopeLogs":[{{"scope":{{"name":"s"}},"logRecords":[{{"timeUnixNano":"2","severityNumber":9,"body":{{"stringValue":"said"}}}}]}}]}}]}}"#
            ),
        ),
    ];
    for (signal, body) in requests {
        http::ask(inlet, "POST", &format!("/v1/{signal}"), &body).unwrap();
    }
    // killed: what is acknowledged is on disk
    drop(sending);
    for signal in ["traces", "metrics", "logs"] {
        fs::remove_file(to.join(format!("queue/otlp_grpc_{signal}/lock"))).unwrap();
    }
    fs::write(to.join("run.sched"), recording()).unwrap();
    fs::write(to.join("run.txt"), replayed(&to.join("run.sched"))).unwrap();
}

fn recording() -> Vec<u8> {
    let facts = Facts { kernel_release: "6.18.0".into(), cpus: 2, backend: "tracefs".into(), ..Facts::default() };
    let mut writer = Writer::new(Vec::new(), &facts).unwrap();
    let named = |tid: u32, comm: &str| Named::new(tid, Comm::new(comm.as_bytes()));
    let key = CgroupKey { id: 42, serial: 7 };
    writer.push(&Entry::Cgroup { key, path: "/docker/shop".into() }).unwrap();
    let process = ProcessKey { pid: 10, start: BootNs(1) };
    let idle = || named(0, "swapper/0");
    let events = [
        Event::Identity { tid: 10, process, start: BootNs(1), kernel_thread: false, cgroup: key },
        Event::Switch { prev: idle(), out: SwitchOut::from_text(b"R"), next: named(10, "web") },
        Event::Fork { parent: 10, child: named(11, "web"), same_process: Some(true) },
        Event::Wakeup { task: named(11, "web"), kind: schedscope::timeline::WakeupKind::New, target_cpu: 0 },
        Event::Switch { prev: named(10, "web"), out: SwitchOut::from_text(b"R+"), next: named(11, "web") },
        Event::Rename { task: named(11, "worker") },
        Event::Exit { task: named(11, "worker") },
        Event::Switch { prev: named(11, "worker"), out: SwitchOut::from_text(b"X"), next: named(10, "web") },
        Event::Migrate { task: named(10, "web"), to: 1 },
        Event::Switch { prev: named(10, "web"), out: SwitchOut::from_text(b"S"), next: idle() },
    ];
    for (at, event) in events.into_iter().enumerate() {
        let record = Record { at: BootNs(1_000_000 * (at as u64 + 1)), cpu: 0, event, current: None };
        writer.push(&Entry::Record(record)).unwrap();
    }
    writer.finish().unwrap()
}
