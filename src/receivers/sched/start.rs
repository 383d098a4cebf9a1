//! From settings to a running reader thread, and back.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::assemble::Assembler;
use super::cgroups::{CgroupPaths, Hierarchy, Mount};
use super::chosen::Chosen;
use super::clock;
use super::contexts::Upkeep;
use super::driver::{Driver, DriverError, Load, Storage, ThrottleSource, settings as KernelSettings};
use super::events::EventBackend;
use super::keeping::Keeping;
use super::limits::LimitFiles;
use super::overhead::Overhead;
use super::reader::{Pace, Reader, slot_key};
use super::settings::{Backend, OnError, SchedSettings, Selection};
use super::totals::Measured;
use super::view::{Standpoint, View};
use crate::history::History;
use crate::host::FIRST_PID_NAMESPACE;
use crate::model::{BootNs, HostFacts, Targets, Wants};
use crate::pipeline::{BuildContext, Outlet, Receiver, StartError};
use crate::telemetry::Telemetry;

/// The receiver: settings, and the thread once it runs.
pub struct SchedReceiver {
    id: Arc<str>,
    settings: SchedSettings,
    telemetry: Telemetry,
    history: History,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SchedReceiver {
    /// Not started yet.
    pub fn new(settings: SchedSettings, context: &BuildContext) -> Self {
        let (telemetry, history) = (context.telemetry.clone(), context.history.clone());
        Self { id: Arc::clone(&context.id), settings, telemetry, history, stop: Arc::default(), thread: None }
    }
}

#[async_trait]
impl Receiver for SchedReceiver {
    async fn start(&mut self, outlet: Outlet) -> Result<(), StartError> {
        let (told, started) = oneshot::channel();
        let (settings, telemetry, stop) = (self.settings.clone(), self.telemetry.clone(), Arc::clone(&self.stop));
        let (id, health, history) = (Arc::clone(&self.id), self.telemetry.health().clone(), self.history.clone());
        let thread = std::thread::Builder::new().name("schedscope-ring".into()).spawn(move || {
            let mut storage = Storage::default();
            match choose(&mut storage, &settings, outlet, telemetry, &history) {
                Err(why) => {
                    let _ = told.send(Err(why));
                }
                Ok(running) => {
                    let _ = told.send(Ok(()));
                    if let Err(why) = running.run(&stop) {
                        tracing::error!("sched: {why}; no more cycles and totals come from this host");
                        health.degrade(&id, why);
                    }
                }
            }
        });
        self.thread = Some(thread.map_err(|error| StartError::new(format!("no thread for the ring: {error}")))?);
        match started.await {
            Ok(Err(why)) if self.settings.on_error == OnError::Degrade => {
                tracing::error!("sched: {why}; the agent runs without this receiver (on_error: degrade)");
                self.telemetry.health().degrade(&self.id, why);
                Ok(())
            }
            Ok(outcome) => outcome.map_err(StartError::new),
            Err(_) => Err(StartError::new("the ring's thread ended before it began")),
        }
    }

    async fn shutdown(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// A started backend.
enum Running<'a> {
    Kernel(Box<(Driver<'a>, Reader)>),
    Events(Box<EventBackend>),
}

impl Running<'_> {
    fn run(self, stop: &Arc<AtomicBool>) -> Result<(), String> {
        match self {
            Self::Kernel(kernel) => {
                let (driver, reader) = *kernel;
                reader.run(&driver, stop).map_err(|error| error.to_string())
            }
            Self::Events(events) => events.run(stop),
        }
    }
}

/// The backend that the settings name, or the first that starts.
fn choose<'a>(
    storage: &'a mut Storage,
    settings: &SchedSettings,
    outlet: Outlet,
    telemetry: Telemetry,
    history: &History,
) -> Result<Running<'a>, String> {
    let events = |outlet, telemetry| {
        if history.is_wanted() {
            tracing::warn!(
                "sched: a backend of single events keeps no history; `sched_enrich` passes spans on as they are"
            );
        }
        EventBackend::start(settings, outlet, telemetry).map(|it| Running::Events(Box::new(it)))
    };
    if settings.backend.is_by_events() {
        return events(outlet, telemetry);
    }
    let kernel = begin(storage, settings, outlet.clone(), telemetry.clone(), history);
    match kernel {
        Ok(started) => Ok(Running::Kernel(Box::new(started))),
        // a right that is missing is to be given, not to be got round
        Err(error) if settings.backend == Backend::Auto && error.kernel_lacks() => events(outlet, telemetry)
            .inspect(|_| tracing::warn!("sched: no totals by BPF on this host ({error}); single events tell less"))
            .map_err(|other| format!("{error}; and by single events: {other}")),
        Err(error) => Err(error.to_string()),
    }
}

fn begin<'a>(
    storage: &'a mut Storage,
    settings: &SchedSettings,
    outlet: Outlet,
    telemetry: Telemetry,
    history: &History,
) -> Result<(Driver<'a>, Reader), DriverError> {
    let root = Path::new(&settings.root_path);
    let hierarchy =
        Hierarchy::find(root).map_err(|error| DriverError::other(format!("/proc cannot be read: {error}")))?;
    let selection = settings.select.resolve();
    let wants = Wants { history: history.is_wanted(), ..outlet.wants() };
    let load = load(settings, &selection, &hierarchy, wants)?;
    let since = clock::boot_now();
    let driver = Driver::start(storage, &load)?;
    let switches = driver.switches();
    let args = driver.collect()?;
    let mut paths = CgroupPaths::default();
    if let Some(mount) = &hierarchy.mount {
        paths.walk(mount);
    }
    let early = if hierarchy.is_hidden() { told_so_far(&driver, &mut paths)? } else { Assembler::default() };
    let view = View::new(settings.scope, standpoint(&hierarchy, &paths, args.self_cgroup))
        .map_err(|why| DriverError::other(format!("receivers::sched::scope: {why}")))?;
    let facts = host_facts(settings, &driver, since);
    tracing::info!(
        "sched: {} backend, {} CPUs, throttled time from {}, cgroup {}",
        facts.backend,
        facts.cpus,
        facts.throttle_source,
        if hierarchy.v2 { "v2" } else { "v1 cpu controller" }
    );
    match &view {
        View::Host => {}
        View::Below(path) => tracing::info!("sched: scope is {path} and below; everything else is `other`"),
        View::Only(_) => tracing::info!(
            "sched: scope is the agent's own container, which is all that its cgroup namespace shows; everything else is `other`"
        ),
    }
    let pace = Pace {
        collection: settings.collection_interval.0,
        clock_sync: settings.clock_sync_interval.0,
        drain: settings.drain_interval.0,
        spans: wants.cycles || wants.history,
        threads: wants.threads,
        measured: Measured {
            stolen: driver.facts().stolen,
            throttled: driver.throttle() != ThrottleSource::None,
            run: load.settings.run_histogram != 0,
            block: load.settings.block_histogram != 0,
        },
    };
    let told = telemetry.clone();
    let contexts = Upkeep::start(wants, root, &settings.traces_ctx_v1, telemetry.clone());
    let chosen = Chosen::new(Targets::new(settings.include.globs(), settings.exclude.globs()), view);
    let facts = Arc::new(facts);
    let keeping = Keeping::new(history.open(&facts).then(|| history.clone()));
    let reader = Reader::new(pace, outlet, facts, paths, telemetry, chosen, contexts);
    let limits =
        hierarchy.mount.clone().filter(|_| wants.limits).map(|mount| LimitFiles::new(mount.point, hierarchy.v2));
    // with no spans there is nothing to select less of
    let overhead = wants.cycles.then(|| Overhead::new(settings.overhead_percent(), &told));
    let reader = reader.with_overhead(overhead).with_limits(limits).with_history(keeping).with_early(early, switches);
    Ok((driver, reader))
}

/// Takes the paths that the first collection told; the other records are kept for the reader.
fn told_so_far(driver: &Driver<'_>, paths: &mut CgroupPaths) -> Result<Assembler, DriverError> {
    let assembler = RefCell::new(Assembler::default());
    let slots = |slot: u32| slot_key(driver, slot);
    driver.ring(|record| assembler.borrow_mut().record(record, &slots))?.drain(Duration::ZERO)?;
    let mut assembler = assembler.into_inner();
    paths.compose(&assembler.take_nodes());
    Ok(assembler)
}

/// Where the agent itself is; `told`: in which cgroup the kernel saw it.
fn standpoint(hierarchy: &Hierarchy, paths: &CgroupPaths, told: u64) -> Standpoint {
    let namespace = fs::read_link("/proc/self/ns/pid");
    let sees_host = namespace.is_ok_and(|namespace| namespace.as_os_str() == FIRST_PID_NAMESPACE);
    let mut part = CgroupPaths::default();
    if let Some(point) = &hierarchy.own_part {
        part.walk(&Mount { point: point.clone(), below: String::new() });
    }
    // from inside a cgroup namespace only the kernel's own word tells where it lies
    let told = paths.get(told).map(|path| path.to_string());
    Standpoint { path: hierarchy.own.clone().or(told), own: part.ids().collect(), sees_host }
}

/// Slots: one is for what has none. By CPUs where nothing is set, so that the maps stay in bounds on large hosts.
fn slots(max_cgroups: u32, cpus: u32) -> u32 {
    match cpus {
        _ if max_cgroups > 0 => max_cgroups + 1,
        0..=4 => 8192,
        5..=16 => 4096,
        _ => 2048,
    }
}

fn interval_ns(rate: u32) -> u64 {
    if rate == 0 { 0 } else { 1_000_000_000 / u64::from(rate) }
}

pub(super) fn load(
    settings: &SchedSettings,
    selection: &Selection,
    hierarchy: &Hierarchy,
    wants: Wants,
) -> Result<Load, DriverError> {
    let cpus = libbpf_rs::num_possible_cpus()
        .map_err(|error| DriverError::other(format!("the number of possible CPUs is not known: {error}")))?;
    let cpus = u32::try_from(cpus).unwrap_or(1);
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    let ring_bytes = settings.ring_bytes.max(page).next_power_of_two();
    // where only a history is asked for, nothing else is selected
    let never = |threshold: u64| if wants.cycles { threshold } else { u64::MAX };
    let kernel = KernelSettings {
        on_v2: u8::from(hierarchy.v2),
        hierarchy: hierarchy.id,
        cpus,
        slots: slots(settings.max_cgroups, cpus),
        spans: u8::from(wants.cycles || wants.history),
        history: u8::from(wants.history),
        blocks: u8::from(wants.blocks || wants.block_histogram),
        run_histogram: u8::from(wants.run_histogram),
        block_histogram: u8::from(wants.block_histogram),
        exclude_self: u8::from(settings.exclude.own.unwrap_or(true)),
        contexts: u8::from(wants.contexts || wants.shared_contexts),
        sampled_context: u8::from(selection.sampled_context),
        foreign_preemption: u8::from(wants.cycles && selection.foreign_preemption),
        sample: if wants.cycles { (selection.sample_ratio * f64::from(u32::MAX)) as u32 } else { 0 },
        wait: never(selection.wait_ns),
        throttle: never(selection.throttle_ns),
        block: never(selection.block_ns),
        run: never(selection.run_ns),
        cgroup_interval: interval_ns(selection.rate_per_cgroup),
        total_interval: interval_ns(selection.rate_total),
        starvation: settings.starvation.as_ns(),
        tell_paths: u8::from(hierarchy.is_hidden()),
        tell_threads: u8::from(wants.threads),
        wakeup_bytes: u64::from(ring_bytes / 4),
        ..KernelSettings::default()
    };
    let btf = (!settings.btf.is_empty()).then(|| settings.btf.clone().into());
    Ok(Load { settings: kernel, ring_bytes, btf })
}

fn host_facts(settings: &SchedSettings, driver: &Driver<'_>, since: BootNs) -> HostFacts {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    HostFacts {
        backend: "tp_btf",
        throttle_source: driver.throttle().name(),
        boot_id: boot_id.trim().into(),
        kernel_release: rustix::system::uname().release().to_string_lossy().into(),
        cpus: u32::try_from(driver.cpus()).unwrap_or(0),
        since,
        starvation_ns: settings.starvation.as_ns(),
        root: settings.root_path.trim_end_matches('/').into(),
    }
}
