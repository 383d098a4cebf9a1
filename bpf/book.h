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

/* Where a task's last slice ended, in clock ns. Too early by what it had run where the kernel put it back within the
 * slice (nice, affinity, a change of its group, the way out). */
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

/* The same to the thread's own totals. */
static __always_inline void book_own(struct task_state *state, struct look *look)
{
	struct thread_totals *own = &state->own;

	own->run += look->run - state->run;
	own->delay += look->delay - state->delay;
	own->voluntary += look->voluntary - state->voluntary;
	own->involuntary += look->involuntary - state->involuntary;
	own->migrations += look->migrations - state->migrations;
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
	if (settings.tell_threads)
		book_own(state, look);
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
		state->own.life += boot - state->at;
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
static __always_inline void book_exit(struct task_struct *p, u64 now)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return;
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	look.dead = 1;
	look.on_cpu = 0;
	look.life_end = now;
	book(state, &look);
}

#endif
