/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * What user space hears of cgroups and of threads besides cycles: a cgroup made or removed, with its path; a
 * thread that moved or ended.
 */
#ifndef CGROUPS_H
#define CGROUPS_H

/* A record that is no more than a thread's id; false where the ring has no room. */
static __always_inline bool send_tid(u32 kind, u32 tid, u64 flags)
{
	struct exit_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = kind;
	record->tid = tid;
	bpf_ringbuf_submit(record, flags);
	return true;
}

static __always_inline void moved(struct task_struct *p)
{
	struct task_state *state = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!state)
		return;
	struct look look;
	look_at(&look, p, bpf_ktime_get_boot_ns());
	/* the kernel books a wait as a whole when it ends; what was waited until now is the old cgroup's */
	u64 clock = look.boot - boot_minus_clock;
	if (look.queued && clock > look.queued)
		look.delay += clock - look.queued;
	book(state, &look);
	tell_booked(p, state, &look);
	settle(p, state);
}

static __always_inline int cgroup_event(struct cgroup *group, const char *path, bool removed)
{
	if (group->root->hierarchy_id != settings.hierarchy)
		return 0;
	struct cgroup_record *record = &cgroup_scratch;
	u64 id = group->kn->id;
	record->kind = RECORD_CGROUP;
	record->removed = removed;
	record->id = id;
	record->serial = group->self.serial_nr;
	if (removed) {
		u32 *slot = bpf_map_lookup_elem(&slot_of, &id);
		record->slot = slot ? *slot : SLOT_NONE;
	} else {
		record->slot = slot_make(id, record->serial);
	}
	u32 bytes = read_text(record->path, PATH_LEN, path);
	record->path_bytes = bytes - 1;
	u32 size = (sizeof(*record) - PATH_LEN) + bytes;
	if (bpf_ringbuf_output(&ring, record, size & 2047, ring_flags())) {
		__sync_fetch_and_add(&cgroup_records_lost, 1);
		return 0;
	}
	u32 index = record->slot;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (slot)
		slot->path_told = 1;
	return 0;
}

#endif
