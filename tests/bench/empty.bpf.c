// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The floor of any sched_switch program: attached, and nothing done. */
typedef unsigned long long __u64;
typedef unsigned int __u32;
typedef unsigned short __u16;
typedef unsigned char __u8;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int __s32;
typedef long long __s64;
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };
#define SEC(name) __attribute__((section(name), used))

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int empty_switch(void *context)
{
	return 0;
}
