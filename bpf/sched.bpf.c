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
#include "book.h"
#include "cycle.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* How prev's run ended, by the kernel's own counters: they are already raised here. */
static __always_inline u32 run_end(struct cpu_state *cpu, struct task_struct *prev, u32 prev_state)
{
	if (prev_state & TASK_DEAD)
		return END_EXITED;
	if (prev->nivcsw == cpu->involuntary)
		return END_BLOCKED;
	if (bpf_core_field_exists(prev->throttled)) {
		if (prev->throttled)
			return END_THROTTLED;
	} else if (prev->se.cfs_rq->throttle_count > 0) {
		return END_THROTTLED;
	}
	return END_PREEMPTED;
}

static __always_inline void leave(struct cpu_state *cpu, u32 cpu_id, struct task_struct *prev,
				  struct task_struct *next, u32 prev_state, u64 now)
{
	u32 slot = cpu->slot;
	u64 arrival = prev->sched_info.last_arrival;
	bool known = cpu->tid == prev->pid;

	if (!known)
		slot = slot_cached(cpu, prev);
	if (settings.throttle_clock)
		throttle_seen(prev->se.cfs_rq);
	struct slot_cpu *totals = slot_cpu(slot, cpu_id);
	if (!totals)
		return;
	totals->switches++;
	if (now < arrival) {
		cpu->clock_backwards++;
		return;
	}
	u64 run = now - arrival;
	if (settings.run_histogram) {
		struct slot_slices *slices = slot_slices_of(slot, cpu_id);
		if (slices) {
			slices->run[bucket_of(run)]++;
			slices->run_sum += run;
		}
	}
	if (settings.stolen && known) {
		u64 executed = prev->se.sum_exec_runtime - prev->se.prev_sum_exec_runtime;
		if (run > executed)
			totals->stolen += run - executed;
	}
	u32 end = run_end(cpu, prev, prev_state);
	if (end == END_BLOCKED && prev_state && state_of(prev_state) != STATE_S) {
		/* sleeps other than S are rare enough to note their begin; state 0 here is a sleep that a pending
		 * signal cancelled: counted as voluntary, yet still runnable */
		struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);
		if (state) {
			state->block_start = now;
			state->block_state = state_of(prev_state);
		}
	}
	/* until the first collection the threads found at start have no storage */
	if (!settings.spans || !began || prev->tgid == self_tgid)
		return;
	if (end == END_PREEMPTED && settings.foreign_preemption && next->pid && !(next->flags & PF_KTHREAD) &&
	    slot_cached(cpu, next) != slot) {
		struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);
		if (state)
			state->preempted_by_foreign = now;
	}
	u32 reasons = known ? cpu->reasons : 0;
	if (run >= settings.run)
		reasons |= REASON_RUN;
	if (!reasons)
		return;
	if (!known) {
		cpu->unknown_start++;
		return;
	}
	send_clock(cpu, now);
	cpu->message.record.kind = RECORD_CYCLE;
	cpu->message.record.end = end;
	send_cycle(cpu, prev, reasons, now, run);
}

/* The block before the wait that just ended, where its begin is known: from the waking program, or noted at
 * switch-out. S blocks below a millisecond are not looked up. */
static __always_inline void enter_block(struct cpu_state *cpu, struct slot_cpu *totals, struct task_struct *next,
					u64 queued, u64 gap)
{
	if (!settings.block_histogram && !next->sched_contributes_to_load && gap < 1000000)
		return;
	struct task_state *state = bpf_task_storage_get(&tasks, next, 0, 0);
	if (!state)
		return;
	u64 start = state->block_start;
	if (start <= next->sched_info.last_arrival || start > queued)
		return;
	u64 block = queued - start, ours = start < began ? (queued > began ? queued - began : 0) : block;
	if (state->block_state == STATE_D)
		totals->d += ours;
	else if (state->block_state == STATE_T)
		totals->t += ours;
	else if (state->block_state == STATE_OTHER)
		totals->other += ours;
	if (settings.block_histogram) {
		struct slot_slices *slices = slot_slices_of(cpu->slot, bpf_get_smp_processor_id());
		if (slices) {
			slices->block[bucket_of(block)]++;
			slices->block_sum += block;
		}
	}
	cpu->block = block;
	cpu->state = state->block_state;
	cpu->flags |= FLAG_BLOCK_KNOWN;
	if (block >= settings.block)
		cpu->reasons |= REASON_BLOCK;
	if (state->waker_of == start) {
		cpu->waker = state->waker;
		cpu->flags |= FLAG_WAKER;
	}
}

static __always_inline void enter_wait(struct cpu_state *cpu, struct slot_cpu *totals, struct task_struct *next,
				       u64 queued, u64 now)
{
	struct stay stay;

	stay_in(&stay, next->se.cfs_rq, queued, now);
	if (throttle_possible(&stay))
		throttled_part(&stay);
	u64 throttled = stay.throttled, wait = now - queued - throttled;
	cpu->wait = wait;
	cpu->throttled = throttled;
	cpu->wait_before = throttled ? stay.first - queued : 0;
	cpu->flags |= FLAG_WAIT_KNOWN;
	totals->wait[bucket_of(wait)]++;
	totals->wait_sum += wait;
	if (throttled) {
		totals->throttle[bucket_of(throttled)]++;
		totals->throttle_sum += throttled;
		if (throttled >= settings.throttle)
			cpu->reasons |= REASON_THROTTLE;
	}
	u64 gen = generation;
	u32 half = gen & 1;
	if (totals->generation[half] != gen) {
		totals->generation[half] = gen;
		totals->longest[half] = 0;
	}
	if (wait > totals->longest[half])
		totals->longest[half] = wait;
	if (wait >= settings.wait)
		cpu->reasons |= REASON_WAIT;
	if (settings.foreign_preemption && wait >= 100000) {
		struct task_state *state = bpf_task_storage_get(&tasks, next, 0, 0);
		if (state && state->preempted_by_foreign == queued)
			cpu->reasons |= REASON_FOREIGN;
	}
}

static __always_inline void enter(struct cpu_state *cpu, u32 cpu_id, struct task_struct *next, u64 now)
{
	u32 slot = slot_cached(cpu, next);
	struct slot_cpu *totals = slot_cpu(slot, cpu_id);
	u64 queued = next->sched_info.last_queued;

	cpu->tid = next->pid;
	cpu->slot = slot;
	cpu->involuntary = next->nivcsw;
	cpu->flags = cpu->reasons = cpu->state = 0;
	cpu->wait = cpu->throttled = cpu->wait_before = cpu->block = 0;
	if (!totals || !queued)
		return;
	if (queued > now) {
		cpu->clock_backwards++;
		return;
	}
	enter_wait(cpu, totals, next, queued, now);
	u64 arrival = next->sched_info.last_arrival;
	if (arrival && queued > arrival)
		enter_block(cpu, totals, next, queued, queued - arrival);
	if (settings.spans && settings.sample) {
		/* the cohort is drawn once, before anything of the run is known */
		cpu->random = cpu->random * 1664525 + 1013904223;
		if (cpu->random < settings.sample)
			cpu->reasons |= REASON_SAMPLE;
	}
}

static __always_inline void remember(struct cpu_state *cpu, struct task_struct *prev, u32 slot, u64 now)
{
	struct slice *slice = &cpu->log[cpu->log_head & (LOG_SLICES - 1)];
	slice->end = now;
	slice->tid = prev->pid;
	slice->slot = slot;
	copy_comm(slice->comm, prev->comm);
	cpu->log_head++;
}

static __always_inline int on_switch(struct task_struct *prev, struct task_struct *next, u32 prev_state)
{
	struct cpu_state *cpu = this_cpu();
	if (!cpu)
		return 0;
	u32 cpu_id = bpf_get_smp_processor_id();
	u64 now = prev->se.cfs_rq->rq->clock;

	cpu->switches++;
	if (prev->pid)
		leave(cpu, cpu_id, prev, next, prev_state, now);
	else
		cpu->idle_switches++;
	if (settings.spans)
		remember(cpu, prev, prev->pid ? (prev->flags & PF_KTHREAD ? SLOT_NONE : cpu->slot) : SLOT_NONE, now);
	if (next->pid) {
		enter(cpu, cpu_id, next, now);
	} else {
		cpu->tid = 0;
		cpu->slot = SLOT_NONE;
	}
	return 0;
}

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

/* A record that is no more than a thread's id; false where the ring has no room. */
static __always_inline bool send_tid(u32 kind, u32 tid, u64 flags)
{
	struct exit_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = kind;
	record->tid = tid;
	bpf_ringbuf_submit(record, flags);
	return true;
}

/* The last that is heard of a thread: its counters are final since its last switch. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return 0;
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	book(state, &look);
	if (state->told && !send_tid(RECORD_EXIT, p->pid, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&exit_records_lost, 1);
	return 0;
}

static __always_inline void moved(struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return;
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	book(state, &look);
	settle(p, state);
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

/* The hooks of a throttled clock of our own. Called for the throttled group and once for each below it, per CPU;
 * own and ancestor's quota together call twice: throttle_count, not yet changed here, tells the outermost. */
static __always_inline void throttle_hook(struct task_group *group, void *data, bool begins)
{
	struct rq *rq = data;
	struct cfs_rq **queues = BPF_CORE_READ(group, cfs_rq), *queue = NULL;
	u32 cpu = BPF_CORE_READ(rq, cpu);

	if (bpf_probe_read_kernel(&queue, sizeof(queue), queues + cpu) || !queue)
		return;
	int depth = BPF_CORE_READ(queue, throttle_count);
	u64 now = BPF_CORE_READ(rq, clock);
	if (begins ? depth != 0 : depth != 1)
		return;
	struct throttle_log *log = throttle_log_make(queue, 0);
	if (!log)
		return;
	throttles_seen = 1;
	if (begins)
		log->begin = now;
	else if (log->begin)
		throttle_add(log, log->begin, now);
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

static __always_inline int cgroup_event(struct cgroup *group, const char *path, bool removed)
{
	if (group->root->hierarchy_id != settings.hierarchy)
		return 0;
	struct cgroup_record *record = &cgroup_scratch;
	u64 id = group->kn->id;
	record->kind = RECORD_CGROUP;
	record->removed = removed;
	record->id = id;
	record->serial = group->self.serial_nr;
	if (removed) {
		u32 *slot = bpf_map_lookup_elem(&slot_of, &id);
		record->slot = slot ? *slot : SLOT_NONE;
	} else {
		record->slot = slot_make(id, record->serial);
	}
	long bytes = bpf_probe_read_kernel_str(record->path, PATH_LEN, path);
	if (bytes < 1)
		bytes = 1;
	if (bytes > PATH_LEN)
		bytes = PATH_LEN;
	record->path_bytes = bytes - 1;
	u32 size = (sizeof(*record) - PATH_LEN) + bytes;
	if (bpf_ringbuf_output(&ring, record, size & 2047, ring_flags()))
		__sync_fetch_and_add(&cgroup_records_lost, 1);
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

static __always_inline void begin_collection(struct collect_args *args)
{
	args->self_tgid = bpf_get_current_pid_tgid() >> 32;
	if (settings.exclude_self)
		self_tgid = args->self_tgid;
	args->boot = bpf_ktime_get_boot_ns();
	/* a run queue's clock is never ahead of time: the smallest difference seen is the nearest */
	u64 sample = args->boot - ((struct task_struct *)bpf_get_current_task_btf())->se.cfs_rq->rq->clock;
	if (!settings.spans || !boot_minus_clock || sample < boot_minus_clock)
		boot_minus_clock = sample;
	args->clock = args->boot - boot_minus_clock;
	if (!began)
		began = args->clock;
	args->generation = ++generation;
	args->tasks = args->no_storage = 0;
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
