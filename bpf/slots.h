/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * cgroup -> dense slot. Slots are handed out from a stack that user space fills and refills; where none is
 * left the cgroup's totals fold into slot 0 and the miss is counted.
 */
#ifndef SLOTS_H
#define SLOTS_H

/* The cgroup that is a task's identity. On v1 and hybrid hosts the v2 tree gives the root for everything,
 * on pure v2 the cpu controller's css is an ancestor's wherever the controller is off. An autogroup has no
 * cgroup of its own: NULL is the root's. */
static __always_inline struct cgroup *cgroup_of(struct task_struct *p)
{
	return settings.on_v2 ? p->cgroups->dfl_cgrp : p->sched_task_group->css.cgroup;
}

static __always_inline u64 cgroup_id(struct cgroup *group)
{
	return group ? group->kn->id : 1;
}

static __noinline u32 slot_make(u64 id, u64 serial)
{
	u32 *known = bpf_map_lookup_elem(&slot_of, &id);
	if (known)
		return *known;
	u32 index = SLOT_NONE;
	if (bpf_map_pop_elem(&free_slots, &index)) {
		struct cpu_state *cpu = this_cpu();
		if (cpu)
			cpu->map_full++;
		return SLOT_NONE;
	}
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return SLOT_NONE;
	slot->id = id;
	slot->serial = serial;
	if (bpf_map_update_elem(&slot_of, &id, &index, BPF_NOEXIST)) {
		/* another CPU was faster, or the map is full */
		slot->id = 0;
		bpf_map_push_elem(&free_slots, &index, BPF_ANY);
		known = bpf_map_lookup_elem(&slot_of, &id);
		return known ? *known : SLOT_NONE;
	}
	return index;
}

static __always_inline u32 slot_of_cgroup(struct cgroup *group)
{
	return slot_make(cgroup_id(group), group ? group->self.serial_nr : 0);
}

/* Several tasks of a few cgroups in turn are the usual case: eight remembered per CPU, by the low bits of
 * the id, answer nearly all without a hash. A removed cgroup's entry is harmless: no task can be in it. */
static __always_inline u32 slot_cached(struct cpu_state *cpu, struct task_struct *p)
{
	struct cgroup *group = cgroup_of(p);
	u64 id = cgroup_id(group);
	u32 at = id & (SLOT_CACHE - 1);

	if (cpu->cache_id[at] == id)
		return cpu->cache_slot[at];
	u32 slot = slot_of_cgroup(group);
	if (slot != SLOT_NONE) {
		cpu->cache_id[at] = id;
		cpu->cache_slot[at] = slot;
	}
	return slot;
}

static __always_inline struct slot_cpu *slot_cpu(u32 slot, u32 cpu)
{
	u32 index = slot * settings.cpus + cpu;
	return bpf_map_lookup_elem(&slot_cpus, &index);
}

static __always_inline struct slot_slices *slot_slices_of(u32 slot, u32 cpu)
{
	u32 index = slot * settings.cpus + cpu;
	return bpf_map_lookup_elem(&slot_slices, &index);
}

/* The exported bounds: no division, at most four comparisons. */
static __always_inline u32 bucket_of(u64 ns)
{
	if (ns <= 500000) {
		if (ns <= 10000)
			return ns <= 1000 ? 0 : ns <= 5000 ? 1 : 2;
		return ns <= 50000 ? 3 : ns <= 100000 ? 4 : 5;
	}
	if (ns <= 50000000)
		return ns <= 1000000 ? 6 : ns <= 5000000 ? 7 : ns <= 10000000 ? 8 : 9;
	return ns <= 100000000 ? 10 : ns <= 500000000 ? 11 : ns <= 1000000000 ? 12 : 13;
}

#endif
