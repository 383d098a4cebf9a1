//! The agent against real parts: podman containers, an OpenTelemetry Collector, a Jaeger.
//!
//! `make test` builds the parts and runs this; `cargo test --test real -- NAME` runs one of them. A test says
//! what it needs; where this machine lacks it, the test is listed as `not run`, and with CI=true that fails.

#![allow(clippy::print_stdout, reason = "a test shows what it compared")]

mod access_models;
mod attached;
mod churn;
mod config_agrees;
mod culprits;
mod demo;
mod deploy;
mod differential;
mod enriched;
mod faults;
mod hostile;
mod idle;
mod incomplete;
mod judged;
mod kernels;
mod kubernetes;
mod levels;
mod memory;
mod overhead;
mod parts_speak;
mod plugin;
mod programs;
mod quota;
mod recording;
mod schema;
mod shared_contexts;
mod short_lived;
mod sidecar;
mod support;
mod top;

#[allow(dead_code, reason = "the scenarios of the cases use the rest")]
#[path = "../support/cgroup.rs"]
mod cgroup;
#[path = "../support/needs.rs"]
mod needs;
#[path = "../support/program.rs"]
mod program;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use needs::Need::{
    Arm64, Btf, Collector, Debian, Docker, Emulator, Helm, Jaeger, JsonSchema, Kubernetes, Perf, Plugin, Podman,
    Prometheus, Root, Systemd,
};
use needs::Test;

const TESTS: &[Test] = &[
    ("access_models::give_every_thread_its_own", &[Root, Btf], access_models::give_every_thread_its_own),
    (
        "attached::a_request_tells_what_it_suffered",
        &[Root, Btf, Podman, Jaeger],
        attached::a_request_tells_what_it_suffered,
    ),
    ("churn::brief_containers_are_named", &[Root, Btf], churn::brief_containers_are_named),
    (
        "enriched::a_request_that_passes_through_is_told",
        &[Root, Btf, Podman, Jaeger],
        enriched::a_request_that_passes_through_is_told,
    ),
    ("hostile::a_container_cannot_speak_as_another", &[Root, Btf], hostile::a_container_cannot_speak_as_another),
    ("idle::is_nobodys", &[Root, Btf], idle::is_nobodys),
    ("incomplete::windows_say_so", &[Root, Btf, Jaeger], incomplete::windows_say_so),
    ("judged::intervals_are_under_the_right_spans", &[Root, Btf], judged::intervals_are_under_the_right_spans),
    ("kernels::this_one_agrees", &[Root, Btf], kernels::this_one_agrees),
    ("kernels::this_one_agrees_by_events", &[Root, Btf], kernels::this_one_agrees_by_events),
    ("kernels::others_agree", &[Emulator], kernels::others_agree),
    ("kernels::arm64_agrees", &[Emulator, Arm64], kernels::arm64_agrees),
    ("kernels::another_scheduler_is_told", &[Emulator], kernels::another_scheduler_is_told),
    ("kernels::hidden_containers_are_named", &[Emulator], kernels::hidden_containers_are_named),
    ("kernels::the_oldest_is_measured_by_events", &[Emulator], kernels::the_oldest_is_measured_by_events),
    ("levels::processes_and_threads_add_up", &[Root, Btf], levels::processes_and_threads_add_up),
    ("memory::stays_in_its_bound_and_takes_again", &[Collector], memory::stays_in_its_bound_and_takes_again),
    ("parts::collector_writes_what_it_gets", &[Collector], parts_speak::collector_writes_what_it_gets),
    ("parts::jaeger_answers_with_what_it_gets", &[Jaeger], parts_speak::jaeger_answers_with_what_it_gets),
    ("parts::podman_throttles_for_real", &[Root, Podman], parts_speak::podman_throttles_for_real),
    (
        "schema::fits_the_shipped_configs_and_no_mistakes",
        &[JsonSchema],
        schema::fits_the_shipped_configs_and_no_mistakes,
    ),
    ("config::agrees_on_what_documents_amount_to", &[Collector], config_agrees::on_what_documents_amount_to),
    ("demo::says_why_requests_are_slow", &[Root, Btf, Collector, Jaeger], demo::says_why_requests_are_slow),
    ("differential::both_tell_the_same", &[Root, Btf], differential::both_tell_the_same),
    ("deploy::the_compose_file_is_run", &[Root, Btf, Docker, Collector, Jaeger, Prometheus], deploy::composed::is_run),
    ("deploy::the_compose_file_is_whole", &[Prometheus], deploy::compose::is_whole_and_valid),
    (
        "deploy::the_dashboard_is_answered_from_real_data",
        &[Root, Btf, Podman, Prometheus, Collector, Jaeger],
        deploy::dashboard::is_answered_from_real_data,
    ),
    (
        "deploy::the_image_measures_from_a_container",
        &[Root, Btf, Docker, Collector],
        deploy::image::measures_from_a_container,
    ),
    (
        "deploy::the_package_leaves_nothing_on_a_fresh_debian",
        &[Root, Debian],
        deploy::fresh::is_installed_and_leaves_nothing,
    ),
    (
        "deploy::the_package_runs_confined_and_goes",
        &[Root, Btf, Systemd, Collector],
        deploy::service::is_installed_confined_and_removed,
    ),
    ("faults::lose_nothing_that_was_acknowledged", &[Collector], faults::lose_nothing_that_was_acknowledged),
    ("plugin::measures_and_is_kept_alive", &[Root, Btf, Podman, Plugin, Jaeger], plugin::measures_and_is_kept_alive),
    (
        "faults::soak_stays_flat_and_accounts_for_all",
        &[Root, Btf, Podman, Collector],
        faults::stays_flat_and_accounts_for_all,
    ),
    ("overhead::is_limited", &[Root, Btf], overhead::is_limited),
    ("programs::are_far_from_the_verifiers_bound", &[Root, Btf], programs::are_far_from_the_verifiers_bound),
    ("quota::arrives_whole_over_grpc", &[Root, Btf, Podman, Collector, Jaeger], quota::arrives_whole_over_grpc),
    ("quota::arrives_whole_over_http", &[Root, Btf, Podman, Collector, Jaeger], quota::arrives_whole_over_http),
    ("recording::agrees_with_the_kernel", &[Root], recording::agrees_with_the_kernel),
    ("recording::agrees_with_perf", &[Root, Perf], recording::agrees_with_perf),
    ("recording::cleans_up_after_the_killed", &[Root], recording::cleans_up_after_the_killed),
    (
        "kubernetes::pods_are_named",
        &[Root, Btf, Kubernetes, Helm, Docker, Podman, Collector, Jaeger],
        kubernetes::pods_are_named,
    ),
    ("sidecar::sees_its_pod_from_inside", &[Root, Btf], sidecar::sees_its_pod_from_inside),
    ("top::tells_a_script", &[Root, Btf], top::tells_a_script),
    ("top::is_used_over_a_pty", &[Root, Btf], top::is_used_over_a_pty),
    ("shared_contexts::are_followed", &[Root, Btf], shared_contexts::are_followed),
    ("short_lived::are_not_lost", &[Root, Btf, Podman, Collector], short_lived::are_not_lost),
];

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    // the tests share ports and the machine's CPUs: one at a time, also across clones
    arguments.test_threads = Some(1);
    let lock = File::create(lock_file()?)?;
    lock.lock()?;
    Ok(needs::run(&arguments, TESTS))
}

fn lock_file() -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join("schedscope-tests");
    fs::create_dir_all(&folder)?;
    Ok(folder.join("real.lock"))
}
