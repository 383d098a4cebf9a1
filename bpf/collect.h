/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * A collection: every task's counters are booked, and what is open at that moment is added beside them.
 */
#ifndef COLLECT_H
#define COLLECT_H

static __always_inline void add_open_block(struct slot *slot, struct task_state *state, struct open *open, u64 clock)
{
	u64 block = clock - (state->block_start < began ? began : state->block_start);
	open->block = block;
	if (state->block_state == STATE_D)
		slot->open_d += block;
	else if (state->block_state == STATE_T)
		slot->open_t += block;
	else if (state->block_state == STATE_OTHER)
		slot->open_other += block;
}

/* Slices that are open at this read: a task that never switches, a task that still waits or sleeps. `stay` holds
 * the clock of this read, and its queue's. Global, as `overlap` is. */
__noinline int add_open(struct task_state *state, struct look *look, struct stay *stay, struct open *open)
{
	if (!state || !look || !stay || !open)
		return 0;
	u32 index = state->slot;
	u64 clock = stay->now, gen = generation;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return 0;
	if (slot->generation != gen) {
		slot->generation = gen;
		slot->open_run = slot->open_wait = slot->open_throttled = 0;
		slot->open_d = slot->open_t = slot->open_other = 0;
		slot->longest_open = 0;
		slot->threads = slot->starving = 0;
	}
	if (look->dead)
		return 0;
	slot->threads++;
	if (look->on_cpu) {
		/* its counters are as old as its run queue's clock, at most a tick where the tick is on */
		u64 then = look->queue_clock;
		if (clock > then && clock - then < 1000000000ULL)
			open->run = clock - then;
		slot->open_run += open->run;
	} else if (look->queued) {
		stay->since += look->ahead;
		if (clock <= stay->since)
			return 0;
		if (throttle_possible(stay))
			throttled_part(stay);
		u64 wait = clock - stay->since, throttled = stay->throttled;
		open->wait = wait;
		open->throttled = throttled;
		slot->open_wait += wait;
		slot->open_throttled += throttled;
		wait += look->ahead;
		if (wait - throttled > slot->longest_open)
			slot->longest_open = wait - throttled;
		if (wait - throttled >= settings.starvation)
			slot->starving++;
	} else if (state->block_start > look->arrival && clock > state->block_start) {
		add_open_block(slot, state, open, clock);
	}
	return 0;
}

static __always_inline void collect_task(struct task_struct *p, struct collect_args *args)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	struct cfs_rq *queue = p->se.cfs_rq;
	struct stay stay;
	struct look look;
	struct open open = {};

	/* the walk over all threads (since 6.7) begins with CPU 0's idle task, which is nobody's */
	if (!p->pid)
		return;
	look_at(&look, p, args->boot);
	look.queue_clock = queue->rq->clock;
	stay_in(&stay, queue, look.queued, args->clock);
	if (!state) {
		state = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!state) {
			args->no_storage++;
			return;
		}
		settle(p, state);
		state->at = p->start_boottime;
		if (!born_here(p)) {
			/* a task found at start begins at its counters then */
			count_off(state, &look);
			state->at = args->boot;
			state->ended = look.dead;
		}
	}
	args->tasks++;
	struct cgroup *group = cgroup_of(p);
	bool moved = !look.dead && state->cgroup_id != cgroup_id(group);
	/* what was waited until now is the old cgroup's, and only the rest the new one's */
	u64 ahead = moved && look.queued && args->clock > look.queued ? args->clock - look.queued : 0;
	look.delay += ahead;
	book(state, &look);
	look.ahead += ahead;
	if (moved) {
		if (settings.tell_threads)
			tell_thread(p, state, &look, &open);
		settle(p, state);
	}
	add_open(state, &look, &stay, &open);
	if (settings.tell_threads && !tell_thread_of_many(p, state, &look, &open))
		args->untold++;
	if (p->tgid == args->self_tgid)
		args->self_cgroup = cgroup_id(group);
	if (settings.tell_paths)
		tell_path(state->slot, group);
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
	args->tasks = args->no_storage = args->untold = 0;
}

#endif
