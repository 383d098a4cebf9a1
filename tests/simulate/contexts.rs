//! What threads and processes publish of themselves, damaged: the kernel side's own reader of thread contexts compiled
//! for this machine (`tests/fuzz/contexts.c`), and the reader of process contexts.

use std::path::Path;
use std::process::Command;

use schedscope::process_context::decode;

use super::mutate::{rounds, scratch};

/// Runs of the reader for one round of the others: it takes some tens of nanoseconds.
const SWITCHES: usize = 100;

#[test]
fn a_thread_context_is_its_threads_own_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/contexts.c");
    let program = folder.path().join("contexts");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-Wall", "-Werror", "-Wno-unknown-pragmas"]);
    compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    for seed in 1..4 {
        let switches = (rounds() * SWITCHES).to_string();
        let output = Command::new(&program).args([switches, seed.to_string()]).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        println!("seed {seed}: {}", text.trim());
        assert!(output.status.success(), "seed {seed}: {text}");
    }
}

/// A message of OTEP 4719: two attributes of a Resource, and the layout of the threads' records.
const PAYLOAD: &[u8] = b"\x0a\x2e\
    \x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop\
    \x0a\x14\x0a\x09process.x\x12\x07\x0a\x05hello\
    \x12\x28\x0a\x1athreadlocal.schema_version\x12\x0a\x0a\x08tls_v1__";

#[test]
fn damaged_process_contexts_stay_within_bounds() {
    assert_eq!(decode(PAYLOAD).unwrap().resource.text("service.name"), Some("shop"));
    let mut random = fastrand::Rng::with_seed(8);
    let (mut read, mut refused) = (0u64, 0u64);
    for round in 0..rounds() {
        let mut bytes = PAYLOAD.to_vec();
        scratch(&mut bytes, &mut random);
        match decode(&bytes) {
            Some(published) => {
                read += 1;
                assert!(published.resource.len() <= 64, "round {round}: {published:?}");
                assert!(published.thread_schema.is_none_or(|schema| schema.len() <= bytes.len()), "round {round}");
            }
            None => refused += 1,
        }
    }
    println!("{read} read, {refused} refused");
}
