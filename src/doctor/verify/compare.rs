//! Two moments become rows: what grew on our side and on the kernel's.

use std::collections::{HashMap, HashSet};

use super::Group;
use super::kernel::{Accounts, CgroupCounters, TaskCounters, all_switches};
use super::load::Kind;
use super::row::{self, Bound, Row};
use crate::model::{CgroupTotals, LossReason, SchedState};
use crate::receivers::sched::{Meter, Offers, Reading, ext_scheduler};

/// Cgroups of the host, beside our own, that are compared.
const OTHERS: usize = 3;
/// A cgroup of the host that used less than this says nothing, ns.
const OTHERS_LEAST_NS: u64 = 200_000_000;

const RUNNING: &str = "running (the cgroup's CPU usage)";
/// What ran for longer than its quota allows by so much had none: more than the burst of a period.
const NOT_ENFORCED: f64 = 1.5;

/// All counters of both sides, read together.
pub(super) struct Moment {
    reading: Reading,
    /// `ctxt` before and after our own reading.
    switches: Option<(u64, u64)>,
    kernel: HashMap<String, (CgroupCounters, TaskCounters)>,
}

impl Moment {
    /// Reads.
    pub(super) fn take(meter: &mut Meter<'_>, accounts: &Accounts, groups: &[Group]) -> Result<Self, String> {
        let before = all_switches();
        let reading = meter.read()?;
        let after = all_switches();
        let switches = before.zip(after);
        let mut kernel: HashMap<String, (CgroupCounters, TaskCounters)> = HashMap::new();
        for path in groups.iter().flat_map(Group::paths) {
            kernel.insert(path.clone(), (accounts.read(path), accounts.tasks(path)));
        }
        for path in reading.cgroups.iter().filter_map(|cgroup| cgroup.path.as_deref()) {
            kernel.entry(path.to_owned()).or_insert_with(|| (accounts.read(path), accounts.tasks(path)));
        }
        Ok(Self { reading, switches, kernel })
    }

    fn totals(&self, path: &str) -> Option<&CgroupTotals> {
        let found = self.reading.cgroups.iter().find(|cgroup| cgroup.path.as_deref() == Some(path))?;
        Some(&found.totals)
    }

    /// The tasks' own counts, and the idle tasks' as the switch program saw them.
    fn all_switches(&self) -> Option<f64> {
        let tasks = self.reading.cgroups.iter().map(|cgroup| cgroup.totals.switches());
        Some(tasks.sum::<u64>() as f64 + self.reading.idle_switches? as f64)
    }

    fn kernel(&self, path: &str) -> (CgroupCounters, TaskCounters) {
        self.kernel.get(path).copied().unwrap_or_default()
    }

    fn tasks(&self, group: &Group) -> TaskCounters {
        let all = group.own_paths().into_iter().map(|path| self.kernel(path).1);
        all.fold(TaskCounters::default(), TaskCounters::plus)
    }
}

/// Both moments, and the growth from one to the other.
struct Window<'a> {
    before: &'a Moment,
    after: &'a Moment,
}

impl Window<'_> {
    /// Seconds in a state.
    fn time(&self, path: &str, state: SchedState) -> Option<f64> {
        let after = self.after.totals(path)?.times.get(state)?;
        let before = self.before.totals(path).and_then(|totals| totals.times.get(state)).unwrap_or(0);
        Some((after as f64 - before as f64) / 1e9)
    }

    fn times(&self, path: &str, states: &[SchedState]) -> f64 {
        states.iter().filter_map(|state| self.time(path, *state)).sum()
    }

    fn count(&self, path: &str, of: fn(&CgroupTotals) -> u64) -> f64 {
        let at = |moment: &Moment| moment.totals(path).map_or(0, of) as f64;
        at(self.after) - at(self.before)
    }

    /// Growth of a cgroup's own counter, in seconds.
    fn kernel(&self, path: &str, of: fn(&CgroupCounters) -> Option<u64>) -> Option<f64> {
        let after = of(&self.after.kernel(path).0)?;
        let before = of(&self.before.kernel(path).0).unwrap_or(0);
        Some((after as f64 - before as f64) / 1e9)
    }

    /// Seconds from one to the other.
    fn length(&self) -> f64 {
        self.after.reading.at.since(self.before.reading.at) as f64 / 1e9
    }

    /// Growth of the tasks' counters, wherever they are now.
    fn tasks(&self, group: &Group, of: fn(&TaskCounters) -> u64) -> f64 {
        of(&self.after.tasks(group)) as f64 - of(&self.before.tasks(group)) as f64
    }
}

/// Every row.
pub(super) fn compare(before: &Moment, after: &Moment, groups: &[Group], offers: Offers) -> Vec<Row> {
    let window = Window { before, after };
    let mut rows = Vec::new();
    for group in groups {
        of_group(&window, group, offers, &mut rows);
    }
    // from text the host's own cgroups are known only as far as their tasks switched since we look
    if !offers.is_by_events() {
        others(&window, groups, &mut rows);
    }
    let lost = |(reason, count): (LossReason, u64)| {
        let more = count - before.reading.losses.get(reason);
        (more > 0).then(|| format!("{more} {}", reason.name()))
    };
    let lost: Vec<String> = after.reading.losses.iter().filter_map(lost).collect();
    if !lost.is_empty() {
        rows.push(Row::not_compared("host", "what the events did not hold", lost.join(", ")));
    }
    let what = "all switches, the idle tasks' included (/proc/stat ctxt)";
    let ours = after.all_switches().zip(before.all_switches());
    rows.push(match (after.switches.zip(before.switches), ours) {
        (Some((last, first)), Some((after, before))) => {
            let middle = |(before, after): (u64, u64)| (before as f64 + after as f64) / 2.0;
            // how far it went on while all tasks were read: long where our own reader waits for a CPU
            let meanwhile = (last.1 - last.0 + first.1 - first.0) as f64 / 2.0;
            let bound = Bound { floor: row::ALL_SWITCHES.floor + meanwhile, ..row::ALL_SWITCHES };
            Row::compared("host", what, "switches", (after - before, middle(last) - middle(first)), bound)
        }
        (None, _) => Row::not_compared("host", what, "/proc/stat has no ctxt"),
        (_, None) => Row::not_compared("host", what, "the idle tasks' are not counted from single events"),
    });
    rows
}

fn of_group(window: &Window<'_>, group: &Group, offers: Offers, rows: &mut Vec<Row>) {
    let whose = group.part.whose;
    if let Some(why) = &group.not_played {
        return rows.push(Row::not_compared(whose, "all of it", why.as_str()));
    }
    let paths = group.own_paths();
    let by_events = offers.is_by_events();
    let count = window.tasks(group, |tasks| tasks.voluntary) + window.tasks(group, |tasks| tasks.involuntary);
    let time = |bound: Bound| if by_events { bound.of_events(count, window.length()) } else { bound };
    match group.part.kind {
        Kind::Short if by_events => {
            let why = "threads that are gone before they were looked at count for the host";
            return rows.push(Row::not_compared(whose, RUNNING, why));
        }
        Kind::Short => return running(window, whose, &paths, (row::RUNNING_OF_SHORT, false), rows),
        _ => running(window, whose, &paths, (time(row::RUNNING), by_events), rows),
    }
    let sum = |of: &dyn Fn(&str) -> f64| paths.iter().map(|path| of(path)).sum::<f64>();
    let waiting = sum(&|path| window.times(path, &[SchedState::Waiting, SchedState::Throttled]));
    let delay = window.tasks(group, |tasks| tasks.delay_ns) / 1e9;
    rows.push(Row::compared(whose, "waiting + throttled (schedstat)", "s", (waiting, delay), time(row::WAITING)));
    switches(window, group, by_events, rows);
    let lived = sum(&|path| window.times(path, &SchedState::ALL));
    let length = window.length() * window.after.tasks(group).tasks as f64;
    rows.push(Row::compared(whose, "all states together (time passed)", "s", (lived, length), row::LIFETIME));
    if matches!(group.part.kind, Kind::Stopped | Kind::Traced) {
        let ours = window.times(&group.path, &[SchedState::Stopped]);
        let pair = (ours, group.stopped.nearest(ours));
        rows.push(Row::compared(whose, "stopped (from our stop to our go)", "s", pair, time(row::STOPPED)));
    }
    if group.part.quota_percent.is_some() {
        throttled(window, group, offers, rows);
    }
}

/// The tasks' counts; from single events only both together, since that does not always tell them apart.
fn switches(window: &Window<'_>, group: &Group, by_events: bool, rows: &mut Vec<Row>) {
    let ours = |of: fn(&CgroupTotals) -> u64| group.own_paths().iter().map(|path| window.count(path, of)).sum::<f64>();
    let voluntary = (ours(|totals| totals.voluntary), window.tasks(group, |tasks| tasks.voluntary));
    let involuntary = (ours(|totals| totals.involuntary), window.tasks(group, |tasks| tasks.involuntary));
    let whose = group.part.whose;
    if by_events {
        let both = (voluntary.0 + involuntary.0, voluntary.1 + involuntary.1);
        let what = "voluntary and involuntary together (status)";
        return rows.push(Row::compared(whose, what, "switches", both, row::TASK_SWITCHES.of_events_switches()));
    }
    rows.push(Row::compared(whose, "voluntary (status)", "switches", voluntary, row::TASK_SWITCHES));
    rows.push(Row::compared(whose, "involuntary (status)", "switches", involuntary, row::TASK_SWITCHES));
}

/// Of each cgroup, and of both together where a task moves between them.
fn running(window: &Window<'_>, whose: &str, paths: &[&str], (bound, by_events): (Bound, bool), rows: &mut Vec<Row>) {
    let pairs: Option<Vec<(f64, f64)>> = paths
        .iter()
        .map(|path| {
            let kernel = window.kernel(path, |cgroup| cgroup.usage_ns)?;
            Some((window.times(path, &[SchedState::Running]), kernel))
        })
        .collect();
    let Some(pairs) = pairs else {
        return rows.push(Row::not_compared(whose, RUNNING, "no usage in the cgroup's files"));
    };
    let both = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    rows.push(Row::compared(whose, RUNNING, "s", both, bound));
    if pairs.len() > 1 {
        for pair in pairs {
            let what = "running, in one of both cgroups";
            if by_events {
                rows.push(Row::not_compared(whose, what, "from single events a move is seen at the next look"));
                continue;
            }
            rows.push(Row::compared(whose, what, "s", pair, row::RUNNING_OF_MOVED));
        }
    }
}

fn throttled(window: &Window<'_>, group: &Group, offers: Offers, rows: &mut Vec<Row>) {
    let whose = group.part.whose;
    let owner = group.quota_owner.as_ref().unwrap_or(&group.path);
    let what = "throttled (cpu.stat)";
    if let Some(why) = &group.no_quota {
        rows.push(Row::not_compared(whose, what, why.as_str()));
        return;
    }
    if offers.throttle_source == "none" {
        rows.push(Row::not_compared(whose, what, "not measured on this kernel; waiting includes it"));
        return;
    }
    let allowed = window.length() * group.part.quota_percent.unwrap_or(100) as f64 / 100.0;
    let ran = window.times(&group.path, &[SchedState::Running]);
    if let Some(name) = ext_scheduler().filter(|ext| ext.is_active).map(|ext| ext.name)
        && ran > allowed * NOT_ENFORCED
    {
        let why = format!("the scheduler {name} does not enforce it: ran {ran:.2} s where {allowed:.2} s are allowed");
        return rows.push(Row::not_compared(whose, what, why));
    }
    // each group with a quota has one thread: of several on one run queue each waits out the same stay, which
    // the kernel counts once
    let ours = group.own_paths().iter().map(|path| window.times(path, &[SchedState::Throttled])).sum();
    rows.push(match window.kernel(owner, |cgroup| cgroup.throttled_ns) {
        Some(kernel) => {
            let bound = if group.part.has_two() { row::THROTTLED_OF_MOVED } else { row::THROTTLED };
            Row::compared(whose, what, "s", (ours, kernel), bound)
        }
        None => Row::not_compared(whose, what, "no throttled time in cpu.stat"),
    });
    // the clock of a group stands still while its task is in the other
    let clock = window.kernel(&group.path, |cgroup| cgroup.throttled_clock_ns).filter(|_| !group.part.has_two());
    if let Some(kernel) = clock {
        rows.push(Row::compared(whose, "throttled (cpu.stat.local)", "s", (ours, kernel), row::THROTTLED_CLOCK));
    }
}

/// The host's own cgroups that used most, those without any below them.
fn others(window: &Window<'_>, groups: &[Group], rows: &mut Vec<Row>) {
    let all = window.before.reading.cgroups.iter().chain(&window.after.reading.cgroups);
    let paths: HashSet<&str> = all.filter_map(|cgroup| cgroup.path.as_deref()).collect();
    let is_leaf =
        |path: &str| !paths.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')));
    // v1 has in a cgroup's usage also that of cgroups below it which came and went: one without tasks of its own is
    // no leaf
    let has_tasks = |path: &str| [window.before, window.after].iter().all(|moment| moment.kernel(path).1.tasks > 0);
    let is_ours = |path: &str| groups.iter().any(|group| group.paths().any(|own| own == path));
    let mut used: Vec<(f64, &str)> = paths
        .iter()
        .filter(|path| **path != "/" && is_leaf(path) && !is_ours(path) && has_tasks(path))
        .filter_map(|path| Some((window.kernel(path, |cgroup| cgroup.usage_ns)?, *path)))
        .filter(|(seconds, _)| *seconds * 1e9 > OTHERS_LEAST_NS as f64)
        .collect();
    used.sort_by(|left, right| right.0.total_cmp(&left.0));
    for (kernel, path) in used.into_iter().take(OTHERS) {
        let ours = window.times(path, &[SchedState::Running]);
        // they do not rest at the readings: both sides may be a tick apart on each CPU
        rows.push(Row::compared(path, RUNNING, "s", (ours, kernel), row::BUSY));
    }
}
