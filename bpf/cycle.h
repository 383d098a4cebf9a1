/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Selected cycles: what makes one interesting, the buckets that bound them, and the record. Per-task state
 * is touched only here, for cycles that may be chosen.
 */
#ifndef CYCLE_H
#define CYCLE_H

/* Generic cell rate: one u64 per bucket, burst = one second's worth. */
static __always_inline bool bucket_allows(u64 *bucket, u64 interval, u64 now)
{
	if (!interval)
		return true;
	u64 arrival = *bucket;
	if (arrival < now)
		arrival = now;
	if (arrival - now > 1000000000ULL)
		return false;
	*bucket = arrival + interval;
	return true;
}

static __always_inline void copy_comm(char *to, const char *from)
{
	__builtin_memcpy(to, from, COMM_LEN);
}

static __always_inline void send_clock(struct cpu_state *cpu, u64 now)
{
	if (now - cpu->clock_sent < 100000000ULL)
		return;
	struct clock_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	u64 boot = bpf_ktime_get_boot_ns();
	boot_minus_clock = boot - now;
	if (!record)
		return;
	cpu->clock_sent = now;
	record->kind = RECORD_CLOCK;
	record->pad = 0;
	record->cpu = bpf_get_smp_processor_id();
	record->pad2 = 0;
	record->clock = now;
	record->boot = boot;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Says who `p` is, unless user space knows. */
static __always_inline bool send_task(struct task_struct *p, struct task_state *state, u32 slot)
{
	char comm[COMM_LEN];
	copy_comm(comm, p->comm);
	u64 *now = (u64 *)comm, *told = (u64 *)state->told_comm;
	if (state->told && now[0] == told[0] && now[1] == told[1])
		return true;
	struct task_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	record->kind = RECORD_TASK;
	record->kernel_thread = !!(p->flags & PF_KTHREAD);
	record->pad = 0;
	record->tid = p->pid;
	record->tgid = p->tgid;
	record->slot = slot;
	record->start_boot = p->start_boottime;
	record->leader_start_boot = p->group_leader->start_boottime;
	copy_comm(record->comm, comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	copy_comm(state->told_comm, comm);
	state->told = 1;
	return true;
}

/* Charges everybody who had this CPU while the task of `record` waited, by the log of slices; its throttled
 * part is charged to nobody. What the log no longer holds, or another CPU held, stays unattributed. Returns
 * how many entries were written. */
static __noinline u32 charge(struct cpu_state *cpu, u64 until)
{
	struct cycle_record *record = &cpu->message.record;
	struct who_entry *who = cpu->message.who;
	u64 since = until - record->wait - record->throttled;
	u64 quota_from = since + record->wait_before, quota_to = quota_from + record->throttled;
	u32 head = cpu->log_head, count = 0;

	for (u32 i = 1; i < LOG_SLICES - 1; i++) {
		struct slice *slice = &cpu->log[(head - i) & (LOG_SLICES - 1)];
		u64 end = slice->end, begin = cpu->log[(head - i - 1) & (LOG_SLICES - 1)].end;
		if (!begin || end <= since)
			break;
		u64 part = overlap(begin, end, since, until);
		if (record->throttled)
			part -= overlap(begin > since ? begin : since, end < until ? end : until, quota_from, quota_to);
		if (!part)
			continue;
		u32 at = CULPRITS;
		for (u32 k = 0; k < CULPRITS; k++) {
			if (k == count) {
				who[k].tid = slice->tid;
				who[k].slot = slice->slot;
				who[k].ns = 0;
				copy_comm(who[k].comm, slice->comm);
				count++;
			}
			if (who[k].tid == slice->tid) {
				at = k;
				break;
			}
		}
		if (at < CULPRITS)
			who[at].ns += part;
	}
	return count;
}

/* Everything worth a person's time passes the buckets first, then the ring is touched. */
static __noinline void send_cycle(struct cpu_state *cpu, struct task_struct *prev, u32 reasons, u64 now, u64 run)
{
	u32 index = cpu->slot;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot || slot->excluded)
		return;
	struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);
	if (!state) {
		cpu->no_storage++;
		return;
	}
	if (!bucket_allows(&slot->bucket, settings.cgroup_interval, now) ||
	    !bucket_allows(&total_bucket, settings.total_interval, now)) {
		cpu->rate_limited++;
		return;
	}
	if (!send_task(prev, state, index)) {
		cpu->ring_full++;
		return;
	}
	struct cycle_record *record = &cpu->message.record;
	record->tid = prev->pid;
	record->slot = index;
	record->cpu = bpf_get_smp_processor_id();
	record->reasons = reasons;
	record->clock = now;
	record->run = run;
	record->wait = cpu->wait;
	record->throttled = cpu->throttled;
	record->wait_before = cpu->wait_before;
	record->block = cpu->block;
	record->state = cpu->state;
	record->flags = cpu->flags;
	u32 entries = 0;
	if (cpu->wait >= 100000)
		entries = charge(cpu, now - run);
	if (entries > CULPRITS)
		return;
	record->culprits = entries;
	if (cpu->flags & FLAG_WAKER) {
		cpu->message.who[entries] = cpu->waker;
		entries++;
	}
	u32 bytes = sizeof(*record) + entries * sizeof(struct who_entry);
	if (bytes > sizeof(cpu->message))
		return;
	if (bpf_ringbuf_output(&ring, &cpu->message, bytes, ring_flags()))
		cpu->ring_full++;
	else
		cpu->sent++;
}

#endif
