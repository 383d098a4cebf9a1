/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * What each thread did, told apart from its cgroup's totals where the config asks for processes or threads. The sums
 * grow where the cgroup's do, so that both tell the same.
 */
#ifndef THREADS_H
#define THREADS_H

/* What of a task is open at a look: not in its counters yet. */
struct open {
	u64 run;
	u64 wait;
	u64 throttled;
	u64 block;
};

/* The rare parts that only the switch program knows. */
static __always_inline void own_throttled(struct task_struct *p, u64 ns)
{
	if (!settings.tell_threads)
		return;
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (state)
		state->own.throttled += ns;
}

static __always_inline void own_stolen(struct task_struct *p, u64 ns)
{
	if (!settings.tell_threads)
		return;
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (state)
		state->own.stolen += ns;
}

/* Tells a thread's totals, and who it is unless that is known; false where the ring has no room. */
static __noinline bool tell_thread(struct task_struct *p, struct task_state *state, struct look *look,
					struct open *open)
{
	/* of a zombie nothing more is to come */
	if (state->own_ended)
		return true;
	if (!send_task(p, state, state->slot))
		return false;
	struct thread_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	record->kind = RECORD_THREAD;
	record->ended = state->own_ended = look->dead && !look->on_cpu;
	record->pad = 0;
	record->tid = p->pid;
	record->slot = state->slot;
	record->pad2 = 0;
	record->totals = state->own;
	record->totals.run += open->run;
	record->totals.delay += open->wait;
	record->totals.throttled += open->throttled;
	if (open->block) {
		if (state->block_state == STATE_D)
			record->totals.d += open->block;
		else if (state->block_state == STATE_T)
			record->totals.t += open->block;
		else if (state->block_state == STATE_OTHER)
			record->totals.other += open->block;
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return true;
}

/* The same where all threads are told at once: half the ring stays free for what happens meanwhile. */
static __always_inline bool tell_thread_of_many(struct task_struct *p, struct task_state *state, struct look *look,
					struct open *open)
{
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > 2 * settings.wakeup_bytes)
		return false;
	return tell_thread(p, state, look, open);
}

#endif
