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

/* When a dead task's life ended, in clock ns: the end of its last slice. */
static __always_inline u64 life_end(struct task_struct *p)
{
	return p->sched_info.last_arrival + (p->se.sum_exec_runtime - p->se.prev_sum_exec_runtime);
}

/* What one look at a task finds. Read in one straight line, since each pointer that the verifier follows on
 * each of its ways costs it a search of the kernel's types; the branches are in functions that get this. */
struct look {
	u64 boot;
	u64 run;
	u64 delay;
	u64 ahead;		/* of a wait that still goes on: booked already, at a move */
	u64 voluntary;
	u64 involuntary;
	u64 migrations;
	u64 life_end;
	u64 arrival;
	u64 queued;
	u64 queue_clock;
	u32 dead;
	u32 on_cpu;
};

static __always_inline void look_at(struct look *look, struct task_struct *p, u64 boot)
{
	look->boot = boot;
	look->run = p->se.sum_exec_runtime;
	look->delay = p->sched_info.run_delay;
	look->ahead = 0;
	look->voluntary = p->nvcsw;
	look->involuntary = p->nivcsw;
	look->migrations = p->se.nr_migrations;
	look->life_end = life_end(p);
	look->arrival = p->sched_info.last_arrival;
	look->queued = p->sched_info.last_queued;
	look->dead = p->exit_state != 0;
	look->on_cpu = is_on_cpu(p);
}

static __always_inline void add(u64 *total, u64 value)
{
	if (value)
		__sync_fetch_and_add(total, value);
}

/* From here on the task's counters are counted. */
static __always_inline void count_off(struct task_state *state, struct look *look)
{
	state->run = look->run;
	state->delay = look->delay;
	state->voluntary = look->voluntary;
	state->involuntary = look->involuntary;
	state->migrations = look->migrations;
}

/* Books what a task did since the last look to the slot it was counted for. Global, as `overlap` is. */
__noinline int book(struct task_state *state, struct look *look)
{
	if (!state || !look)
		return 0;
	u32 index = state->slot;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return 0;
	add(&slot->run, look->run - state->run);
	/* a wait that was open at a move is booked up to there already */
	if (look->delay > state->delay)
		add(&slot->delay, look->delay - state->delay);
	else
		look->ahead = state->delay - look->delay, look->delay = state->delay;
	add(&slot->voluntary, look->voluntary - state->voluntary);
	add(&slot->involuntary, look->involuntary - state->involuntary);
	add(&slot->migrations, look->migrations - state->migrations);
	count_off(state, look);
	if (state->ended)
		return 0;
	u64 boot = look->boot;
	if (look->dead && !look->on_cpu) {
		u64 end = look->life_end + boot_minus_clock;
		if (end < boot)
			boot = end;
		state->ended = 1;
	}
	if (boot > state->at) {
		add(&slot->life, boot - state->at);
		state->at = boot;
	}
	return 0;
}

static __always_inline void settle(struct task_struct *p, struct task_state *state)
{
	struct cgroup *group = cgroup_of(p);
	state->cgroup_id = cgroup_id(group);
	state->slot = slot_of_cgroup(group);
}

/* Its birth fell into our time: all its counters are ours, also where it had no storage at first. */
static __always_inline bool born_here(struct task_struct *p)
{
	return began && p->start_boottime > began + boot_minus_clock;
}

/* At a thread's last switch-out its counters are final: nothing waits for the kernel to free it. */
static __always_inline void book_exit(struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return;
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	look.dead = 1;
	look.on_cpu = 0;
	book(state, &look);
}

static __always_inline void add_open_block(struct slot *slot, struct task_state *state, u64 clock)
{
	u64 block = clock - (state->block_start < began ? began : state->block_start);
	if (state->block_state == STATE_D)
		slot->open_d += block;
	else if (state->block_state == STATE_T)
		slot->open_t += block;
	else if (state->block_state == STATE_OTHER)
		slot->open_other += block;
}

/* Slices that are open at this read: a task that never switches, a task that still waits or sleeps. `stay` holds
 * the clock of this read, and its queue's. Global, as `overlap` is. */
__noinline int add_open(struct task_state *state, struct look *look, struct stay *stay)
{
	if (!state || !look || !stay)
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
			slot->open_run += clock - then;
	} else if (look->queued) {
		stay->since += look->ahead;
		if (clock <= stay->since)
			return 0;
		if (throttle_possible(stay))
			throttled_part(stay);
		u64 wait = clock - stay->since, throttled = stay->throttled;
		slot->open_wait += wait;
		slot->open_throttled += throttled;
		wait += look->ahead;
		if (wait - throttled > slot->longest_open)
			slot->longest_open = wait - throttled;
		if (wait - throttled >= settings.starvation)
			slot->starving++;
	} else if (state->block_start > look->arrival && clock > state->block_start) {
		add_open_block(slot, state, clock);
	}
	return 0;
}

static __always_inline void collect_task(struct task_struct *p, struct collect_args *args)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	struct cfs_rq *queue = p->se.cfs_rq;
	struct stay stay;
	struct look look;

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
	if (moved)
		settle(p, state);
	add_open(state, &look, &stay);
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
	args->tasks = args->no_storage = 0;
}

#endif
