//! Batches in, owners and processes out.

use super::*;
use crate::model::{BlockState, BootNs, CgroupFacts, CgroupKey, Cycle, OwnerKind, ProcessKey, Reasons, RunEnd, Task};

const ID: &str = "ff44c7a161a2b64a2c2e342fa1364dd148b5958e53d378f0588846fc3e232c34";

fn context() -> BuildContext {
    BuildContext::new("container".into(), Telemetry::default(), "0")
}

fn processor(context: &BuildContext) -> Container {
    let settings = ContainerSettings { runtimes: settings::Runtimes([].into()), ..ContainerSettings::default() };
    Container::new(&settings, context, Path::new("/nonexistent"))
}

fn batch(cgroups: &[(u64, Option<&str>)]) -> SchedBatch {
    let facts = |path: &Option<&str>| CgroupFacts { path: path.map(Into::into), gone: false };
    let cgroups = cgroups.iter().map(|(id, path)| (CgroupKey { id: *id, serial: 0 }, facts(path)));
    SchedBatch { cgroups: cgroups.collect(), ..SchedBatch::default() }
}

fn cycle(task: Task) -> Cycle {
    Cycle {
        cgroup: task.cgroup,
        task: Arc::new(task),
        cpu: 0,
        end: BootNs(0),
        run_ns: 0,
        run_end: RunEnd::Blocked,
        wait_ns: None,
        throttled_ns: None,
        wait_before_throttle_ns: 0,
        block_ns: None,
        block_state: BlockState::Unknown,
        waker: None,
        context: None,
        reasons: Reasons::default(),
        culprits: Arc::default(),
    }
}

fn key(id: u64) -> CgroupKey {
    CgroupKey { id, serial: 0 }
}

#[test]
fn cgroups_inside_a_container_roll_up_and_the_rest_is_the_hosts() {
    let mut processor = processor(&context());
    let (outer, inner) = (format!("/docker/{ID}"), format!("/docker/{ID}/system.slice/x.service"));
    let mut batch =
        batch(&[(1, Some(&outer)), (2, Some(&inner)), (3, Some("/")), (4, Some("/system.slice/a.service"))]);
    processor.attribute(&mut batch, Instant::now());
    assert_eq!(batch.owners[&key(1)].key, batch.owners[&key(2)].key);
    assert!(Arc::ptr_eq(&batch.owners[&key(1)], &batch.owners[&key(2)]));
    assert!(!batch.owners.contains_key(&key(3)));
    assert_eq!(batch.owners[&key(4)].kind, OwnerKind::Unit);
    assert_eq!(batch.host.unwrap().resource.text("service.name"), Some("host-scheduler"));
}

#[test]
fn an_owner_is_known_without_its_path_once_it_was_seen() {
    let mut processor = processor(&context());
    let path = format!("/docker/{ID}");
    let mut first = batch(&[(1, Some(&path))]);
    processor.attribute(&mut first, Instant::now());
    let mut second = batch(&[(1, None)]);
    processor.attribute(&mut second, Instant::now());
    assert_eq!(second.owners[&key(1)].key.as_ref(), ID);
}

#[test]
fn a_reused_id_does_not_inherit() {
    let mut processor = processor(&context());
    let path = format!("/docker/{ID}");
    processor.attribute(&mut batch(&[(1, Some(&path))]), Instant::now());
    let mut reused = batch(&[(1, Some("/system.slice/a.service"))]);
    processor.attribute(&mut reused, Instant::now());
    assert_eq!(reused.owners[&key(1)].key.as_ref(), "a.service");
}

#[test]
fn a_cgroup_that_nobody_saw_is_counted_and_not_guessed() {
    let context = context();
    let mut batch = batch(&[(1, None)]);
    processor(&context).attribute(&mut batch, Instant::now());
    assert!(batch.owners.is_empty());
    assert_eq!(context.telemetry.sum("otelcol_processor_container_cgroups_unknown"), 1);
}

#[test]
fn a_process_carries_its_containers_attributes() {
    let path = format!("/docker/{ID}");
    let mut batch = batch(&[(1, Some(&path))]);
    let process = ProcessKey { pid: 7, start: BootNs(1) };
    let task = Task { tid: 8, process, cgroup: key(1), ..Task::default() };
    batch.cycles = vec![cycle(task)];
    processor(&context()).attribute(&mut batch, Instant::now());
    let resource = &batch.processes[&process].resource;
    assert_eq!(resource.text("container.id"), Some(ID));
    assert_eq!(resource.get("process.pid"), Some(&7.into()));
}

/// Check that a process which enters its container between two cycles of one batch is the container's.
#[test]
fn a_process_is_where_its_leader_was_last() {
    let mut processor = processor(&context());
    let path = format!("/docker/{ID}");
    let mut batch = batch(&[(1, Some("/")), (2, Some(&path))]);
    let process = ProcessKey { pid: 7, start: BootNs(1) };
    let at = |cgroup, tid| cycle(Task { tid, process, start: BootNs(1), cgroup: key(cgroup), ..Task::default() });
    batch.cycles = vec![at(1, 7), at(2, 7), at(2, 7), at(1, 8)];
    processor.attribute(&mut batch, Instant::now());
    assert_eq!(batch.processes[&process].resource.text("container.id"), Some(ID));
}

#[test]
fn ten_thousand_containers_stay_within_the_cache() {
    let context = context();
    let settings =
        ContainerSettings { cache_size: 1000, runtimes: settings::Runtimes([].into()), ..ContainerSettings::default() };
    let mut processor = Container::new(&settings, &context, Path::new("/nonexistent"));
    let start = Instant::now();
    for round in 0..10u64 {
        let paths: Vec<String> = (0..1000).map(|n| format!("/docker/{:064x}", round * 1000 + n)).collect();
        let cgroups: Vec<(u64, Option<&str>)> =
            paths.iter().enumerate().map(|(n, path)| (round * 1000 + n as u64, Some(path.as_str()))).collect();
        let mut batch = batch(&cgroups);
        processor.attribute(&mut batch, start + Duration::from_millis(round));
        assert_eq!(batch.owners.len(), 1000);
    }
    let entries = context.telemetry.sum("otelcol_processor_container_cache_entries");
    let evicted = context.telemetry.sum("otelcol_processor_container_cache_evictions");
    // cgroups and owners alike; nothing is lost uncounted
    assert!(entries <= 3000, "{entries}");
    assert_eq!(entries + evicted, 2 * 10_000 + context_names(&context));
}

/// Entries and evictions of the names that were asked for.
fn context_names(context: &BuildContext) -> u64 {
    let of_names = |series: &&crate::telemetry::Series| {
        series.key.name.starts_with("otelcol_processor_container_cache")
            && series.key.attributes.iter().any(|(_, value)| value == "names")
    };
    context.telemetry.snapshot().iter().filter(of_names).map(|series| series.value).sum()
}
