//! The command line as a tree: options of the config, and one variant per subcommand.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use super::container::Target;
use super::doctor::{DoctorArguments, LoadArguments};
use super::print_config::{Format, PrintOptions};
use super::record::RecordArguments;
use super::top::TopArguments;

const EXAMPLES: &str = "\
Examples:
  schedscope                                        run with the embedded default config
  schedscope --config agent.yaml                    run a Collector config
  schedscope --config agent.yaml --set exporters::otlp_grpc::endpoint=gateway:4317
  schedscope --config env:SCHEDSCOPE_CONFIG         take the config from a variable
  schedscope validate --config agent.yaml           all mistakes, with their lines
  schedscope print-config --defaults                what would run, every key
  schedscope components --schema > schema.json      completion in editors
  schedscope container --pid 4711                   what would this process be called
  schedscope top                                    a live view; --once and --json for scripts
  schedscope doctor                                 what this host allows, what is missing
  schedscope doctor --verify                        our numbers beside the kernel's own
  schedscope record -o run.sched --for 10s          raw events into a file
  schedscope replay trace.txt --format summary      what each thread came to

Exit codes: 0 ok, 1 the config or the start failed, 2 a wrong command line.
SIGINT and SIGTERM drain and stop, a second one, half a second later or more, stops at once; SIGHUP reloads the config.";

/// Who ran, who waited for a CPU, who was throttled, and who had the CPU meanwhile: per container and per
/// thread, as OpenTelemetry metrics and spans
#[derive(Debug, Parser)]
#[command(name = "schedscope", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) config: ConfigArguments,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Where the config comes from.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ConfigArguments {
    /// A config document: a path, file:PATH, env:NAME or yaml:TEXT; given again, later ones are laid over
    /// earlier ones. Without it the embedded default is used
    #[arg(long = "config", value_name = "URI", global = true)]
    pub(super) sources: Vec<String>,
    /// Sets one key over all documents, such as processors::batch::timeout=2s; the value is YAML
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub(super) sets: Vec<String>,
    /// Accepted for the Collector's sake: a,-b,+c; a gate that this build does not have is an error
    #[arg(long, value_name = "GATES", value_delimiter = ',', allow_hyphen_values = true, global = true)]
    pub(super) feature_gates: Vec<String>,
}

/// What to do instead of running.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check the config as a start does, without starting; silent where it is right
    Validate,
    /// Print the config after merging and expansion
    PrintConfig(PrintConfigArguments),
    /// List what a config may name
    Components(ComponentsArguments),
    /// Print the resource attributes of a process as one JSON object
    Container(ContainerArguments),
    /// Run a recording, or the text of ftrace, trace-cmd report or perf script, through the pipelines
    Replay(ReplayArguments),
    /// Record the scheduler's events into a file, for replay; needs root and tracefs, not BPF
    Record(RecordArguments),
    /// A live view: who suffers and from what, with threads and culprits; q quits
    Top(TopArguments),
    /// Say what this host allows us to measure, what is missing and how to get it
    Doctor(DoctorArguments),
    /// Print completions for a shell: schedscope completions bash >/etc/bash_completion.d/schedscope
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// A worker of `doctor --verify`
    #[command(hide = true)]
    DoctorLoad(LoadArguments),
}

/// What to replay, and how.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The file, or - for standard input; gzip and zstd are unpacked
    #[arg(value_name = "FILE")]
    pub(super) file: String,
    /// otlp: through the pipelines of --config, without one as OTLP JSON lines; summary: a table per thread
    #[arg(long, value_enum, default_value_t = ReplayFormat::Otlp)]
    pub(super) format: ReplayFormat,
    /// When the traced host was booted (RFC 3339), for text that has only seconds since the boot
    #[arg(long, value_name = "TIME")]
    pub(super) boot_time: Option<String>,
}

/// What becomes of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReplayFormat {
    /// OTLP, through pipelines.
    Otlp,
    /// A table.
    Summary,
}

/// How the config is printed.
#[derive(Debug, Args)]
pub(super) struct PrintConfigArguments {
    /// Whether secrets are shown
    #[arg(long, value_enum, default_value_t = Mode::Redacted)]
    pub(super) mode: Mode,
    /// The form of the document
    #[arg(long, value_enum, default_value_t = Form::Yaml)]
    pub(super) format: Form,
    /// Every key with its default, not only what is written
    #[arg(long)]
    pub(super) defaults: bool,
}

/// Whether secrets are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// As `[REDACTED]`.
    Redacted,
    /// As they are.
    Unredacted,
}

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    /// YAML.
    Yaml,
    /// Indented JSON.
    Json,
}

impl PrintConfigArguments {
    pub(super) fn options(&self) -> PrintOptions {
        PrintOptions {
            unredacted: self.mode == Mode::Unredacted,
            format: if self.format == Form::Json { Format::Json } else { Format::Yaml },
            defaults: self.defaults,
        }
    }
}

/// How components are listed.
#[derive(Debug, Args)]
pub(super) struct ComponentsArguments {
    /// Print the JSON Schema of a whole config file instead, for editors
    #[arg(long)]
    pub(super) schema: bool,
}

/// Which process.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct ContainerArguments {
    /// A live process, by its pid as seen from here
    #[arg(long, conflicts_with_all = ["cgroup", "mountinfo"])]
    pid: Option<u32>,
    /// A saved /proc/PID/cgroup
    #[arg(long, value_name = "FILE")]
    cgroup: Option<PathBuf>,
    /// The /proc/PID/mountinfo that goes with it
    #[arg(long, value_name = "FILE", requires = "cgroup")]
    mountinfo: Option<PathBuf>,
}

impl ContainerArguments {
    pub(super) fn target(&self) -> Target {
        match (self.pid, &self.cgroup) {
            (Some(pid), _) => Target::Pid(pid),
            (None, cgroup) => {
                Target::Files { cgroup: cgroup.clone().unwrap_or_default(), mountinfo: self.mountinfo.clone() }
            }
        }
    }
}

/// Completions of this command line.
pub(super) fn completions_of(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "schedscope", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Gates of the Collector whose effect is always on here.
const KNOWN_GATES: [&str; 1] = ["otelcol.printInitialConfig"];

/// Refuses gates that do not exist.
pub(super) fn check_feature_gates(gates: &[String]) -> Result<(), String> {
    for gate in gates.iter().filter(|gate| !gate.is_empty()) {
        let id = gate.trim_start_matches(['+', '-']);
        if !KNOWN_GATES.contains(&id) {
            return Err(format!("no such feature gate: `{id}`; there is {}", KNOWN_GATES.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("schedscope").chain(line.split_whitespace()))
    }

    #[test]
    fn the_tree_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn config_options_repeat_and_stand_anywhere() {
        let arguments = parsed("--config a.yaml --config b.yaml --set a::b=c").unwrap();
        assert_eq!(arguments.config.sources, ["a.yaml", "b.yaml"]);
        assert_eq!(arguments.config.sets, ["a::b=c"]);
        assert!(arguments.command.is_none());
        let arguments = parsed("container --pid 7").unwrap();
        assert!(matches!(arguments.command, Some(Command::Container(which)) if which.target() == Target::Pid(7)));
    }

    #[test]
    fn wrong_lines_are_refused() {
        for line in ["--wrong", "run", "container", "container --pid x", "container --mountinfo m", "--config"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(!parsed("--version").unwrap_err().use_stderr());
    }

    /// Check that every subcommand is completed.
    #[test]
    fn completions() {
        let text = completions_of(clap_complete::Shell::Bash);
        for name in ["top", "validate", "print-config", "replay", "doctor", "--verify", "--config"] {
            assert!(text.contains(name), "{name}");
        }
    }

    #[test]
    fn unknown_gates_are_refused() {
        let gates = |list: &str| check_feature_gates(&parsed(list).unwrap().config.feature_gates);
        assert_eq!(gates("--feature-gates=+otelcol.printInitialConfig"), Ok(()));
        assert!(gates("--feature-gates=-a,+b").unwrap_err().contains("`a`"));
    }
}
