/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Paths of cgroups that were there before us, where user space sees no cgroup file system (a sidecar): the collection
 * sends the names from a cgroup up to the root, or to one that was told.
 */
#ifndef PATHS_H
#define PATHS_H

/* Bytes of a kernel string that were read, its NUL among them: at least that one. */
static __always_inline u32 read_text(char *to, u32 room, const char *from)
{
	long bytes = bpf_probe_read_kernel_str(to, room, from);
	if (bytes < 1)
		return 1;
	return bytes > room ? room : bytes;
}

static __always_inline struct kernfs_node *parent_of(struct kernfs_node *node)
{
	struct kernfs_node___rcu *newer = (void *)node;
	if (bpf_core_field_exists(newer->__parent))
		return BPF_CORE_READ(newer, __parent);
	return BPF_CORE_READ(node, parent);
}

/* Sends one part; false where the ring has no room. */
static __always_inline bool tell_node(struct kernfs_node *node, u64 id, u64 parent)
{
	struct node_record *record = &node_scratch;
	record->kind = RECORD_NODE;
	record->id = id;
	record->parent = parent;
	u32 bytes = read_text(record->name, NAME_LEN, BPF_CORE_READ(node, name));
	record->name_bytes = bytes - 1;
	u32 size = (sizeof(*record) - NAME_LEN) + bytes;
	return !bpf_ringbuf_output(&ring, record, size & 511, BPF_RB_NO_WAKEUP);
}

/* Once for each slot; again at the next collection where the ring had no room. Only read by probes: no
 * BTF pointer is followed, which would make the load slow. */
static __noinline int tell_path(u32 index, struct cgroup *group)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (index == SLOT_NONE || !slot || slot->path_told || !group)
		return 0;
	struct kernfs_node *node = BPF_CORE_READ(group, kn);
	for (int i = 0; i < NODES && node; i++) {
		struct kernfs_node *parent = parent_of(node);
		u64 id = BPF_CORE_READ(node, id), above = parent ? BPF_CORE_READ(parent, id) : 0;
		u64 *told = &told_parents[id & (PARENTS - 1)];
		if (i && *told == id)
			break;
		if (!tell_node(node, id, above))
			return 0;
		if (i)
			*told = id;
		node = parent;
	}
	slot->path_told = 1;
	return 0;
}

#endif
