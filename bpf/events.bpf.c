// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Every scheduling event as it is, by the classic static tracepoints: for kernels without BTF or without task storage,
 * where the programs that keep totals cannot be had. No struct of the kernel is known here. The reference machine in
 * user space makes cycles and totals of the events.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "events.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} lost SEC(".maps");

const struct raw_event *layout_event;	/* so that the type is in our BTF */

static __always_inline int tell(void *fields, u32 kind)
{
	u32 zero = 0, *missed = bpf_map_lookup_elem(&lost, &zero);
	struct raw_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		if (missed)
			*missed += 1;
		return 0;
	}
	u64 current = bpf_get_current_pid_tgid();
	event->tid = (u32)current;
	event->pid = current >> 32;
	event->cpu = bpf_get_smp_processor_id();
	event->kind = kind;
	event->pad = 0;
	event->lost = missed ? *missed : 0;
	if (missed)
		*missed = 0;
	/* behind the fields lies the rest of the kernel's own buffer */
	if (bpf_probe_read_kernel(event->fields, sizeof(event->fields), fields))
		event->kind = ~0U;
	/* last: a place in the ring that was got earlier is not of a later time */
	event->boot = bpf_ktime_get_boot_ns();
	/* the reader looks by itself: a wakeup would be an event too */
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tracepoint/sched/sched_switch")
int on_switch(void *fields)
{
	return tell(fields, EVENT_SWITCH);
}

SEC("tracepoint/sched/sched_waking")
int on_waking(void *fields)
{
	return tell(fields, EVENT_WAKING);
}

SEC("tracepoint/sched/sched_wakeup")
int on_wakeup(void *fields)
{
	return tell(fields, EVENT_WAKEUP);
}

SEC("tracepoint/sched/sched_wakeup_new")
int on_wakeup_new(void *fields)
{
	return tell(fields, EVENT_WAKEUP_NEW);
}

SEC("tracepoint/sched/sched_migrate_task")
int on_migrate(void *fields)
{
	return tell(fields, EVENT_MIGRATE);
}

SEC("tracepoint/sched/sched_process_fork")
int on_fork(void *fields)
{
	return tell(fields, EVENT_FORK);
}

SEC("tracepoint/sched/sched_process_exit")
int on_exit(void *fields)
{
	return tell(fields, EVENT_EXIT);
}

SEC("tracepoint/sched/sched_process_exec")
int on_exec(void *fields)
{
	return tell(fields, EVENT_EXEC);
}

SEC("tracepoint/task/task_rename")
int on_rename(void *fields)
{
	return tell(fields, EVENT_RENAME);
}
