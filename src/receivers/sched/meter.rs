//! A measurement without pipelines: the receiver's own programs and totals, read when asked. For `doctor`.
//!
//! Refuses to know: what a number is compared with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cgroups::{CgroupPaths, Hierarchy};
use super::driver::{Driver, Load, Storage, ThrottleSource};
use super::events::MeasuredEvents;
use super::settings::SchedSettings;
use super::start;
use super::totals::{Measured, Totals};
use crate::model::{BootNs, CgroupTotals, Losses, Wants};

/// Memory that a [`Meter`] borrows.
#[derive(Default)]
pub struct Memory(Storage);

/// What this kernel offers, as its BTF tells and as what was loaded shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// By what is measured: `tp_btf`, `tracepoint`, `tracefs`.
    pub backend: &'static str,
    /// How throttled time is told from waiting: `kernel`, `hook`, `none`.
    pub throttle_source: &'static str,
    /// Stolen time is told apart.
    pub stolen: bool,
    /// Totals come from the open-coded task iterator, which sees every task from any pid namespace.
    pub open_iterator: bool,
}

impl Offers {
    /// Measured from single events, without the kernel's own counters.
    pub fn is_by_events(&self) -> bool {
        self.backend != "tp_btf"
    }
}

/// Where the cgroups are that totals are kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuHierarchy {
    /// Pure cgroup v2.
    pub is_v2: bool,
    /// Where the hierarchy with the cpu controller is mounted.
    pub mount: Option<PathBuf>,
}

/// One cgroup at a reading.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupReading {
    /// Its path below the mount, where it was found.
    pub path: Option<Arc<str>>,
    /// Its own tasks' totals; those of cgroups below it are not in them.
    pub totals: CgroupTotals,
}

/// Everything at one moment, cumulative since the start of the meter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When.
    pub at: BootNs,
    /// Every cgroup that has a slot.
    pub cgroups: Vec<CgroupReading>,
    /// Context switches of all CPUs that the program saw, to and from the idle tasks too.
    pub switches: u64,
    /// Those of them that left an idle task, where they are counted.
    pub idle_switches: Option<u64>,
    /// Tasks that were read.
    pub tasks: u32,
    /// What of the events could not be used.
    pub losses: Losses,
}

/// What measures: the programs, loaded and attached, or single events. Dropping it ends it.
pub struct Meter<'a>(Way<'a>);

enum Way<'a> {
    Programs(Box<Programs<'a>>),
    Events(MeasuredEvents),
}

struct Programs<'a> {
    driver: Driver<'a>,
    totals: Totals,
    measured: Measured,
    hierarchy: Hierarchy,
}

/// Finds the hierarchy as the receiver does.
///
/// # Errors
/// Where /proc cannot be read.
pub fn cpu_hierarchy(root: &Path) -> Result<CpuHierarchy, String> {
    let found = Hierarchy::find(root).map_err(|error| format!("/proc cannot be read: {error}"))?;
    Ok(CpuHierarchy { is_v2: found.v2, mount: found.mount.map(|mount| mount.point) })
}

impl<'a> Meter<'a> {
    /// Begins with events where the settings say so, else loads and attaches what metrics alone need.
    ///
    /// # Errors
    /// As the receiver's start: with the cause and the remedy.
    pub fn start(memory: &'a mut Memory, settings: &SchedSettings) -> Result<Self, String> {
        if settings.backend.is_by_events() {
            return MeasuredEvents::start(settings).map(|events| Self(Way::Events(events)));
        }
        let hierarchy = Hierarchy::find(Path::new(&settings.root_path))
            .map_err(|error| format!("/proc cannot be read: {error}"))?;
        let load: Load = start::load(settings, &settings.select.resolve(), &hierarchy, Wants::default())
            .map_err(|error| error.to_string())?;
        let driver = Driver::start(&mut memory.0, &load).map_err(|error| error.to_string())?;
        let measured = Measured {
            stolen: driver.facts().stolen,
            throttled: driver.throttle() != ThrottleSource::None,
            run: false,
            block: false,
        };
        let mut programs = Box::new(Programs { driver, totals: Totals::default(), measured, hierarchy });
        programs.read()?;
        Ok(Self(Way::Programs(programs)))
    }

    /// What the kernel offers.
    pub fn offers(&self) -> Offers {
        match &self.0 {
            Way::Programs(programs) => Offers {
                backend: "tp_btf",
                throttle_source: programs.driver.throttle().name(),
                stolen: programs.driver.facts().stolen,
                open_iterator: programs.driver.facts().task_iterator,
            },
            Way::Events(events) => {
                Offers { backend: events.backend(), throttle_source: "none", stolen: false, open_iterator: false }
            }
        }
    }

    /// Reads every counter now.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&mut self) -> Result<Reading, String> {
        match &mut self.0 {
            Way::Programs(programs) => programs.read(),
            Way::Events(events) => events.read(),
        }
    }
}

impl Programs<'_> {
    fn read(&mut self) -> Result<Reading, String> {
        let args = self.driver.collect().map_err(|error| error.to_string())?;
        let cpus: Vec<_> = (0..self.driver.cpus()).map(|cpu| self.driver.cpu(cpu)).collect();
        // cgroups come and go between readings, and this runs seldom: a walk is simpler than their records
        let mut paths = CgroupPaths::default();
        if let Some(mount) = &self.hierarchy.mount {
            paths.walk(mount);
        }
        let read = self.totals.read(&self.driver, &args, self.measured);
        Ok(Reading {
            at: BootNs(args.boot),
            cgroups: read
                .into_iter()
                .map(|(_, key, totals)| CgroupReading { path: paths.get(key.id), totals })
                .collect(),
            switches: cpus.iter().map(|cpu| cpu.switches).sum(),
            idle_switches: Some(cpus.iter().map(|cpu| cpu.idle_switches).sum()),
            tasks: args.tasks,
            losses: Losses::default(),
        })
    }
}
