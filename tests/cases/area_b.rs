//! Area B: task states, lines of trace text, sequences of events, against `timeline` and `trace_text`.

use std::collections::BTreeMap;

use schedscope::model::{BootNs, Cycle};
use schedscope::timeline::{
    Comm, Discards, Era, Event, Limits, Machine, Named, Observer, Record, SwitchOut, ThreadTotals, WakeupKind,
};
use schedscope::trace_text::{self, Line, Payload, Who};
use serde_json::{Map, Value, json};

/// Plays one case of this area.
pub fn run(case: &Value) -> Result<(), String> {
    match case.get("kind").and_then(Value::as_str) {
        Some("prev_state") => compare(&case["expect"], &prev_state(case)?),
        Some("line") => compare(&case["expect"], &line(case)?),
        Some("sequence") => sequence(case),
        kind => Err(format!("no kind {kind:?} in area B")),
    }
}

/// Whether a value is what is expected: equal, one of `any_of`, at least `min`, at most `max`.
fn fits(expected: &Value, got: &Value) -> bool {
    if let Some(choices) = expected.get("any_of").and_then(Value::as_array) {
        return choices.iter().any(|choice| fits(choice, got));
    }
    if expected.get("min").is_some() || expected.get("max").is_some() {
        let bound = |name: &str| expected.get(name).and_then(Value::as_i64);
        let got = got.as_i64();
        return got
            .is_some_and(|got| bound("min").is_none_or(|min| got >= min) && bound("max").is_none_or(|max| got <= max));
    }
    expected == got
}

/// Every expected field against what was read; a field that was not read is null.
fn compare(expected: &Value, got: &Value) -> Result<(), String> {
    if expected.get("any_of").is_some() {
        return if fits(expected, got) { Ok(()) } else { Err(format!("expected {expected}\ngot {got}")) };
    }
    let fields = expected.as_object().ok_or("`expect` is no object")?;
    for (key, want) in fields {
        let have = got.get(key).unwrap_or(&Value::Null);
        let same = match (want, have) {
            (Value::Object(_), Value::Object(_)) if want.get("any_of").is_none() => compare(want, have).is_ok(),
            _ => fits(want, have),
        };
        if !same {
            return Err(format!("{key}: expected {want}\ngot {have}, of {got}"));
        }
    }
    Ok(())
}

fn prev_state(case: &Value) -> Result<Value, String> {
    let number = |key: &str| case.get(key).and_then(Value::as_u64);
    let state = number("prev_state").ok_or("no prev_state")?;
    let release = case.get("kernel").and_then(Value::as_str).unwrap_or("6.18");
    let mut numbers = release.split(['.', '-']).filter_map(|part| part.parse().ok());
    let era = Era::of_release(numbers.next().unwrap_or(6), numbers.next().unwrap_or(0));
    let preempt = case.get("preempt").and_then(Value::as_bool).unwrap_or(false);
    let out = match case.get("source").and_then(Value::as_str) {
        Some("tracepoint") => SwitchOut::from_tracepoint(state, era),
        Some("btf_arg" | "task_struct") => SwitchOut::from_task(state, number("exit_state").unwrap_or(0), preempt, era),
        source => return Err(format!("no source {source:?}")),
    };
    let switch = if out.involuntary() { "involuntary" } else { "voluntary" };
    Ok(json!({
        "state": out.state.letter().to_string(),
        "runnable": out.runnable(),
        "preempted": out.preempted,
        "switch": switch,
        "state_class": out.state.block_state().name(),
    }))
}

fn line(case: &Value) -> Result<Value, String> {
    let bytes = match (case.get("line").and_then(Value::as_str), case.get("line_hex").and_then(Value::as_str)) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(hex)) => unhex(hex)?,
        (None, None) => return Err("neither line nor line_hex".to_owned()),
    };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let event = match trace_text::parse(bytes) {
        Line::Skip => return Ok(json!({"skip": true})),
        Line::Lost { cpu, count } => return Ok(json!({"lost": {"cpu": cpu, "events": count}})),
        Line::Unreadable(why) => return Ok(json!({"skip": true, "error": true, "why": why.to_string()})),
        Line::Event(event) => event,
    };
    let mut got = Map::new();
    let mut put = |key: &str, value: Value| drop(got.insert(key.to_owned(), value));
    put("event", text(event.name).into());
    put("cpu", event.cpu.into());
    put("t_ns", event.at.0.into());
    put("tgid", event.current.and_then(|current| current.pid).into());
    match event.payload {
        Payload::Switch { prev, state, next } => {
            who(&mut put, "prev_", prev);
            who(&mut put, "next_", next);
            put("prev_state", text(state).into());
            let out = SwitchOut::from_text(state);
            put("state_class", if out.runnable() { "runnable" } else { out.state.block_state().name() }.into());
            put("preempted", out.preempted.into());
            put("runnable", out.runnable().into());
            put("switch", if out.involuntary() { "involuntary" } else { "voluntary" }.into());
        }
        Payload::Wakeup { task, target_cpu, .. } => {
            who(&mut put, "", task);
            put("target_cpu", target_cpu.into());
        }
        Payload::Migrate { task, from, to } => {
            who(&mut put, "", task);
            put("orig_cpu", from.into());
            put("dest_cpu", to.into());
        }
        Payload::Exit { task } => who(&mut put, "", task),
        Payload::Fork { parent, child, .. } => {
            if let Some(parent) = parent {
                who(&mut put, "", parent);
                who(&mut put, "parent_", parent);
            }
            who(&mut put, "child_", child);
        }
        Payload::Exec { tid, old_tid, filename } => {
            put("pid", tid.into());
            put("old_pid", old_tid.into());
            put("filename", text(filename).into());
        }
        Payload::Rename { tid, comm } => {
            put("pid", tid.or_else(|| event.current.map(|current| current.tid)).into());
            put("comm", text(comm).into());
            put("newcomm", text(comm).into());
        }
    }
    Ok(Value::Object(got))
}

fn who(put: &mut impl FnMut(&str, Value), prefix: &str, task: Who<'_>) {
    put(&format!("{prefix}comm"), text(task.comm).into());
    put(&format!("{prefix}comm_hex"), hex(task.comm).into());
    put(&format!("{prefix}pid"), task.tid.into());
    put(&format!("{prefix}prio"), task.prio.into());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair.iter().fold(0, |sum, digit| sum * 16 + digit)))
        .collect::<Result<_, _>>()
        .map_err(|why| why.to_string())
}

/// What a sequence gave, by pid.
#[derive(Default)]
struct Seen {
    cycles: Vec<Cycle>,
    waits: BTreeMap<u32, Vec<u64>>,
    lives: Vec<ThreadTotals>,
}

impl Observer for Seen {
    fn cycle(&mut self, cycle: Cycle) {
        self.cycles.push(cycle);
    }

    fn wait_ended(&mut self, tid: u32, _cpu: u32, ns: u64) {
        self.waits.entry(tid).or_default().push(ns);
    }

    fn life_ended(&mut self, totals: ThreadTotals) {
        self.lives.push(totals);
    }
}

fn sequence(case: &Value) -> Result<(), String> {
    let mut machine = Machine::new(Limits::default());
    let mut seen = Seen::default();
    let events = case.get("events").and_then(Value::as_array).ok_or("no events")?;
    for event in events {
        machine.on(&record(event)?, &mut seen);
    }
    let now = machine.now();
    seen.lives.extend(machine.totals_at(now));
    let expected = case.get("expect").and_then(Value::as_object).ok_or("no expect")?;
    for (key, want) in expected {
        judge(key, want, &seen, machine.discards())?;
    }
    Ok(())
}

/// One expectation of a sequence.
fn judge(key: &str, want: &Value, seen: &Seen, discards: Discards) -> Result<(), String> {
    let sum = |of: fn(&ThreadTotals) -> u64| {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for life in &seen.lives {
            *sums.entry(life.task.tid).or_default() += of(life);
        }
        sums
    };
    let longest = seen.waits.values().flatten().max().copied().unwrap_or(0);
    match key {
        "runq_wait_ns" => by_pid(key, want, &seen.waits, &Vec::new()),
        "oncpu_ns" => by_pid(key, want, &sum(|life| life.closed_run_ns), &0),
        "voluntary" => by_pid(key, want, &sum(|life| life.voluntary), &0),
        "involuntary" => by_pid(key, want, &sum(|life| life.involuntary), &0),
        "migrations" => by_pid(key, want, &sum(|life| life.migrations), &0),
        "cpu_of_last_run" => {
            let cpus = seen.lives.iter().map(|life| (life.task.tid, life.last_cpu)).collect();
            by_pid(key, want, &cpus, &None)
        }
        "comm" | "names" | "last_comm" => {
            let names = seen.lives.iter().map(|life| (life.task.tid, life.task.comm.to_string())).collect();
            by_pid(key, want, &names, &String::new())
        }
        "absent_pids" => {
            let absent: Vec<u64> = want.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
            let there = |pid: &&u64| seen.lives.iter().any(|life| u64::from(life.task.tid) == **pid);
            absent.iter().find(there).map_or(Ok(()), |pid| Err(format!("pid {pid} is there and must not be")))
        }
        "max_wait_ns" => {
            let bound = want.as_u64().ok_or("max_wait_ns is no number")?;
            if longest <= bound { Ok(()) } else { Err(format!("a wait of {longest} ns, expected at most {bound}")) }
        }
        "counters" => compare(want, &counters(discards)),
        _ => Err(format!("the runner does not know the expectation `{key}`: {want}")),
    }
}

fn counters(discards: Discards) -> Value {
    json!({
        "clock_anomalies": discards.clock_anomalies,
        "lost_events": discards.lost_events,
        "gaps": discards.gaps,
        "waits_without_start": discards.waits_without_start,
        "unknown_start": discards.waits_without_start + discards.runs_without_start,
        "runs_without_start": discards.runs_without_start,
        "runs_without_end": discards.runs_without_end,
        "blocks_in_doubt": discards.blocks_in_doubt,
        "wakeups_of_running": discards.wakeups_of_running,
        "wakeups_of_queued": discards.wakeups_of_queued,
        "duplicate_wakeups": discards.wakeups_of_running + discards.wakeups_of_queued,
    })
}

/// A map of expectations by pid; pids that are not in it are not asserted, but an empty map says "none".
fn by_pid<T>(key: &str, want: &Value, got: &BTreeMap<u32, T>, nothing: &T) -> Result<(), String>
where
    T: serde::Serialize + PartialEq,
{
    let want = want.as_object().ok_or_else(|| format!("{key} is no object"))?;
    if want.is_empty()
        && let Some((pid, value)) = got.iter().find(|(_, value)| *value != nothing)
    {
        return Err(format!("{key}: expected none\ngot {} for {pid}", json!(value)));
    }
    for (pid, want) in want {
        let number: u32 = pid.parse().map_err(|why| format!("{key}: pid {pid}: {why}"))?;
        let have = json!(got.get(&number).unwrap_or(nothing));
        if !fits(want, &have) {
            return Err(format!("{key} of {pid}: expected {want}\ngot {have}"));
        }
    }
    Ok(())
}

/// An event of a sequence as the machine takes it.
fn record(event: &Value) -> Result<Record, String> {
    let number = |key: &str| event.get(key).and_then(Value::as_u64);
    let small = |key: &str| number(key).and_then(|value| u32::try_from(value).ok());
    let named = |prefix: &str| -> Result<Named, String> {
        let tid = small(&format!("{prefix}pid")).ok_or_else(|| format!("no {prefix}pid in {event}"))?;
        let comm = event.get(format!("{prefix}comm")).and_then(Value::as_str).map(Comm::from);
        Ok(Named { tid, comm })
    };
    let kind = event.get("ev").and_then(Value::as_str).unwrap_or_default();
    let wakeup = |kind| -> Result<Event, String> {
        Ok(Event::Wakeup { task: named("")?, kind, target_cpu: small("target_cpu").unwrap_or(0) })
    };
    let what = match kind.strip_prefix("sched_").unwrap_or(kind) {
        "switch" => {
            let state = match event.get("prev_state") {
                Some(Value::String(state)) => state.clone(),
                Some(state) => state.to_string(),
                None => return Err(format!("no prev_state in {event}")),
            };
            let out = SwitchOut::from_text(state.as_bytes());
            Event::Switch { prev: named("prev_")?, out, next: named("next_")? }
        }
        "waking" => wakeup(WakeupKind::Waking)?,
        "wakeup" => wakeup(WakeupKind::Wakeup)?,
        "wakeup_new" => wakeup(WakeupKind::New)?,
        "migrate" | "migrate_task" => {
            Event::Migrate { task: named("")?, to: small("dest_cpu").or_else(|| small("to")).unwrap_or(0) }
        }
        "fork" | "process_fork" => {
            let child = if event.get("child_pid").is_some() { named("child_")? } else { named("")? };
            let parent = if event.get("child_pid").is_some() { small("pid") } else { None };
            let parent = parent.or_else(|| small("parent_pid")).unwrap_or(0);
            Event::Fork { parent, child, same_process: None }
        }
        "exit" | "process_exit" => Event::Exit { task: named("")? },
        "rename" | "comm" | "task_rename" | "exec" | "process_exec" => {
            let mut task = named("")?;
            let renamed = ["new_comm", "newcomm"].iter().find_map(|key| event.get(*key).and_then(Value::as_str));
            task.comm = renamed.map(Comm::from).or(task.comm);
            match small("old_pid") {
                Some(from) if from != task.tid => Event::TakeOver { from, to: task.tid },
                _ => Event::Rename { task },
            }
        }
        "lost" => {
            let count = number("n").or_else(|| number("count")).or_else(|| number("events")).unwrap_or(0);
            Event::Lost { count, everywhere: event.get("cpu").is_none() }
        }
        _ => return Err(format!("the runner does not know the event {event}")),
    };
    let at = number("t").ok_or_else(|| format!("no t in {event}"))?;
    Ok(Record { at: BootNs(at), cpu: small("cpu").unwrap_or(0), event: what, current: None })
}
