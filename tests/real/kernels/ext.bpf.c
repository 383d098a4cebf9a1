// SPDX-License-Identifier: GPL-2.0-only
/*
 * The least that is a sched_ext scheduler: whatever wants to run queues in one line for all CPUs, 20 ms each. It heeds
 * neither weights nor quotas. Only for tests, where it is loaded on a booted kernel; nothing that is shipped has it.
 * GPL alone, since the kernel lets no other program schedule.
 */
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SLICE_NS 20000000ULL

struct task_struct {
	int pid;
};

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *task, u64 flags);
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *task, u64 queue, u64 slice,
			       u64 flags) __attribute__((section(".ksyms")));

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/enqueue")
void enqueue(u64 *arguments)
{
	scx_bpf_dsq_insert((struct task_struct *)arguments[0], SCX_DSQ_GLOBAL, SLICE_NS, arguments[1]);
}

SEC(".struct_ops")
struct sched_ext_ops schedscope_test = {
	.enqueue = (void *)enqueue,
	.name = "schedscope_test",
};
