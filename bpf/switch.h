/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * One switch: prev's run ends, next's wait ends. What both were is known from the kernel's own stamps
 * (sched_info, se); a task's storage is touched only where a cycle may become a span.
 */
#ifndef SWITCH_H
#define SWITCH_H

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

	if (!known) {
		slot = slot_cached(cpu, prev);
		/* as at the switch-in that was not shown */
		cpu->involuntary = prev->nivcsw - !prev_state;
	}
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
		u64 executed = prev->se.sum_exec_runtime - cpu->executed;
		if (run > executed) {
			totals->stolen += run - executed;
			struct task_state *own = own_state(prev);
			if (own)
				own->own.stolen += run - executed;
		}
	}
	u32 end = run_end(cpu, prev, prev_state);
	if (end == END_EXITED)
		book_exit(prev, now);
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
	if (follows(prev->tgid)) {
		u32 block = end == END_BLOCKED && prev_state ? state_of(prev_state) : STATE_NONE;
		reasons |= follow(cpu, prev, block, now, slot);
		known = cpu->tid == prev->pid;
	}
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
	if (!settings.block_histogram && !next->sched_contributes_to_load && gap < 1000000 &&
	    !follows(next->tgid))
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
	add_block(&state->own, state->block_state, ours);
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
		struct task_state *own = own_state(next);
		if (own)
			own->own.throttled += throttled;
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
	if (settings.stolen)
		cpu->executed = next->se.sum_exec_runtime;
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

/* What took longer was interrupted: a virtual CPU that its host took away says nothing of us. Global, so that the
 * verifier proves it once. */
__noinline int own_time(void)
{
	struct cpu_state *cpu = this_cpu();
	if (!cpu)
		return 0;
	u64 took = bpf_ktime_get_ns() - cpu->own_begin;
	if (took < 100000) {
		cpu->own_ns += took;
		cpu->own_samples++;
	}
	return 0;
}

static __always_inline int on_switch(struct task_struct *prev, struct task_struct *next, u32 prev_state)
{
	struct cpu_state *cpu = this_cpu();
	if (!cpu)
		return 0;
	u32 cpu_id = bpf_get_smp_processor_id();
	u64 now = prev->se.cfs_rq->rq->clock;

	/* in memory: what a register holds until the end doubles the ways that the verifier walks */
	cpu->own_begin = cpu->switches++ & (OWN_TIME_EVERY - 1) ? 0 : bpf_ktime_get_ns();
	if (prev->pid)
		leave(cpu, cpu_id, prev, next, prev_state, now);
	else
		cpu->idle_switches++;
	if (settings.spans)
		remember(cpu, prev, prev->pid ? (prev->flags & PF_KTHREAD ? SLOT_NONE : cpu->slot) : SLOT_NONE, now);
	/* not at the end: on 6.1 the verifier then walks ten times as many ways through what lies before it */
	if (cpu->own_begin)
		own_time();
	if (next->pid) {
		enter(cpu, cpu_id, next, now);
	} else {
		cpu->tid = 0;
		cpu->slot = SLOT_NONE;
	}
	return 0;
}

#endif
