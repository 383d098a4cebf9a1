//! This host's numbers held against its own counters, under a load of our own that ends with the measurement.
//!
//! Every group of the load has a cgroup of its own and rests at both readings, so that counts must be equal and
//! times differ by no more than clocks do.

mod compare;
mod kernel;
mod row;
mod stage;
mod worker;

use std::time::{Duration, Instant};

pub use row::{Outcome, Row};
pub use worker::{Habit, SUBCOMMAND, work};

use self::compare::{Moment, compare};
use self::kernel::Accounts;
use self::stage::Stage;
use self::worker::{Worker, allowed_cpus};
use crate::receivers::sched::{Memory, Meter, SchedSettings};

/// Between two moves of the worker that changes its cgroup.
const MOVE_EVERY: Duration = Duration::from_millis(500);
/// Counters that have not changed for so long are at rest: longer than a quota period.
const REST: Duration = Duration::from_millis(150);
/// The longest wait for rest.
const REST_MAX: Duration = Duration::from_secs(5);

/// One group of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// As it is told.
    pub whose: &'static str,
    /// Its cgroups, named in the stage; the second is where it is moved to and fro, or what lies in the first.
    pub name: &'static str,
    habits: &'static [Habit],
    cpu: Option<usize>,
    /// Of one CPU.
    quota_percent: Option<u64>,
    pub kind: Kind,
}

/// How a group's cgroups lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One.
    Plain,
    /// Tasks in it end before the reading.
    Short,
    /// A second one beside it, and moves between both.
    Moved,
    /// The quota is its parent's.
    Inside,
}

const fn part(whose: &'static str, name: &'static str, habits: &'static [Habit], cpu: Option<usize>) -> Part {
    Part { whose, name, habits, cpu, quota_percent: None, kind: Kind::Plain }
}

/// The load. CPU numbers count the CPUs that we may use, and wrap where there are fewer.
const LOAD: [Part; 9] = [
    part("two burners on one CPU", "burners", &[Habit::Burn, Habit::Burn], Some(0)),
    part("a 1 ms sleeper", "sleeper", &[Habit::Sleep], None),
    part("two threads on a pipe", "pipe", &[Habit::Pipe], Some(1)),
    part("renice and new CPUs", "restless", &[Habit::Restless], None),
    Part { kind: Kind::Short, ..part("short threads", "threads", &[Habit::Threads], None) },
    Part { kind: Kind::Short, ..part("short processes", "processes", &[Habit::Processes], None) },
    Part { kind: Kind::Moved, ..part("moved between cgroups", "moved", &[Habit::Burn], Some(1)) },
    Part { quota_percent: Some(20), ..part("quota of 20 %", "quota", &[Habit::Burn], Some(1)) },
    Part {
        quota_percent: Some(30),
        kind: Kind::Inside,
        ..part("quota of 30 % on the parent", "parent", &[Habit::Burn], Some(0))
    },
];

/// A group that was set up.
pub(super) struct Group {
    pub part: Part,
    /// Where its tasks are.
    pub path: String,
    /// Where they are moved to and fro, or whose quota it is.
    pub other: Option<String>,
    /// Why its quota could not be set.
    pub no_quota: Option<String>,
    workers: Vec<Worker>,
}

/// Measures for so many seconds.
///
/// # Errors
/// Where the measurement itself cannot be made.
pub fn verify(settings: &SchedSettings, seconds: u32) -> Result<Vec<Row>, String> {
    let hierarchy = crate::receivers::sched::cpu_hierarchy(std::path::Path::new(&settings.root_path))?;
    let mount = hierarchy.mount.ok_or("no cgroup hierarchy with the cpu controller is mounted here")?;
    let accounts = Accounts::find(mount, hierarchy.is_v2);
    let mut memory = Memory::default();
    let mut meter = Meter::start(&mut memory, settings)?;
    let length = Duration::from_secs(u64::from(seconds.max(1)));
    let mut stage = match Stage::make(&accounts, hierarchy.is_v2) {
        Ok(stage) => stage,
        Err(why) => return without_load(&mut meter, &accounts, length, why),
    };
    let mut groups = Vec::new();
    for part in LOAD {
        groups.push(set_up(&mut stage, part, length)?);
    }
    for worker in groups.iter_mut().flat_map(|group| &mut group.workers) {
        worker.says("ready")?;
    }
    rest(&accounts, &groups);
    let before = Moment::take(&mut meter, &accounts, &groups)?;
    run(&stage, &mut groups, length)?;
    rest(&accounts, &groups);
    let after = Moment::take(&mut meter, &accounts, &groups)?;
    let rows = compare(&before, &after, &groups, meter.offers());
    // the workers end before their cgroups go
    drop(groups);
    drop(stage);
    Ok(rows)
}

/// Where no cgroup can be made, what runs on this host anyway is measured.
fn without_load(meter: &mut Meter<'_>, accounts: &Accounts, length: Duration, why: String) -> Result<Vec<Row>, String> {
    let before = Moment::take(meter, accounts, &[])?;
    std::thread::sleep(length);
    let after = Moment::take(meter, accounts, &[])?;
    let mut rows = compare(&before, &after, &[], meter.offers());
    rows.push(Row::not_compared("the load of our own", "all of it", why));
    Ok(rows)
}

fn set_up(stage: &mut Stage, part: Part, length: Duration) -> Result<Group, String> {
    let first = stage.group(part.name)?;
    let (path, other) = match part.kind {
        Kind::Plain | Kind::Short => (first, None),
        Kind::Moved => (first, Some(stage.group(&format!("{}-away", part.name))?)),
        Kind::Inside => (stage.group(&format!("{}/inside", part.name))?, Some(first)),
    };
    let owner = if part.kind == Kind::Inside { other.as_ref().unwrap_or(&path) } else { &path };
    let no_quota = part.quota_percent.and_then(|percent| stage.limit(owner, percent).err());
    let cpus = allowed_cpus();
    let cpu = part.cpu.and_then(|at| cpus.get(at % cpus.len().max(1))).copied();
    let mut workers = Vec::new();
    for habit in part.habits {
        let worker = Worker::start(*habit, length, cpu).map_err(|error| format!("a worker cannot start: {error}"))?;
        stage.enter(&path, worker.pid())?;
        workers.push(worker);
    }
    Ok(Group { part, path, other, no_quota, workers })
}

/// Lets all begin, moves one to and fro, waits for all to end.
fn run(stage: &Stage, groups: &mut [Group], length: Duration) -> Result<(), String> {
    for worker in groups.iter_mut().flat_map(|group| &mut group.workers) {
        worker.go()?;
    }
    let end = Instant::now() + length;
    let mut is_away = false;
    while Instant::now() < end {
        std::thread::sleep(MOVE_EVERY);
        is_away = !is_away;
        for group in groups.iter().filter(|group| group.part.kind == Kind::Moved) {
            let to = group.other.as_ref().filter(|_| is_away).unwrap_or(&group.path);
            for worker in &group.workers {
                stage.enter(to, worker.pid())?;
            }
        }
    }
    groups.iter_mut().flat_map(|group| &mut group.workers).try_for_each(|worker| worker.says("done"))
}

/// Waits until no counter of the load moves.
fn rest(accounts: &Accounts, groups: &[Group]) {
    let all = || {
        let paths = groups.iter().flat_map(|group| [Some(&group.path), group.other.as_ref()].into_iter().flatten());
        paths.map(|path| (accounts.tasks(path), accounts.read(path))).collect::<Vec<_>>()
    };
    let give_up = Instant::now() + REST_MAX;
    let mut last = all();
    while Instant::now() < give_up {
        std::thread::sleep(REST);
        let now = all();
        if now == last {
            return;
        }
        last = now;
    }
}
