/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * What leaves the kernel: the records of the ring and the shared slots. The only home of these layouts;
 * src/receivers/sched/wire.rs mirrors them and proves sizes and offsets at compile time.
 * Plain C integers, so that it parses without kernel headers.
 *
 * Clocks: "clock" is the run queue's own (rq->clock, ns); "boot" is CLOCK_BOOTTIME (ns). One clock record
 * now and then ties them, so that no program reads a clock per switch.
 */
#ifndef SCHED_H
#define SCHED_H

#define COMM_LEN 16
#define BUCKETS 14		/* the exported bounds and one for the rest, see model/histogram.rs */
#define LOG_SLICES 64		/* slices remembered per CPU, a power of two */
#define CULPRITS 8		/* distinct tasks charged per wait */
#define PATH_LEN 1024		/* of a cgroup, longer ones are cut and flagged */
#define NAME_LEN 256		/* of one part of a path, the kernel's NAME_MAX and a NUL */
#define NODES 32		/* parts of a path */
#define PARENTS 256		/* cgroups whose own path was told, remembered by the low bits of their ids */
#define SLOT_NONE 0		/* no slot: totals fold into it */
#define SLOT_CACHE 8
#define FOLLOW_FILTER 8192	/* processes told apart before a lookup, a power of two */
#define CONTEXT_PLACES 4096	/* processes whose threads publish their active span */
#define OWN_TIME_EVERY 1024	/* switches, a power of two */
#define WATCHED 4096		/* processes of which every cycle is told */

enum record_kind {
	RECORD_CYCLE = 1,
	RECORD_TASK = 2,
	RECORD_EXIT = 3,
	RECORD_CLOCK = 4,
	RECORD_CGROUP = 5,
	RECORD_MOVED = 6,		/* a process changed its cgroup: its other threads want a collection now */
	RECORD_EXEC = 7,		/* a process runs another program */
	RECORD_NODE = 8,		/* a part of the path of a cgroup that was there before us */
	RECORD_THREAD = 9,		/* what a thread did so far */
};

enum run_end { END_BLOCKED, END_PREEMPTED, END_THROTTLED, END_EXITED };

enum block_state { STATE_NONE, STATE_S, STATE_D, STATE_T, STATE_OTHER };

/* Why a cycle was selected; the bits of model::Reasons. */
enum reason {
	REASON_THROTTLE = 1 << 0,
	REASON_FOREIGN = 1 << 1,
	REASON_WAIT = 1 << 2,
	REASON_CONTEXT = 1 << 3,
	REASON_BLOCK = 1 << 4,
	REASON_RUN = 1 << 5,
	REASON_SAMPLE = 1 << 6,
	REASON_HISTORY = 1 << 7,	/* its process is watched; passes the buckets */
};

/* Why a process' threads are followed from switch-out to switch-out; bits of orders.follows. */
enum follow {
	FOLLOW_CONTEXT = 1 << 0,	/* they publish their active span */
	FOLLOW_HISTORY = 1 << 1,	/* every cycle is told */
};

enum cycle_flag {
	FLAG_WAIT_KNOWN = 1 << 0,	/* the start of the wait was seen */
	FLAG_BLOCK_KNOWN = 1 << 1,	/* block holds the length of the block before the wait */
	FLAG_WAKER = 1 << 2,		/* a who_entry of the waker follows */
	FLAG_CONTEXT = 1 << 3,		/* a context_entry follows, after the waker */
};

/* Who: a waker or a culprit, with ns charged. */
struct who_entry {
	unsigned int tid;
	unsigned int slot;
	unsigned long long ns;
	char comm[COMM_LEN];
};

/* A thread's active span, as it published it; as large as a who_entry, since it follows those. */
struct context_entry {
	unsigned long long trace[2];		/* bytes in W3C order; words, so that they are copied as such */
	unsigned long long span;
	unsigned char flags;			/* W3C trace flags: bit 0 is sampled */
	unsigned char known;
	unsigned char covers_run;		/* it was the same at both ends of the run */
	unsigned char shared;			/* told by other instrumentation, not by the thread */
	unsigned char pad[4];
};

/* Where the threads of a process keep the pointer to their record. */
struct context_place {
	unsigned long long start;		/* of the group leader, boot: a reused pid is another process */
	long long offset;			/* from the thread pointer, or in the module's block */
	unsigned int module;			/* 0: in the static block, at an offset from the thread pointer */
	int vector_at;				/* the pointer to the vector of blocks, from the thread pointer */
	unsigned int entry_bytes;		/* of that vector */
	unsigned short shared;			/* they do not: other instrumentation does, in a map that it pins */
	unsigned short beside;			/* the last record lay right behind the pointer to it */
};

/* Value of the map `traces_ctx_v1` that other instrumentation pins, by (process << 32 | thread). */
struct shared_context {
	unsigned long long trace[2];
	unsigned long long span;
};

/* What user space tells the programs while they run. */
struct orders {
	unsigned char follows[FOLLOW_FILTER];	/* which processes may be, and why, by the low bits of the process id */
	unsigned long long places_told;		/* changes of `context_places` by user space */
	unsigned long long tightened;		/* steps; each halves the rates of selected cycles */
};

/* One cycle; `culprits` entries, FLAG_WAKER's and FLAG_CONTEXT's entry follow. */
struct cycle_record {
	unsigned char kind;
	unsigned char end;
	unsigned char state;
	unsigned char flags;
	unsigned short cpu;
	unsigned char reasons;
	unsigned char culprits;
	unsigned int tid;
	unsigned int slot;
	unsigned long long clock;		/* switch-out */
	unsigned long long run;
	unsigned long long wait;		/* net of throttled */
	unsigned long long throttled;
	unsigned long long wait_before;		/* the part of wait before the throttled part */
	unsigned long long block;
};

/* A cycle with all that can follow it; built in per-CPU scratch, sent as long as it is. */
struct cycle_message {
	struct cycle_record record;
	struct who_entry who[CULPRITS + 2];
};

/* Identity, sent once per thread and name. */
struct task_record {
	unsigned char kind;
	unsigned char kernel_thread;
	unsigned short pad;
	unsigned int tid;
	unsigned int tgid;
	unsigned int slot;
	unsigned long long start_boot;
	unsigned long long leader_start_boot;
	char comm[COMM_LEN];
};

struct exit_record {
	unsigned char kind;
	unsigned char pad[3];
	unsigned int tid;
};

struct exec_record {
	unsigned char kind;
	unsigned char pad[3];
	unsigned int tgid;
	unsigned long long leader_start_boot;
};

struct clock_record {
	unsigned char kind;
	unsigned char pad;
	unsigned short cpu;
	unsigned int pad2;
	unsigned long long clock;
	unsigned long long boot;
};

/* What a thread did since it is counted, in ns and events; only ever more of all together, though an open slice may
 * turn out to be another state. */
struct thread_totals {
	unsigned long long life;
	unsigned long long run;
	unsigned long long delay;		/* waited and throttled */
	unsigned long long throttled;
	unsigned long long stolen;
	unsigned long long d;
	unsigned long long t;
	unsigned long long other;
	unsigned long long voluntary;
	unsigned long long involuntary;
	unsigned long long migrations;
};

/* The same as told: at each collection, before it moves to another cgroup, and at its end. */
struct thread_record {
	unsigned char kind;
	unsigned char ended;
	unsigned short pad;
	unsigned int tid;
	unsigned int slot;
	unsigned int pad2;
	struct thread_totals totals;
};

/* A cgroup was made or removed. `path` is sent as long as it is. */
struct cgroup_record {
	unsigned char kind;
	unsigned char removed;
	unsigned short path_bytes;		/* the final NUL not counted */
	unsigned int slot;
	unsigned long long id;
	unsigned long long serial;
	char path[PATH_LEN];
};

/* A cgroup's own name, and its parent's id: 0 for the hierarchy's root. `name` is sent as long as it is. */
struct node_record {
	unsigned char kind;
	unsigned char pad;
	unsigned short name_bytes;		/* the final NUL not counted */
	unsigned int pad2;
	unsigned long long id;
	unsigned long long parent;
	char name[NAME_LEN];
};

/* Totals of one cgroup, from its tasks' own counters. Added to atomically by the few places that book. */
struct slot {
	unsigned long long id;
	unsigned long long serial;
	unsigned long long life;
	unsigned long long run;
	unsigned long long delay;		/* waited and throttled */
	unsigned long long voluntary;
	unsigned long long involuntary;
	unsigned long long migrations;
	/* token bucket: theoretical arrival, clock ns */
	unsigned long long bucket;
	/* what is open at the read of `generation`; the collecting program alone writes these */
	unsigned long long generation;
	unsigned long long open_run;
	unsigned long long open_wait;
	unsigned long long open_throttled;
	unsigned long long open_d;
	unsigned long long open_t;
	unsigned long long open_other;
	unsigned long long longest_open;
	unsigned int threads;
	unsigned int starving;
	unsigned int excluded;			/* written by user space: no spans */
	unsigned int path_told;			/* user space has its path */
};

/* What the switch program adds to, per slot and CPU: nobody else writes the line. */
struct slot_cpu {
	unsigned long long wait[BUCKETS];
	unsigned long long wait_sum;
	unsigned long long throttle[BUCKETS];
	unsigned long long throttle_sum;
	unsigned long long stolen;
	unsigned long long d;
	unsigned long long t;
	unsigned long long other;
	unsigned long long switches;		/* switch-outs seen */
	/* the longest wait of the running generation and of the one before, by its lowest bit */
	unsigned long long longest[2];
	unsigned long long generation[2];
} __attribute__((aligned(128)));

/* The same for run and block histograms, in a map of its own: most configs do not ask for them. */
struct slot_slices {
	unsigned long long run[BUCKETS];
	unsigned long long run_sum;
	unsigned long long block[BUCKETS];
	unsigned long long block_sum;
} __attribute__((aligned(128)));

/* One finished slice on a CPU. */
struct slice {
	unsigned long long end;
	unsigned int tid;
	unsigned int slot;
	char comm[COMM_LEN];
};

/* What a CPU knows between two switches; nobody else writes it. */
struct cpu_state {
	unsigned int tid;			/* the task that was switched in */
	unsigned int slot;
	unsigned int flags;
	unsigned int reasons;
	unsigned long long involuntary;		/* its counter at switch-in */
	unsigned long long executed;		/* the same; the kernel's own begins anew within a slice (nice, exit) */
	unsigned long long wait;
	unsigned long long throttled;
	unsigned long long wait_before;
	unsigned long long block;
	unsigned int state;
	unsigned int random;
	unsigned long long clock_sent;		/* of the last clock record */
	unsigned long long switches;		/* all switch-outs, the idle task's too */
	unsigned long long idle_switches;
	/* losses of records, by reason */
	unsigned long long ring_full;
	unsigned long long rate_limited;
	unsigned long long no_storage;
	unsigned long long map_full;
	unsigned long long unknown_start;
	unsigned long long clock_backwards;
	unsigned long long sent;
	/* what the switch program takes until it looks at the next task, of one switch in OWN_TIME_EVERY */
	unsigned long long own_begin;		/* of the run that is timed; 0: it is not */
	unsigned long long own_ns;
	unsigned long long own_samples;
	/* thread contexts that could not be used */
	unsigned long long contexts_unread;	/* the memory was not there */
	unsigned long long contexts_invalid;	/* one id without the other */
	unsigned long long contexts_stale;	/* a switch-out between was not shown to us */
	unsigned long long cache_id[SLOT_CACHE];
	unsigned int cache_slot[SLOT_CACHE];
	struct who_entry waker;
	struct context_entry context;		/* of the cycle that ends */
	struct context_place place;		/* of the process that was followed here last, */
	unsigned long long place_changes;	/* as of this many changes of `context_places`, */
	unsigned int place_tgid;
	unsigned int pad_place;
	unsigned int log_head;
	unsigned int pad;
	unsigned long long charge_since;	/* the wait that is being charged */
	unsigned long long charge_until;
	struct slice log[LOG_SLICES];
	struct cycle_message message;
} __attribute__((aligned(128)));

/* What a collection says of itself. */
struct collect_args {
	unsigned long long generation;		/* its number */
	unsigned long long boot;		/* the time of the read */
	unsigned long long clock;		/* the same as a run queue clock, estimated */
	unsigned int tasks;
	unsigned int self_tgid;			/* ours, as the kernel sees it */
	unsigned int no_storage;
	unsigned int untold;			/* threads that the ring had no room for */
	unsigned long long self_cgroup;		/* ours; 0: not seen */
};

/* Set before loading. */
struct settings {
	unsigned char on_v2;			/* identity is the v2 cgroup; else the cpu controller's */
	unsigned char spans;			/* anything may be selected */
	unsigned char blocks;			/* the waking program is attached */
	unsigned char run_histogram;
	unsigned char block_histogram;
	unsigned char foreign_preemption;
	unsigned char stolen;			/* rq tells steal or interrupt time */
	unsigned char throttle_clock;		/* cfs_rq tells throttled time */
	unsigned char throttle_hook;		/* it does not, and our hooks keep a clock */
	unsigned char exclude_self;
	unsigned char contexts;			/* threads may publish their active span */
	unsigned char sampled_context;		/* a sampled one is a reason */
	unsigned char history;			/* processes may be watched */
	unsigned char tell_paths;		/* user space sees no cgroup file system */
	unsigned char tell_threads;		/* what each thread did is told apart */
	unsigned char pad;
	unsigned int hierarchy;			/* id of the hierarchy whose cgroups we follow, 0 = v2 */
	unsigned int cpus;			/* possible CPUs */
	unsigned int slots;
	unsigned int sample;			/* of 2^32 */
	unsigned long long wait;		/* thresholds, ns; ~0 = never */
	unsigned long long throttle;
	unsigned long long block;
	unsigned long long run;
	unsigned long long cgroup_interval;	/* ns between two cycles of a cgroup; 0 = no limit */
	unsigned long long total_interval;
	unsigned long long starvation;
	unsigned long long wakeup_bytes;	/* ring fill that wakes user space */
};

#endif
