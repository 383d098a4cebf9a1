// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The reader of thread contexts (bpf/context.h itself, compiled for this machine) against memory that holds anything:
 * pointers to nowhere, records that are cut, torn or all ones, places that lie, threads that switch unseen, processes
 * that are replaced. contexts ROUNDS SEED; prints what it saw, and ends with 1 at the first thing that cannot be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#include "../../bpf/kernel.h"
#include "../../bpf/sched.h"

#define MEMORY 4096		/* bytes of the traced process; everything else is not mapped */
#define BASE 0x7f0000000000ULL
#define READS_MAX 5		/* of one switch-out */

static u8 memory[MEMORY];
static u32 reads;
static struct context_place place_of;
static int has_place;

static long bpf_probe_read_user(void *to, u32 bytes, const void *from)
{
	u64 at = (u64)from;

	reads++;
	if (at < BASE || at > BASE + MEMORY || BASE + MEMORY - at < bytes) {
		memset(to, 0, bytes);
		return -14;
	}
	memcpy(to, memory + (at - BASE), bytes);
	return 0;
}

static int context_places, shared_contexts, shared_map, orders;
static struct orders told_orders;
static u64 places_gone;
static struct shared_context shared_by;
static int has_map, is_shared;
static u64 key_of;

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	if (map == &orders)
		return &told_orders;
	if (map == &context_places)
		return has_place ? &place_of : NULL;
	if (map == &shared_contexts)
		return has_map ? &shared_map : NULL;
	return is_shared && *(u64 *)key == key_of ? &shared_by : NULL;
}

struct task_state {
	struct context_entry context;
};

#include "../../bpf/context.h"

static u64 seed;

static u64 any(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static u64 below(u64 bound)
{
	return any() % bound;
}

/* An address: mostly within, at times at an edge, near nothing, or any word at all. */
static u64 address(void)
{
	switch (below(8)) {
	case 0: return any();
	case 1: return BASE + MEMORY - below(40);
	case 2: return below(64);
	case 3: return ~0ULL - below(64);
	default: return BASE + below(MEMORY) / 8 * 8;
	}
}

static void put(u64 at, const void *from, u32 bytes)
{
	if (at >= BASE && at <= BASE + MEMORY - bytes)
		memcpy(memory + (at - BASE), from, bytes);
}

/* A record as a library writes it, or one that no library would. */
static void put_record(u64 at)
{
	u8 record[28];

	for (u32 i = 0; i < sizeof(record); i++)
		record[i] = below(6) ? any() : 0;
	record[24] = below(3) ? 1 : any();
	if (!below(5))
		memset(record, 0, 16);
	if (!below(5))
		memset(record + 16, 0, 8);
	put(at, record, sizeof(record));
}

static void scramble(u64 pointer)
{
	u64 at = pointer + place_of.offset, word = address();

	if (!below(40))
		for (u32 i = 0; i < MEMORY; i++)
			memory[i] = any();
	if (place_of.module) {
		u64 vector = address(), block = address();
		put(pointer + place_of.vector_at, &vector, 8);
		put(vector + (u64)place_of.module * place_of.entry_bytes, &block, 8);
		at = block + place_of.offset;
	}
	if (!below(6))
		word = 0;
	/* at times right behind its pointer, and then perhaps no more */
	if (!below(3))
		word = at + 8;
	put(at, &word, 8);
	put_record(word);
	if (!below(8))
		put_record(at + 8);
}

static void new_place(struct task_struct *leader)
{
	place_of.start = leader->start_boottime - (below(4) ? below(10000000) : any());
	place_of.offset = below(4) ? (s64)below(1024) - 512 : (s64)any();
	place_of.module = below(3) ? 0 : (u32)(below(4) ? below(9) : any());
	place_of.vector_at = below(4) ? (int)below(32) - 16 : (int)any();
	place_of.entry_bytes = below(2) ? 16 : 8;
	place_of.shared = !below(4);
	has_place = !!below(12);
	/* by user space, or by an exec */
	if (below(4))
		told_orders.places_told++;
	else
		places_gone++;
}

/* What other instrumentation says of the thread, or of another, or nothing. */
static void share(struct task_struct *task)
{
	has_map = !!below(8);
	is_shared = !!below(4);
	key_of = below(6) ? (u64)task->tgid << 32 | (u32)task->pid : any();
	u8 *bytes = (u8 *)&shared_by;
	for (u32 i = 0; i < sizeof(shared_by); i++)
		bytes[i] = below(6) ? any() : 0;
	if (!below(5))
		memset(shared_by.trace, 0, sizeof(shared_by.trace));
	if (!below(5))
		shared_by.span = 0;
}

/* What a reader that is as plain as can be finds: the word where the pointer must be, the record behind it. */
static int expected(struct task_struct *task, struct context_entry *to)
{
	u64 pointer = task->thread.fsbase;
	u64 at = pointer + place_of.offset, record = 0, words[3];
	u8 bytes[28];
	u32 before = reads;

	memset(to, 0, sizeof(*to));
	if (place_of.shared) {
		if (!has_map || !is_shared || key_of != ((u64)task->tgid << 32 | (u32)task->pid))
			return 0;
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &shared_by, sizeof(shared_by));
		bytes[24] = bytes[25] = 1;
		goto ids;
	}
	if (place_of.module) {
		u64 vector = 0, block = 0;
		if (bpf_probe_read_user(&vector, 8, (void *)(pointer + place_of.vector_at)) ||
		    bpf_probe_read_user(&block, 8, (void *)(vector + place_of.module * place_of.entry_bytes)) ||
		    !block || block == ~0ULL)
			return 0;
		at = block + place_of.offset;
	}
	int found = at && !bpf_probe_read_user(&record, 8, (void *)at) && record &&
		    !bpf_probe_read_user(bytes, sizeof(bytes), (void *)record);
	reads = before;
	if (!found || bytes[24] != 1)
		return 0;
ids:
	memcpy(words, bytes, sizeof(words));
	if (!(words[0] | words[1]) || !words[2])
		return 0;
	memcpy(to->trace, bytes, 16);
	memcpy(&to->span, bytes + 16, 8);
	to->flags = bytes[25];
	to->known = 1;
	return 1;
}

static void fail(u64 round, const char *why)
{
	printf("round %llu: %s\n", round, why);
	exit(1);
}

int main(int count, char **words)
{
	u64 rounds = count > 1 ? strtoull(words[1], NULL, 10) : 1000, found = 0, told = 0, stale = 0;
	static struct cpu_state cpu;
	struct task_struct leader = { .start_boottime = 5000000000ULL }, task = { .group_leader = &leader };
	struct task_state state = {};
	struct context_entry last = {};

	seed = count > 2 ? strtoull(words[2], NULL, 10) : 1;
	seed = seed ? seed : 1;
	for (u64 round = 0; round < rounds; round++) {
		if (!below(16))
			leader.start_boottime += below(3) * 10000000000ULL;
		if (!below(8))
			new_place(&leader);
		task.thread.fsbase = below(4) ? BASE + below(MEMORY) / 8 * 8 : any();
		task.tgid = 1 + below(9), task.pid = task.tgid + below(3);
		if (below(3))
			scramble(task.thread.fsbase), share(&task);
		bool shown = !!below(5);
		u64 stale_before = cpu.contexts_stale;
		reads = 0;
		bool held = context_step(&cpu, &task, &state, shown);
		if (reads > READS_MAX)
			fail(round, "more reads than a switch may make");
		bool is_its = has_place && leader.start_boottime - place_of.start <= 10000000;
		struct context_entry now;
		if (!is_its) {
			if (held || state.context.known || reads)
				fail(round, "a context of another process");
			last.known = 0;
			continue;
		}
		found += expected(&task, &now);
		if (now.known != state.context.known ||
		    (now.known && (!same_span(&now, &state.context) || now.flags != state.context.flags)))
			fail(round, "not what lies in memory");
		if (held != (last.known && shown))
			fail(round, "held over a switch that was not shown, or not held over one that was");
		if (held && (!same_span(&cpu.context, &last) || cpu.context.flags != last.flags || !cpu.context.known))
			fail(round, "another span than at the switch-out before: a wrong parent");
		if (held && cpu.context.covers_run != (now.known && same_span(&now, &last)))
			fail(round, "the run is covered where its ends differ");
		if ((cpu.contexts_stale != stale_before) != (last.known && !shown))
			fail(round, "what is stale is not counted");
		told += held;
		stale += cpu.contexts_stale - stale_before;
		last = now;
	}
	printf("%llu switch-outs: %llu records found, %llu told, %llu stale, %llu unread, %llu with half an id\n", rounds,
	       found, told, stale, cpu.contexts_unread, cpu.contexts_invalid);
	return found && told && stale && cpu.contexts_unread && cpu.contexts_invalid ? 0 : 1;
}
