//! Compile-time proof that `wire` reads what `bpf/sched.h` writes, and `raw` what `bpf/events.h` does: drift is a
//! build error.

use std::mem::{offset_of, size_of};

use super::skeleton::{events, types};
use crate::receivers::sched::events::raw;
use crate::receivers::sched::wire;

const _: () = {
    assert!(size_of::<types::cycle_record>() == wire::CYCLE_BYTES);
    assert!(size_of::<types::who_entry>() == wire::WHO_BYTES);
    assert!(size_of::<types::context_entry>() == wire::WHO_BYTES);
    assert!(offset_of!(types::context_entry, span) == 16 && offset_of!(types::context_entry, flags) == 24);
    assert!(offset_of!(types::context_entry, covers_run) == 26 && offset_of!(types::context_entry, shared) == 27);
    assert!(size_of::<types::shared_context>() == 24);
    assert!(offset_of!(types::who_entry, ns) == 8 && offset_of!(types::who_entry, comm) == 16);
    assert!(offset_of!(types::cycle_record, cpu) == 4 && offset_of!(types::cycle_record, reasons) == 6);
    assert!(offset_of!(types::cycle_record, culprits) == 7 && offset_of!(types::cycle_record, tid) == 8);
    assert!(offset_of!(types::cycle_record, slot) == 12 && offset_of!(types::cycle_record, clock) == 16);
    assert!(offset_of!(types::cycle_record, run) == 24 && offset_of!(types::cycle_record, wait) == 32);
    assert!(offset_of!(types::cycle_record, throttled) == 40 && offset_of!(types::cycle_record, wait_before) == 48);
    assert!(offset_of!(types::cycle_record, block) == 56);
    assert!(offset_of!(types::task_record, tid) == 4 && offset_of!(types::task_record, tgid) == 8);
    assert!(offset_of!(types::task_record, slot) == 12 && offset_of!(types::task_record, start_boot) == 16);
    assert!(offset_of!(types::task_record, leader_start_boot) == 24 && offset_of!(types::task_record, comm) == 32);
    assert!(offset_of!(types::exit_record, tid) == 4);
    assert!(offset_of!(types::exec_record, tgid) == 4);
    assert!(offset_of!(types::exec_record, leader_start_boot) == 8);
    assert!(offset_of!(types::clock_record, cpu) == 2 && offset_of!(types::clock_record, clock) == 8);
    assert!(offset_of!(types::clock_record, boot) == 16);
    assert!(offset_of!(types::cgroup_record, path_bytes) == 2 && offset_of!(types::cgroup_record, slot) == 4);
    assert!(offset_of!(types::cgroup_record, id) == 8 && offset_of!(types::cgroup_record, serial) == 16);
    assert!(offset_of!(types::cgroup_record, path) == wire::CGROUP_BYTES);
    assert!(offset_of!(types::node_record, name_bytes) == 2 && offset_of!(types::node_record, id) == 8);
    assert!(offset_of!(types::thread_record, tid) == 4 && offset_of!(types::thread_record, slot) == 8);
    assert!(offset_of!(types::thread_record, totals) == wire::THREAD_TOTALS_AT);
    assert!(offset_of!(types::thread_totals, delay) == 16 && offset_of!(types::thread_totals, throttled) == 24);
    assert!(offset_of!(types::thread_totals, stolen) == 32 && offset_of!(types::thread_totals, d) == 40);
    assert!(offset_of!(types::thread_totals, t) == 48 && offset_of!(types::thread_totals, other) == 56);
    assert!(offset_of!(types::thread_totals, voluntary) == 64 && offset_of!(types::thread_totals, involuntary) == 72);
    assert!(offset_of!(types::thread_totals, migrations) == 80);
    assert!(offset_of!(types::node_record, parent) == 16 && offset_of!(types::node_record, name) == wire::NODE_BYTES);
    type RawEvent = events::types::raw_event;
    assert!(size_of::<RawEvent>() == raw::BYTES && offset_of!(RawEvent, fields) == raw::FIELDS_AT);
    assert!(offset_of!(RawEvent, tid) == 8 && offset_of!(RawEvent, pid) == 12);
    assert!(offset_of!(RawEvent, cpu) == 16 && offset_of!(RawEvent, lost) == 20 && offset_of!(RawEvent, kind) == 24);
};
