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

/* Where the rare parts are added that only the switch program knows; NULL where threads are not told apart. */
static __always_inline struct task_state *own_state(struct task_struct *p)
{
	return settings.tell_threads ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;
}

static __always_inline void add_block(struct thread_totals *own, u32 block_state, u64 ns)
{
	if (block_state == STATE_D)
		own->d += ns;
	else if (block_state == STATE_T)
		own->t += ns;
	else if (block_state == STATE_OTHER)
		own->other += ns;
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
	add_block(&record->totals, state->block_state, open->block);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return true;
}

/* The same of one thread whose counters were just booked: nothing of it is open. */
static __always_inline void tell_booked(struct task_struct *p, struct task_state *state, struct look *look)
{
	struct open open = {};
	if (settings.tell_threads && !tell_thread(p, state, look, &open))
		__sync_fetch_and_add(&thread_records_lost, 1);
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
