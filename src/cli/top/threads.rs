//! The threads of one owner, by their own counters in `/proc`: what each did since the last look.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// Threads that are read of one owner at most.
const THREADS_MAX: usize = 2000;

/// One thread, times in seconds a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    /// R, S, D, T and so on.
    pub(super) state: char,
    pub(super) run: f64,
    /// Waited and throttled: the kernel's run delay does not tell them apart.
    pub(super) delay: f64,
    pub(super) runs: u64,
}

/// Counters at the last look: ran and delayed, ns, and how often it was given a CPU.
type Counters = (u64, u64, u64);

/// What was seen at the last look.
#[derive(Default)]
pub(super) struct Threads {
    before: HashMap<u32, Counters>,
    at: Option<Instant>,
}

impl Threads {
    /// The threads of the owner whose cgroup path holds this id or unit, the worst first.
    pub(super) fn look(&mut self, owner: &str) -> Vec<Thread> {
        let now = Instant::now();
        let seconds = self.at.replace(now).map_or(0.0, |at| now.duration_since(at).as_secs_f64());
        let mut seen = HashMap::new();
        let mut found = Vec::new();
        for pid in pids("/proc").filter(|pid| is_of(*pid, owner)) {
            for tid in pids(&format!("/proc/{pid}/task")) {
                if seen.len() >= THREADS_MAX {
                    break;
                }
                let Some(counters) = counters(pid, tid) else { continue };
                seen.insert(tid, counters);
                let before = self.before.get(&tid).copied().unwrap_or(counters);
                let rate = |now: u64, then: u64| {
                    if seconds > 0.0 { now.saturating_sub(then) as f64 / 1e9 / seconds } else { 0.0 }
                };
                let (name, state) = name(pid, tid).unwrap_or_default();
                found.push(Thread {
                    pid,
                    tid,
                    name,
                    state,
                    run: rate(counters.0, before.0),
                    delay: rate(counters.1, before.1),
                    runs: counters.2.saturating_sub(before.2),
                });
            }
        }
        self.before = seen;
        found.sort_by(|a, b| b.delay.total_cmp(&a.delay).then(b.run.total_cmp(&a.run)).then(a.tid.cmp(&b.tid)));
        found
    }
}

fn pids(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a component of its cgroup's path holds the id, or is the unit.
fn is_of(pid: u32, owner: &str) -> bool {
    holds(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(), owner)
}

fn holds(cgroups: &str, owner: &str) -> bool {
    cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| {
        path.split('/').any(|component| component == owner || owner.len() >= 32 && component.contains(owner))
    })
}

/// `schedstat`: on the CPU, waiting for one, how often.
fn counters(pid: u32, tid: u32) -> Option<Counters> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??, fields.next()??))
}

fn name(pid: u32, tid: u32) -> Option<(String, char)> {
    let bytes = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (begin, end) = (text.find('(')?, text.rfind(')')?);
    let state = text.get(end + 2..)?.chars().next()?;
    let name = text.get(begin + 1..end)?.replace(|character: char| character.is_control(), "?");
    Some((name, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that ids are found inside a component and units only as a whole.
    #[test]
    fn owners() {
        let id = "ff44c7a161a2b64a2c2e342fa1364dd148b5958e53d378f0588846fc3e232c34";
        let text = format!("3:cpu:/docker/{id}\n0::/system.slice/ssh.service\n");
        assert!(holds(&text, id) && holds(&text, "ssh.service") && !holds(&text, "ssh") && !holds(&text, "sh.service"));
        assert!(holds(&format!("0::/system.slice/docker-{id}.scope"), id));
    }

    /// Check that a thread's own counters are read.
    #[test]
    fn own_counters() {
        let pid = std::process::id();
        let (ran, _, runs) = counters(pid, pid).unwrap();
        assert!(ran > 0 && runs > 0);
        assert!(name(pid, pid).is_some_and(|(name, _)| !name.is_empty()));
    }
}
