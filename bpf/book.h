/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Exact totals from the kernel's own per-task counters: each read books the difference to what was already
 * counted for that task, to the cgroup it was in. The counters hold switches that no program was shown, and
 * waits that survived a migration.
 */
#ifndef BOOK_H
#define BOOK_H

static __always_inline u32 state_of(u32 state)
{
	if (state & 0x02)
		return state & 0x400 ? STATE_OTHER : STATE_D; /* D and not TASK_NOLOAD, else I */
	if (state & 0x01)
		return STATE_S;
	if (state & 0x0c)
		return STATE_T;
	return STATE_OTHER;
}

static __always_inline u32 task_raw_state(struct task_struct *p)
{
	if (bpf_core_field_exists(p->__state))
		return p->__state;
	struct task_struct___old *old = (void *)p;
	return BPF_CORE_READ(old, state);
}

static __always_inline bool is_on_cpu(struct task_struct *p)
{
	if (bpf_core_field_size(p->on_cpu) == 1)
		return ((struct task_struct___byte *)p)->on_cpu;
	return p->on_cpu;
}

static __always_inline void add(u64 *total, u64 value)
{
	if (value)
		__sync_fetch_and_add(total, value);
}

/* When a dead task's life ended, in clock ns: the end of its last slice. */
static __always_inline u64 life_end(struct task_struct *p)
{
	return p->sched_info.last_arrival + (p->se.sum_exec_runtime - p->se.prev_sum_exec_runtime);
}

/* Books what `p` did since the last look to the slot it was counted for. */
static __always_inline void book(struct task_struct *p, struct task_state *state, u64 boot)
{
	u32 index = state->slot;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return;
	u64 run = p->se.sum_exec_runtime, delay = p->sched_info.run_delay;
	u64 voluntary = p->nvcsw, involuntary = p->nivcsw, migrations = p->se.nr_migrations;

	add(&slot->run, run - state->run);
	add(&slot->delay, delay - state->delay);
	add(&slot->voluntary, voluntary - state->voluntary);
	add(&slot->involuntary, involuntary - state->involuntary);
	add(&slot->migrations, migrations - state->migrations);
	if (!state->ended) {
		if (p->exit_state && !is_on_cpu(p)) {
			u64 end = life_end(p) + boot_minus_clock;
			if (end < boot)
				boot = end;
			state->ended = 1;
		}
		if (boot > state->at) {
			add(&slot->life, boot - state->at);
			state->at = boot;
		}
	}
	state->run = run;
	state->delay = delay;
	state->voluntary = voluntary;
	state->involuntary = involuntary;
	state->migrations = migrations;
}

/* A task found at start begins at its counters then. */
static __always_inline void count_off(struct task_struct *p, struct task_state *state, u64 boot)
{
	state->run = p->se.sum_exec_runtime;
	state->delay = p->sched_info.run_delay;
	state->voluntary = p->nvcsw;
	state->involuntary = p->nivcsw;
	state->migrations = p->se.nr_migrations;
	state->at = boot;
	state->ended = p->exit_state != 0;
}

static __always_inline void settle(struct task_struct *p, struct task_state *state)
{
	struct cgroup *group = cgroup_of(p);
	state->cgroup_id = cgroup_id(group);
	state->slot = slot_of_cgroup(group);
}

/* Slices that are open at this read: a task that never switches, a task that still waits or sleeps. */
static __always_inline void add_open(struct task_struct *p, struct task_state *state, u64 clock, u64 gen)
{
	u32 index = state->slot;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return;
	if (slot->generation != gen) {
		slot->generation = gen;
		slot->open_run = slot->open_wait = slot->open_throttled = 0;
		slot->open_d = slot->open_t = slot->open_other = 0;
		slot->longest_open = 0;
		slot->threads = slot->starving = 0;
	}
	if (p->exit_state)
		return;
	slot->threads++;
	struct cfs_rq *queue = p->se.cfs_rq;
	u64 queued = p->sched_info.last_queued;
	if (is_on_cpu(p)) {
		/* its counters are as old as its run queue's clock, at most a tick where the tick is on */
		u64 then = queue->rq->clock;
		if (clock > then && clock - then < 1000000000ULL)
			slot->open_run += clock - then;
	} else if (queued) {
		if (clock <= queued)
			return;
		struct stay stay = { .since = queued, .now = clock };
		if (throttle_possible(queue))
			throttled_part(&stay, queue);
		u64 wait = clock - queued, throttled = stay.throttled;
		slot->open_wait += wait;
		slot->open_throttled += throttled;
		if (wait - throttled > slot->longest_open)
			slot->longest_open = wait - throttled;
		if (wait - throttled >= settings.starvation)
			slot->starving++;
	} else if (state->block_start > p->sched_info.last_arrival && clock > state->block_start) {
		u64 block = clock - (state->block_start < began ? began : state->block_start);
		if (state->block_state == STATE_D)
			slot->open_d += block;
		else if (state->block_state == STATE_T)
			slot->open_t += block;
		else if (state->block_state == STATE_OTHER)
			slot->open_other += block;
	}
}

static __always_inline void collect_task(struct task_struct *p, struct collect_args *args)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state) {
		state = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!state) {
			args->no_storage++;
			return;
		}
		settle(p, state);
		count_off(p, state, args->boot);
	}
	args->tasks++;
	book(p, state, args->boot);
	struct cgroup *group = cgroup_of(p);
	if (!p->exit_state && state->cgroup_id != cgroup_id(group))
		settle(p, state);
	add_open(p, state, args->clock, args->generation);
}

#endif
