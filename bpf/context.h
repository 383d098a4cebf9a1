/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * The trace context that a thread publishes of itself (OTEP 4947): a thread-local pointer to a record of its
 * active span. Read at switch-out, where the outgoing thread's memory is mapped and nobody else writes it.
 * What is read there holds for the block and wait that follow; for the run that ends only if it is the same
 * as at the switch-out before. Where a process publishes none, other instrumentation may do so for its threads.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

/* As it lies in the thread's memory, without attributes. In words, so that they are copied as such. */
struct context_bytes {
	u64 trace[2];
	u64 span;
	u8 valid;
	u8 flags;
	u8 attributes[2];
	u8 not_read[4];
};

#define CONTEXT_BYTES __builtin_offsetof(struct context_bytes, not_read)

/* The record right behind the pointer to it, as a thread that has one record for life may lay them. */
struct context_beside {
	u64 pointer;
	struct context_bytes bytes;
};

/* Whether it is of the process that user space means. That may know the start by /proc, which counts in ticks of
 * 10 ms. */
static __always_inline bool same_process(struct task_struct *p, u64 start)
{
	return p->group_leader->start_boottime - start <= 10000000;
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

/* Both ids or none. */
static __always_inline void context_take(struct cpu_state *cpu, struct context_entry *to, u64 *trace, u64 span,
					 u8 flags)
{
	bool has_trace = trace[0] | trace[1];
	if (has_trace != !!span)
		cpu->contexts_invalid++;
	if (!has_trace || !span)
		return;
	to->trace[0] = trace[0];
	to->trace[1] = trace[1];
	to->span = span;
	to->flags = flags;
	to->known = 1;
}

/* Gets the outgoing thread's record. Whether there is one. A read of user memory costs more than all the rest here, so
 * that where the last record lay right behind its pointer, one read gets both. */
static __always_inline bool context_get(struct cpu_state *cpu, struct context_place *place, u64 address,
					struct context_bytes *to)
{
	struct context_beside both;

	if (place->beside && !bpf_probe_read_user(&both, sizeof(both.pointer) + CONTEXT_BYTES, (void *)address)) {
		if (both.pointer == address + sizeof(both.pointer)) {
			*to = both.bytes;
			return true;
		}
	} else if (bpf_probe_read_user(&both.pointer, sizeof(both.pointer), (void *)address)) {
		cpu->contexts_unread++;
		return false;
	}
	place->beside = both.pointer == address + sizeof(both.pointer);
	if (!both.pointer)
		return false;
	if (bpf_probe_read_user(to, CONTEXT_BYTES, (void *)both.pointer)) {
		cpu->contexts_unread++;
		return false;
	}
	return true;
}

/* Reads the outgoing thread's record; all zero where it has no active span. */
static __always_inline void context_read(struct cpu_state *cpu, struct context_place *place, u64 pointer,
					 struct context_entry *to)
{
	struct context_bytes bytes;
	u64 address = context_address(place, pointer);

	__builtin_memset(to, 0, sizeof(*to));
	if (!address || !context_get(cpu, place, address, &bytes) || bytes.valid != 1)
		return;
	context_take(cpu, to, bytes.trace, bytes.span, bytes.flags);
}

/* What other instrumentation says of the outgoing thread; all zero where it says nothing. It tells no flags: what it
 * did not sample it does not tell. */
static __always_inline void context_shared(struct cpu_state *cpu, struct task_struct *p, struct context_entry *to)
{
	u32 zero = 0;
	u64 key = (u64)p->tgid << 32 | p->pid;
	void *map = bpf_map_lookup_elem(&shared_contexts, &zero);

	__builtin_memset(to, 0, sizeof(*to));
	struct shared_context *found = map ? bpf_map_lookup_elem(map, &key) : NULL;
	if (!found)
		return;
	context_take(cpu, to, found->trace, found->span, 1);
	to->shared = to->known;
}

static __always_inline bool same_span(struct context_entry *a, struct context_entry *b)
{
	return a->trace[0] == b->trace[0] && a->trace[1] == b->trace[1] && a->span == b->span;
}

/* Where the threads of a process publish; `start` is 0 where they do not. The one that was followed last on this CPU is
 * kept, as long as nothing is said of any. */
static __always_inline struct context_place *context_place_of(struct cpu_state *cpu, u32 tgid)
{
	u32 zero = 0;
	struct orders *told = bpf_map_lookup_elem(&orders, &zero);
	u64 changes = (told ? told->places_told : 0) + places_gone;

	if (cpu->place_tgid == tgid && cpu->place_changes == changes)
		return &cpu->place;
	struct context_place *place = bpf_map_lookup_elem(&context_places, &tgid);
	if (place)
		cpu->place = *place;
	else
		cpu->place.start = 0;
	cpu->place_tgid = tgid;
	cpu->place_changes = changes;
	return &cpu->place;
}

/* At switch-out: the context that held over the stay before this run becomes the cycle's, the one read now that of
 * the stay that begins. `shown`: the switch-out before was. Whether the cycle has one. */
static __always_inline bool context_step(struct cpu_state *cpu, struct task_struct *prev, struct task_state *state,
					 bool shown)
{
	struct context_place *place = context_place_of(cpu, prev->tgid);
	struct context_entry *entry = &cpu->context;

	if (!place->start || !same_process(prev, place->start)) {
		/* what it once published is not of its last switch-out any more */
		state->context.known = 0;
		return false;
	}
	bool held = state->context.known && shown;
	if (state->context.known && !held)
		cpu->contexts_stale++;
	*entry = state->context;
	if (place->shared)
		context_shared(cpu, prev, &state->context);
	else
		context_read(cpu, place, thread_pointer(prev), &state->context);
	entry->covers_run = state->context.known && same_span(entry, &state->context);
	return held;
}

#endif
