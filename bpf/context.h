/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * The trace context that a thread publishes of itself (OTEP 4947): a thread-local pointer to a record of its
 * active span. Read at switch-out, where the outgoing thread's memory is mapped and nobody else writes it.
 * What is read there holds for the block and wait that follow; for the run that ends only if it is the same
 * as at the switch-out before. A process that publishes nothing costs one byte of a shared, cached line.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

/* As it lies in the thread's memory, packed. */
struct context_bytes {
	u8 trace[16];
	u8 span[8];
	u8 valid;
	u8 flags;
	u8 attributes[2];
} __attribute__((packed));

static __always_inline bool context_published(u32 tgid)
{
	u32 zero = 0;
	struct context_filter *filter = bpf_map_lookup_elem(&context_filters, &zero);
	return filter && filter->published[tgid & (CONTEXT_FILTER - 1)];
}

static __always_inline u64 thread_pointer(struct task_struct *p)
{
#if defined(__TARGET_ARCH_arm64)
	return p->thread.uw.tp_value;
#else
	return p->thread.fsbase;
#endif
}

/* Where the thread's pointer to its record is; 0 where the library's thread-local block was never made. */
static __always_inline u64 context_address(struct context_place *place, u64 pointer)
{
	if (!place->module)
		return pointer + place->offset;
	u64 vector = 0, block = 0;
	if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(pointer + place->vector_at)))
		return 0;
	if (bpf_probe_read_user(&block, sizeof(block), (void *)(vector + place->module * place->entry_bytes)))
		return 0;
	return block && block != ~0ULL ? block + place->offset : 0;
}

/* Reads the outgoing thread's record; all zero where it has no active span. */
static __always_inline void context_read(struct cpu_state *cpu, struct context_place *place, u64 pointer,
					 struct context_entry *to)
{
	struct context_bytes bytes;
	u64 record = 0, address = context_address(place, pointer);

	__builtin_memset(to, 0, sizeof(*to));
	if (!address)
		return;
	if (bpf_probe_read_user(&record, sizeof(record), (void *)address)) {
		cpu->contexts_unread++;
		return;
	}
	if (!record)
		return;
	if (bpf_probe_read_user(&bytes, sizeof(bytes), (void *)record)) {
		cpu->contexts_unread++;
		return;
	}
	u64 *trace = (u64 *)to->trace, *span = (u64 *)to->span;
	if (bytes.valid != 1)
		return;
	__builtin_memcpy(to->trace, bytes.trace, sizeof(to->trace));
	__builtin_memcpy(to->span, bytes.span, sizeof(to->span));
	bool has_trace = trace[0] | trace[1], has_span = span[0];
	if (has_trace != has_span)
		cpu->contexts_invalid++;
	if (!has_trace || !has_span) {
		__builtin_memset(to, 0, sizeof(*to));
		return;
	}
	to->flags = bytes.flags;
	to->known = 1;
}

static __always_inline bool same_span(struct context_entry *a, struct context_entry *b)
{
	u64 *ta = (u64 *)a->trace, *tb = (u64 *)b->trace, *sa = (u64 *)a->span, *sb = (u64 *)b->span;
	return ta[0] == tb[0] && ta[1] == tb[1] && sa[0] == sb[0];
}

/* The stay before the run that ends, for a switch-in that no program was shown: by the kernel's own counters and
 * what was kept at the switch-out before. */
static __always_inline void context_rebuild(struct cpu_state *cpu, struct task_struct *prev, struct task_state *state,
					    u32 slot, u64 delay)
{
	u64 arrival = prev->sched_info.last_arrival, since = arrival - delay, block = state->block_start;
	struct stay stay;

	stay_in(&stay, prev->se.cfs_rq, since, arrival);
	if (throttle_possible(&stay))
		throttled_part(&stay);
	if (stay.throttled > delay)
		stay.throttled = delay;
	cpu->tid = prev->pid;
	cpu->slot = slot;
	cpu->flags = FLAG_WAIT_KNOWN;
	cpu->reasons = cpu->state = 0;
	cpu->block = 0;
	cpu->wait = delay - stay.throttled;
	cpu->throttled = stay.throttled;
	cpu->wait_before = stay.throttled ? stay.first - since : 0;
	if (!block || block != state->context_out || since < block)
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
static __always_inline void context_moved(struct cpu_state *cpu, u64 delay)
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

/* At switch-out: the context that held over the stay before this run becomes the cycle's, the one read now that
 * of the stay that begins. Returns the reason to select the cycle, if it has a sampled one. */
static __noinline u32 context_step(struct cpu_state *cpu, struct task_struct *prev, u32 block_state, u64 now,
				   u32 slot)
{
	u32 tgid = prev->tgid;
	struct context_place *place = bpf_map_lookup_elem(&context_places, &tgid);
	struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);

	if (!place || !state)
		return 0;
	/* user space may know the start by /proc, which counts in ticks of 10 ms */
	if (prev->group_leader->start_boottime - place->start > 10000000)
		return 0;
	u64 switches = prev->nvcsw + prev->nivcsw;
	struct context_entry *entry = &cpu->context;
	bool held = state->context.known && state->context_switches + 1 == switches;
	if (state->context.known && !held)
		cpu->contexts_stale++;
	*entry = state->context;
	context_read(cpu, place, thread_pointer(prev), &state->context);
	u64 delay = prev->sched_info.run_delay;
	if (held && cpu->tid != prev->pid)
		context_rebuild(cpu, prev, state, slot, delay - state->context_delay);
	else if (held)
		context_moved(cpu, delay - state->context_delay);
	state->context_switches = switches;
	state->context_delay = delay;
	state->context_out = now;
	entry->covers_run = state->context.known && same_span(entry, &state->context);
	/* its next block is told also where it is too short for the waking program */
	if (block_state) {
		state->block_start = now;
		state->block_state = block_state;
	}
	if (!held || !(entry->flags & 1))
		return 0;
	cpu->flags |= FLAG_CONTEXT;
	return settings.sampled_context ? REASON_CONTEXT : 0;
}

#endif
