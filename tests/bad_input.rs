//! What a user does wrong, or a host lacks: a message that says what to do, the right exit code, never a panic.

#![allow(clippy::print_stdout, reason = "the list of what was not run")]

#[path = "bad_input/full_disk.rs"]
mod full_disk;
#[path = "support/needs.rs"]
mod needs;
#[path = "support/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use needs::Need::{Btf, Root};
use needs::Test;
use program::Program;
use rustix::process::Signal;

const BINARY: &str = env!("CARGO_BIN_EXE_schedscope");

const TESTS: &[Test] = &[
    ("config_is_missing", &[], config_is_missing),
    ("config_is_empty", &[], config_is_empty),
    ("config_is_not_utf8", &[], config_is_not_utf8),
    ("config_is_a_directory", &[], config_is_a_directory),
    ("config_has_every_mistake_told_at_once", &[], config_has_every_mistake_told_at_once),
    ("command_line_is_wrong", &[], command_line_is_wrong),
    ("config_commands_need_no_privileges", &[Root], config_commands_need_no_privileges),
    ("capabilities_are_missing", &[Root], capabilities_are_missing),
    ("user_is_nobody", &[Root], user_is_nobody),
    ("two_capabilities_suffice", &[Root, Btf], two_capabilities_suffice),
    ("kernel_has_no_btf", &[Root, Btf], kernel_has_no_btf),
    ("single_events_take_the_place_of_totals", &[Root, Btf], single_events_take_the_place_of_totals),
    ("nothing_can_be_measured", &[Root, Btf], nothing_can_be_measured),
    ("tracefs_is_not_mounted", &[Root, Btf], tracefs_is_not_mounted),
    ("disk_is_full", &[Root], full_disk::refuses_and_recovers),
    ("endpoint_is_down", &[Root, Btf], endpoint_is_down),
];

fn main() -> ExitCode {
    needs::run(&Arguments::from_args(), TESTS)
}

/// A config that is right; nothing listens on the endpoint.
const GOOD: &str = "
receivers: {sched: {collection_interval: 1s}}
processors: {container: {}, sched_metrics: {}}
exporters: {otlp_grpc: {endpoint: '127.0.0.1:1', tls: {insecure: true}}}
service:
  shutdown_timeout: 1s
  pipelines:
    metrics: {receivers: [sched], processors: [container, sched_metrics], exporters: [otlp_grpc]}
";

/// How a run ended.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    /// Both outputs.
    text: String,
}

impl Outcome {
    /// Ended with this code, having said all of that, and did not panic.
    fn is(&self, code: i32, words: &[&str]) -> Result<()> {
        ensure!(self.code == Some(code), "exit code {:?}, want {code}:\n{}", self.code, self.text);
        ensure!(!self.text.contains("panicked"), "a panic:\n{}", self.text);
        for word in words {
            ensure!(self.text.contains(word), "does not say {word:?}:\n{}", self.text);
        }
        Ok(())
    }
}

/// Runs a program to its end, killed after 30 s.
fn run(program: &Path, wrapper: &[&str], arguments: &[&str]) -> Result<Outcome> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "30"]).args(wrapper).arg(program).args(arguments).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok(Outcome { code: output.status.code(), text })
}

fn schedscope(arguments: &[&str]) -> Result<Outcome> {
    run(Path::new(BINARY), &[], arguments)
}

/// Starts the agent by a wrapper that becomes it, waits until it is ready and has said all of that, ends it as Ctrl-C does.
fn run_until_said(wrapper: &[&str], program: &str, config: &str, words: &[&str]) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let mut line = wrapper.to_vec();
    line.extend([program, "--config", config]);
    let mut agent = Program::start("schedscope", Command::new(line[0]).args(&line[1..]), folder.path())?;
    for words in ["Everything is ready"].iter().chain(words) {
        agent.says(words)?;
    }
    let status = agent.stop(Signal::INT)?;
    Ok(Outcome { code: status.code(), text: agent.output() })
}

/// A folder with a file of that content, and the file's path.
fn file(content: &[u8]) -> Result<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("agent.yaml");
    fs::write(&path, content)?;
    Ok((folder, path.display().to_string()))
}

fn config_is_missing() -> Result<()> {
    let path = "/nonexistent/agent.yaml";
    for arguments in [vec!["--config", path], vec!["validate", "--config", path]] {
        schedscope(&arguments)?.is(1, &[path, "o such file"])?;
    }
    Ok(())
}

fn config_is_empty() -> Result<()> {
    let (_folder, path) = file(b"")?;
    schedscope(&["--config", &path])?.is(1, &["empty"])
}

fn config_is_not_utf8() -> Result<()> {
    let (_folder, path) = file(b"receivers: {sched: {}} # caf\xe9\n")?;
    schedscope(&["--config", &path])?.is(1, &[&path, "UTF-8"])
}

fn config_is_a_directory() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().display().to_string();
    schedscope(&["--config", &path])?.is(1, &[&path, "irectory"])
}

fn config_has_every_mistake_told_at_once() -> Result<()> {
    let text = "receivers: {sched: {windw: 1s}}
processors: {sched_metrics: {}}
exporters: {otlp_grpc: {endpoint: 'localhost:4317'}, nosuch: {}}
service:
  pipelines:
    metrics: {receivers: [sched], processors: [sched_metrics], exporters: [otlp_grpc/eu]}
";
    let (_folder, path) = file(text.as_bytes())?;
    let told = ["receivers::sched::windw", "exporters::nosuch", "service::pipelines::metrics", "otlp_grpc/eu"];
    schedscope(&["--config", &path])?.is(1, &told)?;
    schedscope(&["validate", "--config", &path])?.is(1, &told)
}

fn command_line_is_wrong() -> Result<()> {
    schedscope(&["--confg", "x"])?.is(2, &["--confg", "--config"])?;
    schedscope(&["nosuch"])?.is(2, &["nosuch"])?;
    schedscope(&["--config"])?.is(2, &["--config"])
}

/// Wraps a program so that it runs as nobody, without any capability.
const AS_NOBODY: &[&str] =
    &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

/// A copy of the binary and a good config where nobody can read them.
fn readable_by_nobody() -> Result<(tempfile::TempDir, std::path::PathBuf, String)> {
    use std::os::unix::fs::PermissionsExt;
    let (folder, config) = file(GOOD.as_bytes())?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("schedscope");
    fs::copy(BINARY, &program)?;
    Ok((folder, program, config))
}

fn config_commands_need_no_privileges() -> Result<()> {
    let (_folder, program, config) = readable_by_nobody()?;
    run(&program, AS_NOBODY, &["validate", "--config", &config])?.is(0, &[])?;
    run(&program, AS_NOBODY, &["components"])?.is(0, &["sched", "otlp_grpc"])?;
    run(&program, AS_NOBODY, &["print-config", "--config", &config])?.is(0, &["collection_interval"])
}

fn capabilities_are_missing() -> Result<()> {
    let (_folder, path) = file(GOOD.as_bytes())?;
    let wrapper = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    run(Path::new(BINARY), &wrapper, &["--config", &path])?.is(1, &["sched", "CAP_BPF", "CAP_PERFMON"])
}

fn user_is_nobody() -> Result<()> {
    let (_folder, program, config) = readable_by_nobody()?;
    run(&program, AS_NOBODY, &["--config", &config])?.is(1, &["sched", "CAP_BPF", "CAP_PERFMON"])
}

fn two_capabilities_suffice() -> Result<()> {
    let (_folder, program, config) = readable_by_nobody()?;
    let caps = "-all,+bpf,+perfmon";
    let options = ["--inh-caps=", "--ambient-caps=", "--bounding-set="].map(|option| format!("{option}{caps}"));
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let mut wrapper = vec!["setpriv"];
    wrapper.extend(ids);
    wrapper.extend(options.iter().map(String::as_str));
    run_until_said(&wrapper, &program.display().to_string(), &config, &[])?.is(0, &["stopped"])
}

fn kernel_has_no_btf() -> Result<()> {
    let (_folder, path) = file(GOOD.as_bytes())?;
    let hidden = "mount --make-rprivate / && mount -t tmpfs none /sys/kernel/btf && \
        { umount -l /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug 2>/dev/null; exec \"$0\" \"$@\"; }";
    let wrapper = ["unshare", "-m", "sh", "-c", hidden];
    run(Path::new(BINARY), &wrapper, &["--config", &path])?.is(1, &["sched", "BTF", "mount -t tracefs"])
}

/// Without BTF the classic tracepoints take the place of the totals, and the log says what they cannot tell.
fn single_events_take_the_place_of_totals() -> Result<()> {
    let (_folder, path) = file(GOOD.as_bytes())?;
    let hidden = "mount --make-rprivate / && mount -t tmpfs none /sys/kernel/btf && \
        { [ -d /sys/kernel/tracing/instances ] || mount -t tracefs none /sys/kernel/tracing; } && exec \"$0\" \"$@\"";
    let wrapper = ["unshare", "-m", "sh", "-c", hidden];
    run_until_said(&wrapper, BINARY, &path, &["tracepoint backend", "no totals by BPF on this host"])?
        .is(0, &["stopped"])
}

/// With `on_error: degrade` the rest of the agent runs, and says what is missing.
fn nothing_can_be_measured() -> Result<()> {
    let config = GOOD.replace("sched: {", "sched: {on_error: degrade, ");
    let (_folder, path) = file(config.as_bytes())?;
    let hidden = "mount --make-rprivate / && mount -t tmpfs none /sys/kernel/btf && \
        { umount -l /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug 2>/dev/null; exec \"$0\" \"$@\"; }";
    let wrapper = ["unshare", "-m", "sh", "-c", hidden];
    let said = ["BTF", "runs without this receiver", "is ready"];
    run_until_said(&wrapper, BINARY, &path, &said)?.is(0, &["stopped"])
}

fn tracefs_is_not_mounted() -> Result<()> {
    let (_folder, path) = file(GOOD.as_bytes())?;
    let bare = "mount --make-rprivate / && { umount -l /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug 2>/dev/null; exec \"$0\" \"$@\"; }";
    run_until_said(&["unshare", "-m", "sh", "-c", bare], BINARY, &path, &[])?.is(0, &["stopped"])
}

/// The agent keeps measuring, retries, ends when asked, and says what it had to drop.
fn endpoint_is_down() -> Result<()> {
    let (_folder, path) = file(GOOD.as_bytes())?;
    let outcome = run_until_said(&[], BINARY, &path, &["127.0.0.1:1 refused"])?;
    outcome.is(0, &["retrying", "stopped"])?;
    let last = outcome.text.lines().rfind(|line| line.contains("stopped")).unwrap_or_default().to_owned();
    ensure!(["dropped", "lost", "left behind"].iter().any(|word| last.contains(word)), "nothing lost? {last}");
    Ok(())
}
