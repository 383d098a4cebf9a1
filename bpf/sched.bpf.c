// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The programs. One switch is seen once, at sched_switch: what prev's run, wait and block were is then
 * known from the kernel's own stamps (sched_info, se), so that no clock is read and no per-task map is
 * touched unless the cycle may become a span. Totals are not summed here at all: collect() reads them from
 * the tasks' own counters.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "sched.h"
#include "maps.h"
#include "slots.h"
#include "throttle.h"
#include "paths.h"
#include "book.h"
#include "cycle.h"
#include "threads.h"
#include "context.h"
#include "follow.h"
#include "switch.h"
#include "cgroups.h"
#include "collect.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	return on_switch(prev, next, preempt ? 0 : prev_state);
}

/* The tracepoint of kernels that do not pass prev_state. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch_3, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return on_switch(prev, next, preempt ? 0 : task_raw_state(prev));
}

/* A block is over: its begin and state are still there, and the waker is current. Attached only where
 * blocks or wakers are asked for; only blocks that may be chosen touch the task's storage. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	u32 raw = task_raw_state(p);
	if (!(raw & 0xf))
		return 0;
	u64 start = life_end(p);
	struct task_struct *waker = (void *)bpf_get_current_task_btf();
	u64 now = waker->pid ? waker->se.cfs_rq->rq->clock : bpf_ktime_get_boot_ns() - boot_minus_clock;
	/* the clock of the waker's run queue may be a tick old */
	if (!settings.block_histogram && (s64)(now - start) + 4000000 < (s64)settings.block)
		return 0;
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return 0;
	if (state->block_start <= p->sched_info.last_arrival) {
		state->block_start = start;
		state->block_state = state_of(raw);
	}
	state->waker_of = state->block_start;
	state->waker.tid = waker->pid;
	state->waker.ns = 0;
	state->waker.slot = waker->flags & PF_KTHREAD ? SLOT_NONE : slot_of_cgroup(cgroup_of(waker));
	copy_comm(state->waker.comm, waker->comm);
	return 0;
}

/* A thread is born: it is counted from zero, in the cgroup it is born in. */
SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		struct cpu_state *cpu = this_cpu();
		if (cpu)
			cpu->no_storage++;
		return 0;
	}
	settle(p, state);
	state->at = p->start_boottime;
	return 0;
}

/* A program begins in a process: what its memory held before is gone, and it may publish anew. Where the ring has no
 * room, user space hears of it at its first cycle. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *p)
{
	u32 tgid = p->tgid;
	if (!bpf_map_delete_elem(&context_places, &tgid))
		__sync_fetch_and_add(&places_gone, 1);
	struct exec_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return 0;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RECORD_EXEC;
	record->tgid = tgid;
	record->leader_start_boot = p->group_leader->start_boottime;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The last that is heard of a thread: what its last switch did not book, because no program was shown it or
 * there was never room for a storage. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	if (!state) {
		u32 zero = 0;
		struct task_state *unseen = bpf_map_lookup_elem(&unseen_states, &zero);
		if (!unseen || !born_here(p))
			return 0;
		__builtin_memset(unseen, 0, sizeof(*unseen));
		settle(p, unseen);
		unseen->at = p->start_boottime;
		book(unseen, &look);
		return 0;
	}
	book(state, &look);
	tell_booked(p, state, &look);
	if (state->told && !send_tid(RECORD_EXIT, p->pid, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&exit_records_lost, 1);
	return 0;
}

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, unsigned int flags) __weak __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __weak __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __weak __ksym;
extern void bpf_rcu_read_lock(void) __weak __ksym;
extern void bpf_rcu_read_unlock(void) __weak __ksym;

enum { ITER_ALL_THREADS = 1, ITER_PROC_THREADS = 2 };

/* A process moves once for all its threads, and this fires for its leader, after the move: what was done
 * until now is the old cgroup's. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *group, const char *path, struct task_struct *task, bool threadgroup)
{
	if (group->root->hierarchy_id != settings.hierarchy)
		return 0;
	if (!threadgroup) {
		moved(task);
		return 0;
	}
	struct bpf_iter_task it;
	struct task_struct *p;
	bpf_rcu_read_lock();
	bpf_iter_task_new(&it, task, ITER_PROC_THREADS);
	while ((p = bpf_iter_task_next(&it)))
		moved(p);
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* Where threads cannot be walked from here: the leader at once, the others by a collection that user space
 * makes as soon as it hears of the move. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_leader, struct cgroup *group, const char *path, struct task_struct *task, bool threadgroup)
{
	if (group->root->hierarchy_id != settings.hierarchy)
		return 0;
	moved(task);
	if (!threadgroup)
		return 0;
	if (!send_tid(RECORD_MOVED, task->pid, BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&cgroup_records_lost, 1);
	return 0;
}

SEC("fentry/tg_throttle_down")
int BPF_PROG(tg_throttle_down, struct task_group *group, void *data)
{
	throttle_hook(group, data, true);
	return 0;
}

SEC("fentry/tg_unthrottle_up")
int BPF_PROG(tg_unthrottle_up, struct task_group *group, void *data)
{
	throttle_hook(group, data, false);
	return 0;
}

/* The same where fentry cannot attach (arm64 before its kernels had direct calls). */
SEC("kprobe/tg_throttle_down")
int tg_throttle_down_probe(struct pt_regs *regs)
{
	throttle_hook((void *)first_argument(regs), (void *)second_argument(regs), true);
	return 0;
}

SEC("kprobe/tg_unthrottle_up")
int tg_unthrottle_up_probe(struct pt_regs *regs)
{
	throttle_hook((void *)first_argument(regs), (void *)second_argument(regs), false);
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_mkdir, struct cgroup *group, const char *path)
{
	return cgroup_event(group, path, false);
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_rmdir, struct cgroup *group, const char *path)
{
	return cgroup_event(group, path, true);
}

/* The same where the open-coded iterator is not to be had: sees only the pid namespace of who reads it. */
SEC("iter/task")
int collect_iter(struct bpf_iter__task *context)
{
	struct task_struct *p = context->task;

	if (context->meta->seq_num == 0)
		begin_collection(&iter_args);
	if (p)
		collect_task(p, &iter_args);
	return 0;
}

/* Reads every task's counters, from any pid namespace. Run on demand. */
SEC("syscall")
int collect(struct collect_args *args)
{
	struct bpf_iter_task it;
	struct task_struct *p;

	begin_collection(args);
	bpf_rcu_read_lock();
	bpf_iter_task_new(&it, NULL, ITER_ALL_THREADS);
	while ((p = bpf_iter_task_next(&it)))
		collect_task(p, args);
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}
