/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * The maps and the settings. Sizes that depend on the host (possible CPUs, slots, ring) are set by user
 * space before loading.
 */
#ifndef MAPS_H
#define MAPS_H

/* Per thread; made at fork and by the first collection, outside the run queue's lock. */
struct task_state {
	/* what was already counted, and for which slot */
	u64 run;
	u64 delay;
	u64 voluntary;
	u64 involuntary;
	u64 migrations;
	u64 at;				/* boot: its life is counted up to here */
	u64 cgroup_id;
	u32 slot;
	u32 ended;			/* its life is over and counted */
	/* the block that goes on or just ended */
	u64 block_start;		/* clock */
	u32 block_state;
	u32 told;			/* user space knows its identity under told_comm */
	char told_comm[COMM_LEN];
	u64 preempted_by_foreign;	/* clock of the switch-out */
	struct who_entry waker;
	u64 waker_of;			/* the block_start it belongs to */
	/* of a followed thread, at its last switch-out: its count of switches, */
	u64 followed_switches;
	u64 followed_out;		/* the clock, */
	u64 followed_delay;		/* what it had waited in its life, */
	struct context_entry context;	/* and what it published */
	struct thread_totals own;	/* where threads are told apart, */
	u32 own_ended;			/* and whether its end was told */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* Of a task that is freed and never had a storage; too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_state);
} unseen_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Index: slot * cpus + cpu. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot_cpu);
} slot_cpus SEC(".maps");

/* The same index; one entry where neither run nor block histograms are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot_slices);
} slot_slices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_state);
} cpus SEC(".maps");

/* cgroup id -> slot */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} slot_of SEC(".maps");

/* Slots that nobody uses, the lowest on top; filled by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, u32);
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* The last throttled episodes of a (task group, CPU). */
struct throttle_log {
	u64 counted;			/* throttled_clock_self_time that is in the episodes */
	u64 begin;			/* of the episode that goes on, 0 = none seen */
	u64 from[4];
	u64 to[4];
	u32 head;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct throttle_log);
} throttles SEC(".maps");

/* tgid -> where its threads publish; written by user space */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CONTEXT_PLACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct context_place);
} context_places SEC(".maps");

struct shared_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct shared_context);
};

/* The map that other instrumentation pins, once user space has found it: it may come and go while we run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct shared_map);
} shared_contexts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct orders);
} orders SEC(".maps");

/* tgid -> start of the group leader, boot; written by user space */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WATCHED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u64);
} watched SEC(".maps");

const volatile struct settings settings;

/* The layouts above, kept in BTF for user space's compile-time proof. */
const volatile struct cycle_message layout_cycle;
const volatile struct task_record layout_task;
const volatile struct exit_record layout_exit;
const volatile struct exec_record layout_exec;
const volatile struct clock_record layout_clock;
const volatile struct cgroup_record layout_cgroup;
const volatile struct context_entry layout_context;
const volatile struct context_place layout_place;
const volatile struct thread_record layout_thread;
const volatile struct shared_context layout_shared;

/* Written by user space and by programs while running. */
u64 began;				/* clock of the first collection: what was before is not ours */
u32 self_tgid;				/* gives no spans */
u64 generation;				/* of the running collection interval */
u64 total_bucket;			/* token bucket of all cgroups together */
u64 boot_minus_clock;			/* newest estimate */
u64 throttles_seen;			/* by our hooks */
u64 places_gone;			/* changes of `context_places` by the exec program */
u64 cgroup_records_lost;
u64 exit_records_lost;
u64 thread_records_lost;

struct collect_args iter_args;		/* of collect_iter, which has no arguments of its own */

/* Path of the cgroup that is being made: under cgroup_mutex, one at a time. */
struct cgroup_record cgroup_scratch;
struct node_record node_scratch;	/* the collection's alone */
u64 told_parents[PARENTS];

static __always_inline struct cpu_state *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline u64 ring_flags(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wakeup_bytes ? BPF_RB_FORCE_WAKEUP
										     : BPF_RB_NO_WAKEUP;
}

#endif
