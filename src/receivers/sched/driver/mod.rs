//! The kernel's edge: loads and attaches the programs, reads their maps, drains their ring. The only folder
//! with `unsafe`, each with its reason. Refuses to know what a record means.

mod error;
mod events;
mod facts;
mod follow;
mod layout;
mod memory;
mod messages;
mod shared;
mod skeleton;
mod throttling;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder};

pub(super) use error::DriverError;
pub(super) use events::{EventPrograms, EventRing};
pub(super) use facts::KernelFacts;
use memory::{MappedArray, bytes_of};
pub(super) use shared::SharedContexts;
pub(super) use skeleton::types::{collect_args, context_place, cpu_state, settings, slot, slot_cpu, slot_slices};
use skeleton::{OpenSchedSkel, SchedSkel, SchedSkelBuilder};
pub(crate) use throttling::ThrottleSource;
use throttling::Way;

/// Of each switch, what the program does not time of itself: the way into it, and the look at the next task. As `make
/// bench` has it for metrics alone, of which the timed part is small.
const UNTIMED_NS: u64 = 40;

/// Sizes and settings of one load.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// What the programs read; `cpus` and `slots` size the maps, `stolen` and `throttle_clock` follow from the facts.
    pub settings: settings,
    /// Ring size in bytes, a power of two of pages.
    pub ring_bytes: u32,
    /// A BTF file where the kernel shows none.
    pub btf: Option<PathBuf>,
}

/// Memory for the opened object, one place for each attempt; outlives the driver that borrows it.
#[derive(Default)]
pub(crate) struct Storage {
    places: [Option<MaybeUninit<OpenObject>>; throttling::ATTEMPTS],
}

/// The loaded and attached programs. Dropping it detaches them.
pub(crate) struct Driver<'a> {
    skel: SchedSkel<'a>,
    _links: Vec<Link>,
    /// The task iterator, where the open-coded one is not to be had.
    iterator: Option<Link>,
    slots: MappedArray<slot>,
    slot_cpus: MappedArray<slot_cpu>,
    slot_slices: MappedArray<slot_slices>,
    cpus: MappedArray<cpu_state>,
    /// One byte for each remainder of a process id, eight in a word, and what else is told while they run.
    orders: MappedArray<u64>,
    facts: KernelFacts,
    throttle: ThrottleSource,
}

impl<'a> Driver<'a> {
    /// Loads and attaches; fails while the caller waits. What this kernel lacks is decided by its BTF and by
    /// what loads, never by its version.
    ///
    /// # Errors
    /// With the cause and the remedy in its message.
    pub(crate) fn start(storage: &'a mut Storage, load: &Load) -> Result<Self, DriverError> {
        messages::listen();
        let btf = match &load.btf {
            Some(file) => Btf::from_path(file).map_err(|error| DriverError::bad_btf(file, &error))?,
            None => Btf::from_vmlinux().map_err(|error| DriverError::no_btf(&error))?,
        };
        let facts = KernelFacts::read(&btf);
        if !facts.task_storage {
            return Err(DriverError::no_task_storage());
        }
        if facts.ring_sleeps {
            return Err(DriverError::ring_sleeps());
        }
        let mut refusal = None;
        for (place, way) in storage.places.iter_mut().zip(Way::possible(facts)) {
            match Self::attempt(place.insert(MaybeUninit::uninit()), load, facts, way) {
                Ok(driver) => return Ok(driver),
                Err(error) => {
                    tracing::debug!("sched: throttled time by {way:?}: {error}");
                    refusal = Some(error);
                }
            }
        }
        Err(refusal.unwrap_or_else(|| DriverError::other("nothing was tried")))
    }

    fn attempt(
        place: &'a mut MaybeUninit<OpenObject>,
        load: &Load,
        facts: KernelFacts,
        way: Way,
    ) -> Result<Self, DriverError> {
        let mut builder = SchedSkelBuilder::default();
        if let Some(file) = &load.btf {
            builder.obj_builder.btf_custom_path(file).map_err(|error| DriverError::bad_btf(file, &error))?;
        }
        let mut open = builder.open(place).map_err(|error| DriverError::load(&error))?;
        let mut chosen = load.settings;
        chosen.stolen = u8::from(facts.stolen);
        chosen.throttle_clock = u8::from(way.source() == ThrottleSource::Kernel);
        chosen.throttle_hook = u8::from(way.source() == ThrottleSource::Hook);
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.settings = chosen;
        }
        choose_programs(&mut open, &chosen, facts, way);
        size_maps(&mut open, &chosen, load.ring_bytes).map_err(|error| DriverError::load(&error))?;
        let skel = open.load().map_err(|error| DriverError::load(&error))?;
        Self::attach(skel, facts, &chosen, way)
    }

    fn attach(skel: SchedSkel<'a>, facts: KernelFacts, chosen: &settings, way: Way) -> Result<Self, DriverError> {
        for index in (1..chosen.slots).rev() {
            skel.maps
                .free_slots
                .update(&[], &index.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| DriverError::load(&error))?;
        }
        let links = attach_programs(&skel, facts, chosen, way).map_err(|error| DriverError::attach(&error))?;
        let iterator = if facts.task_iterator {
            None
        } else {
            Some(skel.progs.collect_iter.attach().map_err(|error| DriverError::attach(&error))?)
        };
        let entries = (chosen.slots * chosen.cpus) as usize;
        let slots = MappedArray::new(skel.maps.slots.as_fd(), chosen.slots as usize);
        let slot_cpus = MappedArray::new(skel.maps.slot_cpus.as_fd(), entries);
        let slot_slices = MappedArray::new(skel.maps.slot_slices.as_fd(), slices(chosen) as usize);
        let cpus = MappedArray::new(skel.maps.cpus.as_fd(), chosen.cpus as usize);
        let orders = MappedArray::new(skel.maps.orders.as_fd(), follow::ORDERS_WORDS);
        let mapped = |error: std::io::Error| DriverError::map(&error);
        Ok(Self {
            slots: slots.map_err(mapped)?,
            slot_cpus: slot_cpus.map_err(mapped)?,
            slot_slices: slot_slices.map_err(mapped)?,
            cpus: cpus.map_err(mapped)?,
            orders: orders.map_err(mapped)?,
            skel,
            _links: links,
            iterator,
            facts,
            throttle: way.source(),
        })
    }

    /// How throttled time is told from waiting.
    pub(crate) fn throttle(&self) -> ThrottleSource {
        self.throttle
    }

    /// What the kernel offers.
    pub(super) fn facts(&self) -> KernelFacts {
        self.facts
    }

    /// Reads the counters of every task into the slots.
    ///
    /// # Errors
    /// What the kernel says to the run.
    pub(crate) fn collect(&self) -> Result<collect_args, DriverError> {
        let failed = |error: &libbpf_rs::Error| DriverError::collect(error);
        if let Some(link) = &self.iterator {
            let mut tasks = Iter::new(link).map_err(|error| failed(&error))?;
            let read = std::io::copy(&mut tasks, &mut std::io::sink());
            read.map_err(|error| DriverError::other(format!("the task iterator broke off: {error}")))?;
            return Ok(self.skel.maps.bss_data.as_deref().map(|bss| bss.iter_args).unwrap_or_default());
        }
        let mut args = collect_args::default();
        let input = ProgramInput { context_in: Some(bytes_of(&mut args)), ..ProgramInput::default() };
        self.skel.progs.collect.test_run(input).map_err(|error| failed(&error))?;
        Ok(args)
    }

    /// The ring, with `consume` called for each record.
    ///
    /// # Errors
    /// What libbpf says.
    pub(super) fn ring<'r>(&'r self, consume: impl FnMut(&[u8]) + 'r) -> Result<Ring<'r>, DriverError> {
        Ring::of(&self.skel.maps.ring, consume)
    }

    /// A slot's totals.
    pub(super) fn slot(&self, index: usize) -> slot {
        self.slots.get(index)
    }

    /// What the switch program added on one CPU.
    pub(super) fn slot_cpu(&self, index: usize, cpu: usize) -> slot_cpu {
        self.slot_cpus.get(index * self.cpus.len() + cpu)
    }

    /// Its run and block histograms on one CPU; zero where they are not asked for.
    pub(crate) fn slot_slices(&self, index: usize, cpu: usize) -> slot_slices {
        self.slot_slices.get(index * self.cpus.len() + cpu)
    }

    /// What a CPU counted.
    pub(super) fn cpu(&self, index: usize) -> cpu_state {
        self.cpus.get(index)
    }

    /// Switch-outs that the program was shown since it was attached, the idle tasks' apart.
    pub(super) fn switches(&self) -> u64 {
        (0..self.cpus()).map(|cpu| self.cpu(cpu)).map(|cpu| cpu.switches - cpu.idle_switches).sum()
    }

    /// What the switch program took of the CPUs since it was attached, by a sample of its runs; ns.
    pub(super) fn own_ns(&self) -> u64 {
        let cpus = (0..self.cpus()).map(|cpu| self.cpu(cpu)).filter(|cpu| cpu.own_samples > 0);
        cpus.map(|cpu| (cpu.own_ns / cpu.own_samples + UNTIMED_NS) * cpu.switches).sum()
    }

    /// Times that the kernel skipped the switch program, since it was running already; 0 where that is not told.
    pub(super) fn skipped(&self) -> u64 {
        let progs = &self.skel.progs;
        let switch = if self.facts.switch_passes_state { &progs.sched_switch } else { &progs.sched_switch_3 };
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", switch.as_fd().as_raw_fd()));
        let info = info.unwrap_or_default();
        let count = info.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok());
        count.unwrap_or(0)
    }

    /// Possible CPUs.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Slots, the one for what has none included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Records about cgroups, exits and single threads that the ring had no room for.
    pub(super) fn side_records_lost(&self) -> u64 {
        self.skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.cgroup_records_lost + bss.exit_records_lost + bss.thread_records_lost)
    }

    /// Whether the cgroup of a slot gives spans.
    pub(crate) fn set_gives_spans(&self, index: u32, gives: bool) {
        self.slots.set_u32(index as usize, std::mem::offset_of!(slot, excluded), u32::from(!gives));
    }

    /// Forgets a removed cgroup and gives its slot back. Only after its last totals were read.
    pub(super) fn free_slot(&self, index: u32, cgroup_id: u64) {
        let _ = self.skel.maps.slot_of.delete(&cgroup_id.to_ne_bytes());
        self.slots.set(index as usize, slot::default());
        for cpu in 0..self.cpus.len() {
            self.slot_cpus.set(index as usize * self.cpus.len() + cpu, slot_cpu::default());
            self.slot_slices.set(index as usize * self.cpus.len() + cpu, slot_slices::default());
        }
        let _ = self.skel.maps.free_slots.update(&[], &index.to_ne_bytes(), MapFlags::ANY);
    }
}

/// Loads one of each pair of twins, and nothing that is not asked for.
fn choose_programs(open: &mut OpenSchedSkel<'_>, chosen: &settings, facts: KernelFacts, way: Way) {
    let progs = &mut open.progs;
    progs.sched_switch.set_autoload(facts.switch_passes_state);
    progs.sched_switch_3.set_autoload(!facts.switch_passes_state);
    progs.sched_waking.set_autoload(chosen.blocks != 0);
    progs.collect.set_autoload(facts.task_iterator);
    progs.collect_iter.set_autoload(!facts.task_iterator);
    progs.cgroup_attach_task.set_autoload(facts.task_iterator);
    progs.cgroup_attach_leader.set_autoload(!facts.task_iterator);
    progs.sched_process_exec.set_autoload(chosen.contexts != 0);
    progs.tg_throttle_down.set_autoload(way == Way::Functions);
    progs.tg_unthrottle_up.set_autoload(way == Way::Functions);
    progs.tg_throttle_down_probe.set_autoload(way == Way::Probes);
    progs.tg_unthrottle_up_probe.set_autoload(way == Way::Probes);
}

fn size_maps(open: &mut OpenSchedSkel<'_>, chosen: &settings, ring_bytes: u32) -> libbpf_rs::Result<()> {
    open.maps.slots.set_max_entries(chosen.slots)?;
    open.maps.slot_cpus.set_max_entries(chosen.slots * chosen.cpus)?;
    open.maps.slot_slices.set_max_entries(slices(chosen))?;
    open.maps.cpus.set_max_entries(chosen.cpus)?;
    open.maps.slot_of.set_max_entries(chosen.slots)?;
    open.maps.free_slots.set_max_entries(chosen.slots)?;
    open.maps.ring.set_max_entries(ring_bytes)
}

/// Attaches what was loaded, the switch program last: by then everything it counts on is in place.
fn attach_programs(
    skel: &SchedSkel<'_>,
    facts: KernelFacts,
    chosen: &settings,
    way: Way,
) -> libbpf_rs::Result<Vec<Link>> {
    let progs = &skel.progs;
    let mut wanted = vec![&progs.task_newtask, &progs.sched_process_free, &progs.cgroup_mkdir, &progs.cgroup_rmdir];
    wanted.push(if facts.task_iterator { &progs.cgroup_attach_task } else { &progs.cgroup_attach_leader });
    match way {
        Way::Functions => wanted.extend([&progs.tg_throttle_down, &progs.tg_unthrottle_up]),
        Way::Probes => wanted.extend([&progs.tg_throttle_down_probe, &progs.tg_unthrottle_up_probe]),
        Way::Clock | Way::Nothing => {}
    }
    if chosen.contexts != 0 {
        wanted.push(&progs.sched_process_exec);
    }
    if chosen.blocks != 0 {
        wanted.push(&progs.sched_waking);
    }
    wanted.push(if facts.switch_passes_state { &progs.sched_switch } else { &progs.sched_switch_3 });
    wanted.into_iter().map(|program| program.attach()).collect()
}

/// Entries of the map of run and block histograms.
fn slices(chosen: &settings) -> u32 {
    if chosen.run_histogram | chosen.block_histogram != 0 { chosen.slots * chosen.cpus } else { 1 }
}

/// The ring buffer's reader.
pub(super) struct Ring<'r>(RingBuffer<'r>);

impl<'r> Ring<'r> {
    fn of(map: &'r dyn MapCore, mut consume: impl FnMut(&[u8]) + 'r) -> Result<Self, DriverError> {
        let mut builder = RingBufferBuilder::new();
        let taken = move |record: &[u8]| {
            consume(record);
            0
        };
        builder.add(map, taken).map_err(|error| DriverError::load(&error))?;
        builder.build().map(Self).map_err(|error| DriverError::load(&error))
    }

    /// Waits until the kernel wakes us (the ring is a quarter full) or `patience` is over, then drains.
    ///
    /// # Errors
    /// What epoll says, an interrupted wait apart.
    pub(super) fn drain(&self, patience: Duration) -> Result<(), DriverError> {
        match self.0.poll(patience) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(DriverError::collect(&error));
            }
            _ => {}
        }
        self.0.consume().map_err(|error| DriverError::collect(&error))
    }

    /// Takes at most so many records, those that are there. How many there were.
    ///
    /// # Errors
    /// What libbpf says.
    pub(super) fn take(&self, records: usize) -> Result<usize, DriverError> {
        usize::try_from(self.0.consume_raw_n(records))
            .map_err(|_| DriverError::other("the ring of events could not be read"))
    }
}
