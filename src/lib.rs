//! schedscope tells, per container and per thread, who ran, who waited for a CPU, who was throttled, and
//! who had the CPU meanwhile; as OpenTelemetry metrics and spans, wired by a Collector's YAML.
//!
//! # The way of one switch
//!
//! ```text
//! bpf/ ─▶ receivers::sched ─▶ processors::container ─┬─▶ sched_spans   ─▶ Traces  ─▶ batch … ─▶ exporters
//! kernel   decode: records      cgroup id             └─▶ sched_metrics ─▶ Metrics ─▶ batch … ─▶ exporters
//!          and totals become    becomes an Owner
//!          a SchedBatch
//! ```
//!
//! Each stage is passed once. Data flows one way; only two things flow back: the result of an export, and
//! a refusal at the entry of a pipeline (no room, or a gate such as `memory_limiter`).
//!
//! # Reading order
//!
//! [`model::cycle`] (what is measured) → `bpf/sched.h` (how it leaves the kernel) → `timeline` (the pure
//! reference machine) → [`pipeline::component`] (what a component is) → `agent` (how a run begins and ends).
//!
//! # Layers (a row may use the rows above it only as named)
//!
//! | layer | modules | may import |
//! |---|---|---|
//! | 0 | `model`, `telemetry`, `config` | nothing of ours (each within itself) |
//! | 1 pure | `host` | nothing of ours |
//! | 1 pure | `timeline` | `model` |
//! | 1 pure | `trace_text` | `model`, `timeline` |
//! | 1 pure | `history` | `model`, `host` |
//! | 2 | `record` | `model`, `timeline`, `trace_text` |
//! | 2 | `process_context` | `model` |
//! | 2 | `pipeline` | `model`, `config`, `telemetry`, `history` |
//! | 3 components | each folder of `receivers`, `processors`, `exporters`, `extensions` | layers 0 to 2, its own siblings, a folder beside it that is no component; never another component |
//! | 4 | `components`, `agent`, `doctor` | all above |
//! | 5 | `cli`, `main` | all above |
//!
//! # Invariants (each executed by a test)
//!
//! 1. No component imports another component; they meet in `pipeline` traits and `model` types.
//! 2. `model`, `timeline` and every file that opens with `//! Pure:` have no clock, file, socket, thread,
//!    runtime or log; time is an argument.
//! 3. `unsafe` stands only in `receivers::sched::driver`; OTLP types only from `pipeline` and the
//!    `sched_spans` / `sched_metrics` processors on, never in `model`, `timeline`, `receivers::sched` or `container`.
//! 4. Processors are synchronous; only `pipeline::run`, receivers, exporters and extensions await.
//! 5. The reader of the kernel's ring never waits on a pipeline: no room means dropped, counted, told.
//! 6. Only `main` returns an exit code; only `cli` prints; no global mutable state.

pub mod agent;
pub mod cli;
pub mod components;
pub mod config;
pub mod doctor;
pub mod exporters;
pub mod extensions;
pub mod history;
pub mod host;
pub mod model;
pub mod pipeline;
pub mod process_context;
pub mod processors;
pub mod receivers;
pub mod record;
pub mod telemetry;
pub mod timeline;
pub mod trace_text;
