//! What can be seen of this host without loading anything.

use std::fs;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};

use crate::host::{CpuList, FIRST_PID_NAMESPACE, Pressure, lockdown};
use crate::model::ExtScheduler;
use crate::processors::container::look;
use crate::receivers::sched::{CpuHierarchy, Offers, SchedSettings, cpu_hierarchy, ext_scheduler};

/// A capability that is of use, and whether we have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// Loading programs: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
    pub bpf: bool,
    pub perfmon: bool,
    pub sys_admin: bool,
    /// Other users' processes can be named.
    pub sys_ptrace: bool,
    pub dac_read_search: bool,
}

impl Capabilities {
    /// BPF programs can be loaded and attached.
    pub(super) fn suffice(self) -> bool {
        self.sys_admin || (self.bpf && self.perfmon)
    }
}

/// What was seen. `None` and `Err` are "not there" and "could not be looked at", which are not the same.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub release: String,
    pub machine: String,
    /// Bytes of the kernel's BTF, and where it is.
    pub btf: Result<u64, String>,
    pub btf_path: PathBuf,
    pub capabilities: Capabilities,
    pub lockdown: Option<String>,
    pub hierarchy: Result<CpuHierarchy, String>,
    pub tracefs: Option<PathBuf>,
    /// Our pid namespace is the host's first.
    pub is_host_pid_namespace: Option<bool>,
    pub clock_source: Option<String>,
    pub cpus_online: Option<u32>,
    pub has_cpu_pressure: bool,
    pub has_schedstat: bool,
    /// `None`: this kernel has no sched_ext.
    pub sched_ext: Option<ExtScheduler>,
    /// Runtimes, what each said.
    pub runtimes: Vec<(&'static str, Option<Result<String, String>>)>,
    /// The programs loaded.
    pub programs: Result<Offers, String>,
    /// Where they do not: the backend of single events that takes their place.
    pub events: Option<&'static str>,
}

/// Looks.
pub(super) fn look(settings: &SchedSettings) -> Seen {
    let uname = rustix::system::uname();
    let btf_path =
        if settings.btf.is_empty() { PathBuf::from("/sys/kernel/btf/vmlinux") } else { settings.btf.clone().into() };
    Seen {
        release: uname.release().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        btf: fs::File::open(&btf_path)
            .and_then(|file| file.metadata())
            .map(|file| file.len())
            .map_err(|error| error.to_string()),
        btf_path,
        capabilities: capabilities(),
        lockdown: line("/sys/kernel/security/lockdown").as_deref().and_then(lockdown).map(str::to_owned),
        hierarchy: cpu_hierarchy(Path::new(&settings.root_path)),
        tracefs: ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .into_iter()
            .map(PathBuf::from)
            .find(|path| path.join("trace_pipe").exists()),
        is_host_pid_namespace: fs::read_link("/proc/self/ns/pid")
            .ok()
            .map(|link| link.as_os_str() == FIRST_PID_NAMESPACE),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        cpus_online: line("/sys/devices/system/cpu/online")
            .and_then(|text| CpuList::parse(&text))
            .map(|list| list.count()),
        has_cpu_pressure: line("/proc/pressure/cpu").is_some_and(|text| Pressure::parse(&text).is_some()),
        has_schedstat: line("/proc/self/schedstat").is_some(),
        sched_ext: ext_scheduler(),
        runtimes: look::runtimes(),
        programs: Err("not tried".to_owned()),
        events: None,
    }
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn capabilities() -> Capabilities {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    Capabilities {
        bpf: has(Capability::CAP_BPF),
        perfmon: has(Capability::CAP_PERFMON),
        sys_admin: has(Capability::CAP_SYS_ADMIN),
        sys_ptrace: has(Capability::CAP_SYS_PTRACE),
        dac_read_search: has(Capability::CAP_DAC_READ_SEARCH),
    }
}
