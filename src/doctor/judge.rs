//! Pure: what each thing that was seen means for measuring, and the remedy where one is needed.

use super::finding::Finding;
use super::host::Seen;

/// Every finding, in the order in which they are told.
pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("kernel", format!("Linux {} {}", seen.release, seen.machine)),
        btf(seen),
        capabilities(seen),
        lockdown(seen),
        programs(seen),
    ];
    findings.extend(offers(seen));
    findings.extend([cgroups(seen), clock(seen), accounts(seen), pressure(seen)]);
    findings.extend(sched_ext(seen));
    findings.extend([names(seen), runtimes(seen), tracefs(seen)]);
    findings
}

fn btf(seen: &Seen) -> Finding {
    let path = seen.btf_path.display();
    match &seen.btf {
        Ok(bytes) => Finding::ok("BTF", format!("{path}, {:.1} MB", *bytes as f64 / 1e6)),
        Err(why) => {
            let remedy = "a kernel with CONFIG_DEBUG_INFO_BTF has it (in a container: mount the host's /sys/kernel/btf); or name a BTF file in receivers::sched::btf";
            let found = format!("{path}: {why}");
            if seen.events.is_some() {
                Finding::less("BTF", found, remedy)
            } else {
                Finding::missing("BTF", found, remedy)
            }
        }
    }
}

fn capabilities(seen: &Seen) -> Finding {
    let has = seen.capabilities;
    if has.suffice() {
        let which = if has.bpf && has.perfmon { "CAP_BPF, CAP_PERFMON" } else { "CAP_SYS_ADMIN" };
        return Finding::ok("capabilities", which);
    }
    let lacks = [(has.bpf, "CAP_BPF"), (has.perfmon, "CAP_PERFMON")];
    let lacks: Vec<&str> = lacks.into_iter().filter(|(has, _)| !has).map(|(_, name)| name).collect();
    Finding::missing(
        "capabilities",
        format!("{} missing", lacks.join(" and ")),
        "run as root, or give both: AmbientCapabilities= in systemd, securityContext.capabilities.add in Kubernetes (CAP_SYS_ADMIN before Linux 5.8)",
    )
}

fn lockdown(seen: &Seen) -> Finding {
    match seen.lockdown.as_deref() {
        Some("confidentiality") => Finding::missing(
            "lockdown",
            "confidentiality: BPF may not read kernel memory",
            "boot with lockdown=integrity or without lockdown",
        ),
        Some(word) => Finding::ok("lockdown", word),
        None => Finding::ok("lockdown", "none"),
    }
}

fn programs(seen: &Seen) -> Finding {
    match &seen.programs {
        Ok(offers) if offers.is_by_events() => {
            Finding::ok("programs", format!("single events, as the config says; backend {}", offers.backend))
        }
        Ok(offers) => Finding::ok("programs", format!("loaded and attached; backend {}", offers.backend)),
        Err(why) => {
            let remedy = if why.contains("no BPF task storage") {
                "a newer kernel, with CONFIG_BPF_SYSCALL; `perf sched record` and `schedscope replay` work on this one too"
            } else {
                "see what is missing above; where nothing is, this kernel refuses the programs: report it with this text"
            };
            if let Some(backend) = seen.events {
                let found = format!("{why}; the {backend} backend is used: without throttled and stolen time");
                return Finding::less("programs", found, remedy);
            }
            Finding::missing("programs", why.as_str(), remedy)
        }
    }
}

/// What follows from what loaded.
fn offers(seen: &Seen) -> Vec<Finding> {
    let Ok(offers) = &seen.programs else { return Vec::new() };
    if offers.is_by_events() {
        return vec![by_events()];
    }
    let throttle = match offers.throttle_source {
        "kernel" => Finding::ok("throttled time", "from the kernel's own clock (source kernel)"),
        "hook" => Finding::ok("throttled time", "from hooks on the quota's begin and end (source hook)"),
        _ => Finding::less(
            "throttled time",
            "cannot be told apart (source none): waiting includes it",
            "a kernel with cfs_rq.throttled_clock_self_time (6.6 on), or one whose tg_throttle_down can be traced",
        ),
    };
    let totals = match (offers.open_iterator, seen.is_host_pid_namespace) {
        (true, Some(true) | None) => Finding::ok("totals", "from the counters of every task (open-coded iterator)"),
        (true, Some(false)) => Finding::ok(
            "totals",
            "from the counters of every task, also outside our own pid namespace (open-coded iterator)",
        ),
        (false, Some(false)) => Finding::less(
            "totals",
            "only tasks of our own pid namespace are read: this kernel has no open-coded task iterator",
            "give the agent the host's pid namespace (hostPID: true, --pid=host), or a kernel from 6.7 on",
        ),
        (false, _) => Finding::ok("totals", "from the counters of every task (task iterator)"),
    };
    let stolen = if offers.stolen {
        Finding::ok("stolen time", "told apart (rq.prev_steal_time_rq or rq.prev_irq_time)")
    } else {
        Finding::ok("stolen time", "this kernel does not tell it per CPU: it is inside running, and absent, not 0")
    };
    vec![throttle, totals, stolen]
}

/// What single events do not tell.
fn by_events() -> Finding {
    Finding::less(
        "totals",
        "from single events: throttled time is inside waiting (source none), threads that are gone before they were looked at count for the host, moves are seen at the next collection",
        "backend: auto, where the programs that keep totals can be loaded",
    )
}

fn cgroups(seen: &Seen) -> Finding {
    match &seen.hierarchy {
        Ok(found) => {
            let version = if found.is_v2 { "v2" } else { "v1 cpu controller" };
            match &found.mount {
                Some(mount) => Finding::ok("cgroups", format!("{version} at {}", mount.display())),
                None => Finding::less(
                    "cgroups",
                    format!(
                        "{version}, not mounted here: paths come from the kernel, quotas and pressure are not told"
                    ),
                    "mount the host's /sys/fs/cgroup into the agent's container",
                ),
            }
        }
        Err(why) => Finding::missing("cgroups", why.as_str(), "mount /proc"),
    }
}

fn clock(seen: &Seen) -> Finding {
    let cpus = seen.cpus_online.map_or_else(String::new, |cpus| format!(", {cpus} CPUs online"));
    match seen.clock_source.as_deref() {
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => Finding::less(
            "clock",
            format!("{slow}{cpus}: reading it is slow and coarse"),
            "boot with clocksource=tsc where the CPUs have a stable one",
        ),
        Some(source) => Finding::ok("clock", format!("{source}{cpus}")),
        None => Finding::ok("clock", format!("not told{cpus}")),
    }
}

fn accounts(seen: &Seen) -> Finding {
    if seen.has_schedstat {
        Finding::ok("schedstat", "/proc/PID/schedstat can be read: --verify has its oracle")
    } else {
        Finding::less(
            "schedstat",
            "/proc/PID/schedstat is not there: waiting cannot be verified",
            "a kernel with CONFIG_SCHED_INFO",
        )
    }
}

fn pressure(seen: &Seen) -> Finding {
    if seen.has_cpu_pressure {
        Finding::ok("pressure", "/proc/pressure/cpu")
    } else {
        Finding::less("pressure", "no /proc/pressure/cpu: pressure is absent", "boot with psi=1 (CONFIG_PSI)")
    }
}

fn sched_ext(seen: &Seen) -> Option<Finding> {
    let ext = seen.sched_ext.as_ref()?;
    Some(if ext.is_active {
        Finding::less(
            "sched_ext",
            format!("the scheduler {} runs: it may ignore quotas and weights", ext.name),
            "counters hold for its tasks too; a quota that it does not enforce is told in the log, and by --verify",
        )
    } else {
        Finding::ok("sched_ext", "no such scheduler runs")
    })
}

fn names(seen: &Seen) -> Finding {
    let has = seen.capabilities;
    match seen.is_host_pid_namespace {
        Some(false) => Finding::less(
            "pid namespace",
            "a container's own: processes outside it cannot be named",
            "hostPID: true in Kubernetes, --pid=host with docker and podman",
        ),
        _ if !(has.sys_admin || (has.sys_ptrace && has.dac_read_search)) => Finding::less(
            "pid namespace",
            "the host's, but other users' processes cannot be looked into",
            "give CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH too",
        ),
        _ => Finding::ok("pid namespace", "the host's"),
    }
}

fn runtimes(seen: &Seen) -> Finding {
    let mut said = Vec::new();
    let mut broken = false;
    for (name, answer) in &seen.runtimes {
        match answer {
            Some(Ok(version)) => said.push(format!("{name} {version}")),
            Some(Err(why)) => {
                broken = true;
                said.push(format!("{name}: {why}"));
            }
            None => {}
        }
    }
    if said.is_empty() {
        return Finding::ok("runtimes", "none found: containers are named by their ids");
    }
    if broken {
        let remedy = "start the runtime, or mount its socket; until then its containers are named by their ids";
        return Finding::less("runtimes", said.join(", "), remedy);
    }
    Finding::ok("runtimes", said.join(", "))
}

fn tracefs(seen: &Seen) -> Finding {
    match &seen.tracefs {
        Some(path) if seen.programs.is_err() => Finding::ok("tracefs", path.display().to_string()),
        Some(path) => Finding::ok("tracefs", format!("{} (not needed)", path.display())),
        None if seen.programs.is_err() => Finding::less(
            "tracefs",
            "not mounted: it could take the place of BPF here",
            "mount -t tracefs none /sys/kernel/tracing",
        ),
        None => Finding::ok("tracefs", "not mounted (not needed)"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::finding::Grade;
    use super::super::host::Capabilities;
    use super::*;
    use crate::model::ExtScheduler;
    use crate::receivers::sched::{CpuHierarchy, Offers};

    fn good() -> Seen {
        Seen {
            release: "6.18.1".into(),
            machine: "x86_64".into(),
            btf: Ok(5_300_000),
            btf_path: "/sys/kernel/btf/vmlinux".into(),
            capabilities: Capabilities {
                bpf: true,
                perfmon: true,
                sys_admin: false,
                sys_ptrace: true,
                dac_read_search: true,
            },
            lockdown: None,
            hierarchy: Ok(CpuHierarchy { is_v2: true, mount: Some("/sys/fs/cgroup".into()) }),
            tracefs: Some("/sys/kernel/tracing".into()),
            is_host_pid_namespace: Some(true),
            clock_source: Some("tsc".into()),
            cpus_online: Some(2),
            has_cpu_pressure: true,
            has_schedstat: true,
            sched_ext: None,
            runtimes: vec![("docker", None), ("podman", Some(Ok("4.3.1".into())))],
            programs: Ok(Offers { backend: "tp_btf", throttle_source: "kernel", stolen: true, open_iterator: true }),
            events: None,
        }
    }

    fn grade(seen: &Seen, about: &str) -> (Grade, String) {
        let finding = judge(seen).into_iter().find(|finding| finding.about == about).unwrap();
        assert_eq!(finding.grade == Grade::Ok, finding.remedy.is_none(), "{finding:?}");
        (finding.grade, format!("{} {}", finding.found, finding.remedy.unwrap_or_default()))
    }

    #[test]
    fn a_good_host_has_nothing_to_mend() {
        let findings = judge(&good());
        assert!(findings.iter().all(|finding| finding.grade == Grade::Ok), "{findings:?}");
    }

    #[test]
    fn each_lack_has_its_remedy() {
        let mut seen = good();
        seen.capabilities.bpf = false;
        assert_eq!(grade(&seen, "capabilities").0, Grade::Missing);
        assert!(grade(&seen, "capabilities").1.contains("CAP_BPF missing"));
        seen.btf = Err("No such file or directory".into());
        assert!(grade(&seen, "BTF").1.contains("receivers::sched::btf"));
        seen.lockdown = Some("confidentiality".into());
        assert_eq!(grade(&seen, "lockdown").0, Grade::Missing);
        seen.lockdown = Some("integrity".into());
        assert_eq!(grade(&seen, "lockdown").0, Grade::Ok);
        seen.hierarchy = Ok(CpuHierarchy { is_v2: false, mount: None::<PathBuf> });
        assert!(grade(&seen, "cgroups").1.contains("/sys/fs/cgroup"));
        seen.sched_ext = Some(ExtScheduler { is_active: true, name: "lavd".into() });
        assert!(grade(&seen, "sched_ext").1.contains("lavd"));
    }

    #[test]
    fn single_events_take_the_place_of_totals() {
        let mut seen = good();
        seen.programs = Err("this kernel has no BPF task storage".into());
        assert_eq!(grade(&seen, "programs").0, Grade::Missing);
        seen.events = Some("tracepoint");
        assert_eq!(grade(&seen, "programs").0, Grade::Less);
        assert!(grade(&seen, "programs").1.contains("tracepoint backend is used"));
        let asked = Offers { backend: "tracefs", throttle_source: "none", stolen: false, open_iterator: false };
        assert!(grade(&Seen { programs: Ok(asked), ..seen.clone() }, "totals").1.contains("source none"));
        (seen.tracefs, seen.events) = (None, None);
        assert_eq!(grade(&seen, "programs").0, Grade::Missing);
        assert!(grade(&seen, "tracefs").1.contains("mount -t tracefs"));
    }

    #[test]
    fn a_pid_namespace_hides_tasks_from_the_older_iterator_only() {
        let mut seen = good();
        seen.is_host_pid_namespace = Some(false);
        assert_eq!(grade(&seen, "totals").0, Grade::Ok);
        seen.programs = Ok(Offers { backend: "tp_btf", throttle_source: "hook", stolen: false, open_iterator: false });
        assert_eq!(grade(&seen, "totals").0, Grade::Less);
        assert_eq!(grade(&seen, "throttled time").0, Grade::Ok);
        assert!(grade(&seen, "pid namespace").1.contains("hostPID"));
    }
}
