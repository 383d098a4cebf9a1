//! This host's numbers held against its own counters, under a load of our own that ends with the measurement.
//!
//! Every group of the load has a cgroup of its own, most are one task, and all rest at both readings, so that counts
//! must be equal and times differ by no more than clocks do. Start reading at [`load`].

mod compare;
mod deed;
mod habit;
mod kernel;
mod load;
mod row;
mod stage;
mod unrest;
mod worker;

use std::time::{Duration, Instant};

pub use habit::{Habit, SUBCOMMAND, work};
pub use row::{Outcome, Row};

use self::compare::{Moment, compare};
use self::habit::allowed_cpus;
use self::kernel::Accounts;
use self::load::{Kind, LOAD, Part};
use self::stage::Stage;
use self::worker::Worker;
use crate::receivers::sched::{Memory, Meter, SchedSettings};

/// Counters that have not changed for so long are at rest: longer than a quota period.
const REST: Duration = Duration::from_millis(150);
/// The longest wait for rest.
const REST_MAX: Duration = Duration::from_secs(5);

/// A group that was set up.
struct Group {
    pub part: Part,
    /// Where its tasks are, or begin.
    pub path: String,
    /// Where else its tasks are at times.
    pub away: Option<String>,
    /// Whose quota it is, where it is another's.
    pub quota_owner: Option<String>,
    /// Why its quota could not be set.
    pub no_quota: Option<String>,
    /// Why it was not played here.
    pub not_played: Option<String>,
    /// How long it was stopped by us.
    pub stopped: deed::Stops,
    workers: Vec<Worker>,
}

impl Group {
    /// Every cgroup that it has to do with.
    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        [Some(&self.path), self.away.as_ref(), self.quota_owner.as_ref()].into_iter().flatten()
    }

    /// Those where its tasks are.
    pub(super) fn own_paths(&self) -> Vec<&str> {
        [Some(&self.path), self.away.as_ref()].into_iter().flatten().map(String::as_str).collect()
    }
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
    for group in groups.iter_mut().filter(|group| group.not_played.is_none()) {
        group.not_played = group.workers.iter_mut().find_map(|worker| worker.gets_ready().transpose()).transpose()?;
    }
    rest(&accounts, &groups);
    let before = Moment::take(&mut meter, &accounts, &groups)?;
    run(&mut stage, &mut groups, length, &mut meter)?;
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
    let (first, second) = (part.name.to_owned(), format!("{}/inside", part.name));
    let outer = stage.group(&first)?;
    let (mut away, mut quota_owner, mut not_played) = (None, None, None);
    let path = match part.kind {
        Kind::Moved => {
            away = Some(stage.group(&format!("{first}-away"))?);
            outer
        }
        Kind::ThreadMoved => {
            let both = [stage.group(&second)?, stage.group(&format!("{first}/away"))?];
            not_played = stage.be_threaded(&both).err();
            away = Some(both[1].clone());
            both[0].clone()
        }
        Kind::Inside | Kind::Late => {
            if part.kind == Kind::Late {
                not_played = stage.delegate(&outer).err();
            }
            quota_owner = Some(outer);
            stage.group(&second)?
        }
        Kind::Frozen => {
            not_played = stage.freeze(&outer, false).err();
            outer
        }
        Kind::Plain | Kind::Short | Kind::Policies | Kind::Stopped | Kind::Traced => outer,
    };
    let owner = quota_owner.as_ref().unwrap_or(&path);
    let no_quota = part.quota_percent.and_then(|percent| stage.limit(owner, percent).err());
    let cpus = allowed_cpus();
    let cpu = part.cpu.and_then(|at| cpus.get(at % cpus.len().max(1))).copied();
    if part.kind == Kind::Policies || part.habits.contains(&Habit::Fifo) {
        stage.allow_realtime(&path);
    }
    let mut workers = Vec::new();
    for habit in if not_played.is_none() { part.habits } else { &[] } {
        let worker = Worker::start(*habit, length, cpu).map_err(|error| format!("a worker cannot start: {error}"))?;
        stage.enter(&path, worker.pid())?;
        workers.push(worker);
    }
    let stopped = deed::Stops::default();
    Ok(Group { part, path, away, quota_owner, no_quota, not_played, stopped, workers })
}

/// Lets all begin, does to them what is to be done, waits for all to end.
fn run(stage: &mut Stage, groups: &mut [Group], length: Duration, meter: &mut Meter<'_>) -> Result<(), String> {
    let played = |group: &&mut Group| group.not_played.is_none();
    for worker in groups.iter_mut().filter(played).flat_map(|group| &mut group.workers) {
        worker.go()?;
    }
    deed::play(stage, groups, length, meter)?;
    groups.iter_mut().filter(played).flat_map(|group| &mut group.workers).try_for_each(|worker| worker.says("done"))
}

/// Waits until the load sleeps and no counter of it moves: one that has waited for long for a CPU moves none.
fn rest(accounts: &Accounts, groups: &[Group]) {
    let all = || {
        groups.iter().flat_map(Group::paths).map(|path| (accounts.tasks(path), accounts.read(path))).collect::<Vec<_>>()
    };
    let give_up = Instant::now() + REST_MAX;
    let mut last = all();
    while Instant::now() < give_up {
        std::thread::sleep(REST);
        let now = all();
        if now == last && now.iter().all(|(tasks, _)| tasks.awake == 0) {
            return;
        }
        last = now;
    }
}
