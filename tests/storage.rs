//! A queue on disk whose process is killed with SIGKILL at random moments: what was acknowledged arrives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "what was still running")]
#![allow(unreachable_pub, dead_code, reason = "modules shared with another test binary")]

#[path = "delivery/endpoint.rs"]
mod endpoint;
#[path = "delivery/sender.rs"]
mod sender;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use schedscope::components::COMPONENTS;
use schedscope::config::Body;
use schedscope::pipeline::{BuildContext, Extension, Host};
use schedscope::telemetry::Telemetry;

use crate::endpoint::Endpoint;
use crate::sender::Sender;

/// Spans in a batch.
const BATCH: usize = 10;
/// Requests that a child sends at the same time.
const CONSUMERS: usize = 4;
/// Children that are killed.
const KILLS: usize = 12;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, folder, port, first, count] = arguments.as_slice()
        && word == "--child"
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(child(Path::new(folder), port, first.parse().unwrap(), count.parse().unwrap()));
        return ExitCode::SUCCESS;
    }
    let trial = Trial::test("what_was_acknowledged_survives_kill_9", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(killed_at_random_moments());
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// Offers batches numbered from `first`, and prints the number of each that is in the queue.
async fn child(folder: &Path, port: &str, first: usize, count: usize) {
    let factory = COMPONENTS.extensions.iter().find(|factory| factory.name == "file_storage").unwrap();
    let yaml = format!("{{directory: '{}', create_directory: true, timeout: 5s}}", folder.display());
    let body = Body::from_yaml("extensions::file_storage", &yaml).unwrap();
    let context = BuildContext::new("file_storage".into(), Telemetry::default(), "0");
    let storage: Arc<dyn Extension> = (factory.build)(&body, &context).unwrap_or_else(|told| panic!("{told}")).into();
    let host = Host::new(HashMap::from([("file_storage".into(), storage)]));
    let yaml = format!(
        "{{endpoint: 'localhost:{port}', tls: {{insecure: true}}, sending_queue: {{storage: file_storage, num_consumers: \
         {CONSUMERS}, queue_size: 100000}}, retry_on_failure: {{initial_interval: 10ms, max_interval: 20ms}}}}"
    );
    let sender = Sender::start_with("otlp_grpc", &yaml, &host).await.unwrap();
    let mut out = std::io::stdout();
    for number in first..first + count {
        sender.delivery.offer(sender::spans(BATCH, number * BATCH)).await;
        writeln!(out, "{number}").and_then(|()| out.flush()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (left, _) = sender.end(Duration::from_secs(60)).await;
    assert_eq!((left.lost_items, left.stored_items), (0, 0));
}

fn spawn(folder: &Path, port: u16, first: usize, count: usize) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--child", &folder.display().to_string(), &port.to_string(), &first.to_string(), &count.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn killed_at_random_moments() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint { delay: Duration::from_millis(15), ..Endpoint::default() };
    let (address, _serving) = endpoint.serve("127.0.0.1:0").await;
    let (mut acknowledged, mut next) = (Vec::new(), 0);
    for _ in 0..KILLS {
        let mut process = spawn(folder.path(), address.port(), next, 100_000);
        let (lines, first) = (BufReader::new(process.stdout.take().unwrap()), next);
        let reading = tokio::task::spawn_blocking(move || {
            lines.lines().map_while(Result::ok).filter_map(|line| line.parse::<usize>().ok()).collect::<Vec<_>>()
        });
        tokio::time::sleep(Duration::from_millis(fastrand::u64(40..400))).await;
        process.kill().unwrap();
        process.wait().unwrap();
        let told = reading.await.unwrap();
        // The batch after the last that was told may be in the queue too: its number is not used again.
        next = told.last().map_or(first, |last| last + 2);
        acknowledged.extend(told);
    }
    assert!(acknowledged.len() > KILLS, "too few batches to tell anything: {}", acknowledged.len());
    let mut last = spawn(folder.path(), address.port(), next, 0);
    assert!(last.wait().unwrap().success());

    let seen = endpoint.seen.lock().unwrap();
    let all: Vec<&Vec<u8>> = seen.iter().flat_map(|seen| &seen.ids).collect();
    let received: HashSet<&Vec<u8>> = all.iter().copied().collect();
    let id = |number: usize| (number as u64 + 1).to_be_bytes().to_vec();
    let missing: Vec<_> = acknowledged
        .iter()
        .filter(|batch| (0..BATCH).any(|at| !received.contains(&id(**batch * BATCH + at))))
        .collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
    let twice = all.len() - received.len();
    assert!(twice <= KILLS * CONSUMERS * BATCH, "{twice} spans came twice, more than were in flight");
    let remains = std::fs::read_dir(folder.path().join("otlp_grpc_traces")).unwrap();
    let records = remains.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "record"));
    assert_eq!(records.count(), 0, "all that was sent is removed");
}
