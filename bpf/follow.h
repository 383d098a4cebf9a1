/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Threads that are followed from one switch-out to the next, because they publish their active span or because all
 * that they do is told: a stay whose switch-in no program was shown is rebuilt from the kernel's own counters, and
 * where even that cannot be, it is left unknown. A process that is not followed costs one byte of a shared, cached
 * line.
 */
#ifndef FOLLOW_H
#define FOLLOW_H

/* Why the threads of a process may be followed, before any lookup. */
static __always_inline u32 follows(u32 tgid)
{
	u32 zero = 0;
	if (!settings.contexts && !settings.history)
		return 0;
	struct orders *told = bpf_map_lookup_elem(&orders, &zero);
	return told ? told->follows[tgid & (FOLLOW_FILTER - 1)] : 0;
}

static __always_inline bool is_watched(struct task_struct *p)
{
	u32 tgid = p->tgid;
	u64 *start = bpf_map_lookup_elem(&watched, &tgid);
	return start && same_process(p, *start);
}

/* This CPU holds what is told of `prev`, of which nothing is known but its run. */
static __always_inline void follow_unknown(struct cpu_state *cpu, struct task_struct *prev, u32 slot)
{
	cpu->tid = prev->pid;
	cpu->slot = slot;
	cpu->flags = cpu->reasons = cpu->state = 0;
	cpu->wait = cpu->throttled = cpu->wait_before = cpu->block = 0;
}

/* The stay before the run that ends, for a switch-in that no program was shown: by the kernel's own counters and
 * what was kept at the switch-out before. */
static __always_inline void follow_rebuild(struct cpu_state *cpu, struct task_struct *prev, struct task_state *state,
					   u32 slot, u64 delay)
{
	u64 arrival = prev->sched_info.last_arrival, since = arrival - delay, block = state->block_start;
	struct stay stay;

	stay_in(&stay, prev->se.cfs_rq, since, arrival);
	if (throttle_possible(&stay))
		throttled_part(&stay);
	if (stay.throttled > delay)
		stay.throttled = delay;
	follow_unknown(cpu, prev, slot);
	cpu->flags = FLAG_WAIT_KNOWN;
	cpu->wait = delay - stay.throttled;
	cpu->throttled = stay.throttled;
	cpu->wait_before = stay.throttled ? stay.first - since : 0;
	if (!block || block != state->followed_out || since < block)
		return;
	cpu->block = since - block;
	cpu->state = state->block_state;
	cpu->flags |= FLAG_BLOCK_KNOWN;
	if (state->waker_of == block) {
		cpu->waker = state->waker;
		cpu->flags |= FLAG_WAKER;
	}
}

/* A task that moves to another CPU while it waits is queued anew there; the kernel's sum has both parts. */
static __always_inline void follow_moved(struct cpu_state *cpu, u64 delay)
{
	u64 seen = cpu->wait + cpu->throttled;

	if (!(cpu->flags & FLAG_WAIT_KNOWN) || delay <= seen)
		return;
	cpu->wait += delay - seen;
	if (cpu->throttled)
		cpu->wait_before += delay - seen;
	if (cpu->block > delay - seen)
		cpu->block -= delay - seen;
}

/* At switch-out. Returns the reasons to select the cycle: a sampled context, a watched process. */
static __noinline u32 follow(struct cpu_state *cpu, struct task_struct *prev, u32 block_state, u64 now, u32 slot)
{
	struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);
	bool all = settings.history && is_watched(prev), held = false;

	if (!state)
		return 0;
	u64 switches = prev->nvcsw + prev->nivcsw, delay = prev->sched_info.run_delay;
	bool shown = state->followed_switches + 1 == switches;
	if (settings.contexts)
		held = context_step(cpu, prev, state, shown);
	if (held || (all && shown)) {
		if (cpu->tid != prev->pid)
			follow_rebuild(cpu, prev, state, slot, delay - state->followed_delay);
		else
			follow_moved(cpu, delay - state->followed_delay);
	} else if (all && cpu->tid != prev->pid) {
		cpu->unknown_start++;
		follow_unknown(cpu, prev, slot);
	}
	state->followed_switches = switches;
	state->followed_delay = delay;
	state->followed_out = now;
	/* its next block is told also where it is too short for the waking program */
	if (block_state) {
		state->block_start = now;
		state->block_state = block_state;
	}
	u32 reasons = all ? REASON_HISTORY : 0;
	if (held && cpu->context.flags & 1) {
		cpu->flags |= FLAG_CONTEXT;
		reasons |= settings.sampled_context ? REASON_CONTEXT : 0;
	}
	return reasons;
}

#endif
