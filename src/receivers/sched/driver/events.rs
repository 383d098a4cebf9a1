//! The programs on classic tracepoints: every event as the kernel laid it out. They need no BTF of the kernel's.

use std::mem::MaybeUninit;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};

use super::error::DriverError;
use super::facts::{KernelFacts, is_realtime};
use super::skeleton::events::EventsSkelBuilder;
use super::{Ring, messages};

/// Attached programs; dropping them detaches.
pub(crate) struct EventPrograms {
    ring: MapHandle,
    _links: Vec<Link>,
}

/// The ring that they write.
pub(crate) struct EventRing(MapHandle);

impl EventPrograms {
    /// Loads and attaches; the ring's size is rounded up to a power of two of pages.
    ///
    /// # Errors
    /// With the cause and the remedy.
    pub(crate) fn start(ring_bytes: u32) -> Result<Self, DriverError> {
        messages::listen();
        // without BTF nobody tells which lock it is
        if is_realtime() && Btf::from_vmlinux().map_or(true, |btf| KernelFacts::read(&btf).ring_sleeps) {
            return Err(DriverError::ring_sleeps());
        }
        let refused = |error: libbpf_rs::Error| DriverError::load(&error);
        let mut place = MaybeUninit::uninit();
        let mut open = EventsSkelBuilder::default().open(&mut place).map_err(refused)?;
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
        let bytes = ring_bytes.clamp(page, 1 << 30).next_power_of_two();
        open.maps.events.set_max_entries(bytes).map_err(refused)?;
        let mut skel = open.load().map_err(refused)?;
        let ring = MapHandle::try_from(&skel.maps.events).map_err(refused)?;
        let progs = &mut skel.progs;
        // the switches last: by then everything that explains them is told
        let all = [
            &mut progs.on_rename,
            &mut progs.on_exec,
            &mut progs.on_exit,
            &mut progs.on_fork,
            &mut progs.on_migrate,
            &mut progs.on_wakeup_new,
            &mut progs.on_wakeup,
            &mut progs.on_waking,
            &mut progs.on_switch,
        ];
        let links: libbpf_rs::Result<Vec<Link>> = all.into_iter().map(|program| program.attach()).collect();
        Ok(Self { ring, _links: links.map_err(|error| DriverError::attach(&error))? })
    }

    /// The ring, for a reader on any thread.
    ///
    /// # Errors
    /// What the kernel says to one more descriptor.
    pub(crate) fn ring(&self) -> Result<EventRing, DriverError> {
        MapHandle::try_from(&self.ring).map(EventRing).map_err(|error| DriverError::load(&error))
    }
}

impl EventRing {
    /// Its reader, with `consume` called for each event.
    ///
    /// # Errors
    /// What libbpf says.
    pub(crate) fn open<'r>(&'r self, consume: impl FnMut(&[u8]) + 'r) -> Result<Ring<'r>, DriverError> {
        Ring::of(&self.0, consume)
    }
}
