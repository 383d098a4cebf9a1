/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Only the kernel structs that are read, only their fields that are read; their places are relocated
 * against the running kernel's BTF (CO-RE). A field that a kernel may lack is guarded by
 * bpf_core_field_exists where it is used, never by a version.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define PF_KTHREAD 0x00200000
#define TASK_DEAD 0x80

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct rq {
	u64 clock;
	int cpu;
	u64 prev_steal_time_rq;
	u64 prev_irq_time;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
	u64 nr_migrations;
	struct cfs_rq *cfs_rq;
};

struct kernfs_node {
	u64 id;
	struct kernfs_node *parent;
	const char *name;
};

/* Its parent's name since 6.15. */
struct kernfs_node___rcu {
	struct kernfs_node *__parent;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	u64 serial_nr;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_rq **cfs_rq;
};

#if defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};

struct pt_regs {
	u64 regs[31];
};
#else
struct thread_struct {
	unsigned long fsbase;
};

struct pt_regs {
	unsigned long di;
	unsigned long si;
};
#endif

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct sched_info sched_info;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_boottime;
	bool throttled;
	unsigned int sched_contributes_to_load : 1;
	char comm[16];
	struct thread_struct thread;
};

/* A byte since 7.x. */
struct task_struct___byte {
	u8 on_cpu;
};

/* The state's name and width before 5.14. */
struct task_struct___old {
	long state;
};

struct bpf_iter_task {
	__u64 __opaque[3];
};

struct bpf_iter_meta {
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Of the function that a kprobe is at. */
static __attribute__((always_inline)) inline u64 first_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	return regs->regs[0];
#else
	return regs->di;
#endif
}

static __attribute__((always_inline)) inline u64 second_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
	return regs->regs[1];
#else
	return regs->si;
#endif
}

#endif
