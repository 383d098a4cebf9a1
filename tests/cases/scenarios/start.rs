//! E01 to E05: starting with less than everything: it works, or one message names what is missing.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::agent::{Agent, Config};
use super::endpoint::Endpoint;
use crate::program::eventually;

/// How a start went: it runs, or it ended with a code.
struct Started {
    runs: bool,
    code: Option<i32>,
    log: String,
    took: Duration,
}

/// Starts behind a wrapper and sees what becomes of it; an agent that runs is ended again.
fn start(wrapper: &[&str], config: &str, program: Option<&Path>) -> Result<Started> {
    let begin = Instant::now();
    let program = program.map(|path| path.display().to_string());
    let mut line = wrapper.to_vec();
    line.extend(program.as_deref());
    let mut agent = Agent::spawn(&line, config)?;
    let ended = eventually("a start or an end", Duration::from_secs(20), || {
        let ready = agent.log().contains("Everything is ready");
        Ok(if ready { Some(None) } else { agent.program.ended()?.map(Some) })
    })?;
    let took = begin.elapsed();
    let code = match ended {
        None => agent.stop()?.code(),
        Some(status) => status.code(),
    };
    Ok(Started { runs: ended.is_none(), code, log: agent.log(), took })
}

fn mentions(log: &str, words: &Value) -> bool {
    words.as_array().into_iter().flatten().filter_map(Value::as_str).all(|word| log.contains(word))
}

/// The `expect` of a case about a start.
fn judge(started: &Started, expect: &Value) -> Result<()> {
    let fits = |expect: &Value| {
        let ends = match expect["exit_nonzero_within_s"].as_f64() {
            Some(seconds) => {
                !started.runs && started.code.is_some_and(|code| code != 0) && started.took.as_secs_f64() <= seconds
            }
            None => true,
        };
        let runs = expect["runs"].as_bool().is_none_or(|runs| runs == started.runs);
        ends && runs && mentions(&started.log, &expect["stderr_mentions"])
    };
    let one = expect["any_of"].as_array().map_or_else(|| fits(expect), |any| any.iter().any(fits));
    let bad = expect["stderr_must_not"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let bad: Vec<&str> = bad.filter(|word| started.log.contains(word)).collect();
    ensure!(
        one && bad.is_empty(),
        "expected {expect}\ngot runs: {}, exit code {:?} after {:?}:\n{}",
        started.runs,
        started.code,
        started.took,
        started.log
    );
    Ok(())
}

/// It started, measured and ended well, without a complaint about what was taken away.
fn works(started: &Started, complaint: &str) -> Result<()> {
    let told = started.log.lines().find(|line| line.contains("warn") && line.to_lowercase().contains(complaint));
    ensure!(
        started.runs && started.code == Some(0) && told.is_none() && !started.log.contains("panicked"),
        "expected a start without a word about {complaint}\ngot exit code {:?}:\n{}",
        started.code,
        started.log
    );
    Ok(())
}

fn to_nobody() -> Result<(Endpoint, String)> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config::default().to(endpoint.address);
    Ok((endpoint, config))
}

/// E01: RLIMIT_MEMLOCK cannot be raised.
pub(super) fn memlock(_: &Value) -> Result<()> {
    let (_endpoint, config) = to_nobody()?;
    let limits = "ulimit -l 64 && exec setpriv --inh-caps=-sys_resource --bounding-set=-sys_resource \"$@\"";
    works(&start(&["sh", "-c", limits, "sh"], &config, None)?, "memlock")
}

const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Nobody cannot enter the folders of a build: the wrapper opens what it needs and lets a copy run.
fn as_nobody(caps: &str, before: &str, config: &str) -> Result<Started> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let copy = folder.path().join("schedscope");
    std::fs::copy(env!("CARGO_BIN_EXE_schedscope"), &copy)?;
    let options = ["--inh-caps=", "--ambient-caps=", "--bounding-set="].map(|option| format!("{option}{caps}"));
    // $1 is the binary where it was built, $3 the config in root's folder: copies stand for them
    let script = format!(
        "{before}copy=\"$0\"; cat \"$3\" >\"$copy.yaml\"; exec {} {} --no-new-privs \"$copy\" --config \"$copy.yaml\"",
        AS_NOBODY.join(" "),
        options.join(" ")
    );
    start(&["unshare", "-m", "--propagation", "private", "sh", "-c", &script], config, Some(&copy))
}

/// E02: no privileges at all.
pub(super) fn no_privileges(case: &Value) -> Result<()> {
    let (_endpoint, config) = to_nobody()?;
    judge(&as_nobody("-all", "", &config)?, &case["expect"])
}

/// E03: two capabilities, and a tracefs that only root can read.
pub(super) fn two_capabilities(_: &Value) -> Result<()> {
    let (_endpoint, config) = to_nobody()?;
    let closed = "mount -t tmpfs -o mode=0700 none /sys/kernel/tracing 2>/dev/null; ";
    works(&as_nobody("-all,+bpf,+perfmon", closed, &config)?, "tracefs")
}

/// E04: no tracefs, no debugfs.
pub(super) fn no_tracefs(_: &Value) -> Result<()> {
    let (_endpoint, config) = to_nobody()?;
    let bare = "for at in /sys/kernel/tracing /sys/kernel/debug; do [ ! -d $at ] || mount -t tmpfs none $at; done; exec \"$@\"";
    works(&start(&["unshare", "-m", "--propagation", "private", "sh", "-c", bare, "sh"], &config, None)?, "tracefs")
}

/// E05: a kernel without BTF.
pub(super) fn no_btf(case: &Value) -> Result<()> {
    let (_endpoint, config) = to_nobody()?;
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let wrapper = ["unshare", "-m", "--propagation", "private", "sh", "-c", hidden, "sh"];
    judge(&start(&wrapper, &config, None)?, &case["expect"])
}
