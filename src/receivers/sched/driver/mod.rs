//! The kernel's edge: loads and attaches the programs, reads their maps, drains their ring. The only folder
//! with `unsafe`, each with its reason. Refuses to know what a record means.

mod error;
mod facts;
mod layout;
mod memory;
mod skeleton;

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder};

pub(super) use error::DriverError;
pub(super) use facts::KernelFacts;
use memory::{MappedArray, bytes_of};
pub(super) use skeleton::types::{collect_args, cpu_state, settings, slot, slot_cpu, slot_slices};
use skeleton::{SchedSkel, SchedSkelBuilder};

/// Sizes and settings of one load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// What the programs read; `cpus` and `slots` size the maps, `stolen` and `throttle_clock` follow from the facts.
    pub settings: settings,
    /// Ring size in bytes, a power of two of pages.
    pub ring_bytes: u32,
}

/// Memory for the opened object; outlives the driver that borrows it.
#[derive(Default)]
pub(super) struct Storage(Option<MaybeUninit<OpenObject>>);

/// The loaded and attached programs. Dropping it detaches them.
pub(super) struct Driver<'a> {
    skel: SchedSkel<'a>,
    _links: Vec<Link>,
    slots: MappedArray<slot>,
    slot_cpus: MappedArray<slot_cpu>,
    slot_slices: MappedArray<slot_slices>,
    cpus: MappedArray<cpu_state>,
    facts: KernelFacts,
}

impl<'a> Driver<'a> {
    /// Loads and attaches; fails while the caller waits.
    ///
    /// # Errors
    /// With the cause and the remedy in its message.
    pub(super) fn start(storage: &'a mut Storage, load: Load) -> Result<Self, DriverError> {
        silence_libbpf();
        let btf = Btf::from_vmlinux().map_err(|error| DriverError::no_btf(&error))?;
        let facts = KernelFacts::read(&btf);
        let place = storage.0.insert(MaybeUninit::uninit());
        let mut open = SchedSkelBuilder::default().open(place).map_err(|error| DriverError::load(&error))?;
        let mut chosen = load.settings;
        chosen.stolen = u8::from(facts.stolen);
        chosen.throttle_clock = u8::from(facts.throttle_clock);
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.settings = chosen;
        }
        open.progs.sched_switch.set_autoload(facts.switch_passes_state);
        open.progs.sched_switch_3.set_autoload(!facts.switch_passes_state);
        open.progs.sched_waking.set_autoload(chosen.blocks != 0);
        let slices = slices(&chosen);
        let mut sized = || -> libbpf_rs::Result<()> {
            open.maps.slots.set_max_entries(chosen.slots)?;
            open.maps.slot_cpus.set_max_entries(chosen.slots * chosen.cpus)?;
            open.maps.slot_slices.set_max_entries(slices)?;
            open.maps.cpus.set_max_entries(chosen.cpus)?;
            open.maps.slot_of.set_max_entries(chosen.slots)?;
            open.maps.free_slots.set_max_entries(chosen.slots)?;
            open.maps.ring.set_max_entries(load.ring_bytes)
        };
        sized().map_err(|error| DriverError::load(&error))?;
        let skel = open.load().map_err(|error| DriverError::load(&error))?;
        Self::attach(skel, facts, chosen)
    }

    fn attach(skel: SchedSkel<'a>, facts: KernelFacts, chosen: settings) -> Result<Self, DriverError> {
        for index in (1..chosen.slots).rev() {
            skel.maps
                .free_slots
                .update(&[], &index.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| DriverError::load(&error))?;
        }
        let progs = &skel.progs;
        let mut wanted = vec![
            &progs.task_newtask,
            &progs.sched_process_free,
            &progs.cgroup_mkdir,
            &progs.cgroup_rmdir,
            &progs.cgroup_attach_task,
        ];
        if chosen.blocks != 0 {
            wanted.push(&progs.sched_waking);
        }
        wanted.push(if facts.switch_passes_state { &progs.sched_switch } else { &progs.sched_switch_3 });
        let links = wanted.into_iter().map(|program| program.attach()).collect::<Result<Vec<_>, _>>();
        let links = links.map_err(|error| DriverError::attach(&error))?;
        let slots = MappedArray::new(skel.maps.slots.as_fd(), chosen.slots as usize);
        let slot_cpus = MappedArray::new(skel.maps.slot_cpus.as_fd(), (chosen.slots * chosen.cpus) as usize);
        let slot_slices = MappedArray::new(skel.maps.slot_slices.as_fd(), slices(&chosen) as usize);
        let cpus = MappedArray::new(skel.maps.cpus.as_fd(), chosen.cpus as usize);
        let mapped = |error: std::io::Error| DriverError::map(&error);
        Ok(Self {
            slots: slots.map_err(mapped)?,
            slot_cpus: slot_cpus.map_err(mapped)?,
            slot_slices: slot_slices.map_err(mapped)?,
            cpus: cpus.map_err(mapped)?,
            skel,
            _links: links,
            facts,
        })
    }

    /// What the kernel offers.
    pub(super) fn facts(&self) -> KernelFacts {
        self.facts
    }

    /// Reads the counters of every task into the slots.
    ///
    /// # Errors
    /// What the kernel says to the run.
    pub(super) fn collect(&self, generation: u64) -> Result<collect_args, DriverError> {
        let mut args = collect_args { generation, ..collect_args::default() };
        let input = ProgramInput { context_in: Some(bytes_of(&mut args)), ..ProgramInput::default() };
        self.skel.progs.collect.test_run(input).map_err(|error| DriverError::collect(&error))?;
        Ok(args)
    }

    /// The ring, with `consume` called for each record.
    ///
    /// # Errors
    /// What libbpf says.
    pub(super) fn ring<'r>(&'r self, mut consume: impl FnMut(&[u8]) + 'r) -> Result<Ring<'r>, DriverError> {
        let mut builder = RingBufferBuilder::new();
        let taken = move |record: &[u8]| {
            consume(record);
            0
        };
        builder.add(&self.skel.maps.ring, taken).map_err(|error| DriverError::load(&error))?;
        builder.build().map(Ring).map_err(|error| DriverError::load(&error))
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

    /// Possible CPUs.
    pub(super) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Slots, the one for what has none included.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Records about cgroups and exits that the ring had no room for.
    pub(super) fn side_records_lost(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.cgroup_records_lost + bss.exit_records_lost)
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

/// Entries of the map of run and block histograms.
fn slices(chosen: &settings) -> u32 {
    if chosen.run_histogram | chosen.block_histogram != 0 { chosen.slots * chosen.cpus } else { 1 }
}

/// The ring buffer's reader.
pub(super) struct Ring<'r>(RingBuffer<'r>);

impl Ring<'_> {
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
}

/// libbpf's own lines go to the log at debug level; what matters is in the errors.
fn silence_libbpf() {
    let quiet = |_, line: String| tracing::debug!(target: "libbpf", "{}", line.trim_end());
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, quiet)));
}
