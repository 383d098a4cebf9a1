/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * What leaves the kernel by the programs on classic tracepoints: each event's fields as the kernel laid them out.
 * src/receivers/sched/events/raw.rs reads them by the tracepoint's own format file. Plain C integers.
 */
#ifndef EVENTS_H
#define EVENTS_H

#define FIELD_BYTES 80		/* of an event: sched_switch has 64, 72 where the kernel is PREEMPT_RT */

/* In the order of the list in raw.rs. */
enum event_kind {
	EVENT_SWITCH,
	EVENT_WAKING,
	EVENT_WAKEUP,
	EVENT_WAKEUP_NEW,
	EVENT_MIGRATE,
	EVENT_FORK,
	EVENT_EXIT,
	EVENT_EXEC,
	EVENT_RENAME,
};

struct raw_event {
	unsigned long long boot;	/* when */
	unsigned int tid;		/* of the task on the CPU */
	unsigned int pid;		/* and its process */
	unsigned int cpu;
	unsigned int lost;		/* events of this CPU before this one that the ring had no room for */
	unsigned int kind;
	unsigned int pad;
	unsigned char fields[FIELD_BYTES];
};

#endif
