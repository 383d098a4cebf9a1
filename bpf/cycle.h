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

/* An interval under a limit of our own cost; where no rate was set, the first step is ten thousand a second. Without a
 * branch, for the verifier would walk all that follows twice. */
static __always_inline u64 tightened(u64 interval, u64 steps)
{
	return interval ? interval << steps : ((1ULL << steps) - 1) * 100000;
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

/* Charges who had this CPU in the `back`th slice before now for its part of the wait; 1 = the wait or the log
 * ends here. Global, so that the verifier proves it once for all slices. */
__noinline int charge_slice(u32 back)
{
	struct cpu_state *cpu = this_cpu();
	if (!cpu)
		return 1;
	struct cycle_record *record = &cpu->message.record;
	struct who_entry *who = cpu->message.who;
	struct slice *slice = &cpu->log[(cpu->log_head - back) & (LOG_SLICES - 1)];
	u64 begin = cpu->log[(cpu->log_head - back - 1) & (LOG_SLICES - 1)].end, end = slice->end;
	u64 since = cpu->charge_since, until = cpu->charge_until;

	if (!begin || end <= since)
		return 1;
	u64 part = overlap(begin, end, since, until);
	if (record->throttled) {
		/* throttled time is nobody's fault but the quota's */
		u64 quota = since + record->wait_before;
		part -= overlap(begin > since ? begin : since, end < until ? end : until, quota,
				quota + record->throttled);
	}
	if (!part)
		return 0;
	for (u32 k = 0; k < CULPRITS; k++) {
		if (k >= record->culprits) {
			who[k].tid = slice->tid;
			who[k].slot = slice->slot;
			who[k].ns = part;
			copy_comm(who[k].comm, slice->comm);
			record->culprits = k + 1;
			return 0;
		}
		if (who[k].tid == slice->tid) {
			who[k].ns += part;
			return 0;
		}
	}
	return 0;
}

/* Charges everybody who had this CPU while the task of the record waited, by the log of slices. What the log no
 * longer holds, or another CPU held, stays unattributed. */
static __noinline void charge(struct cpu_state *cpu, u64 until)
{
	struct cycle_record *record = &cpu->message.record;

	record->culprits = 0;
	cpu->charge_until = until;
	cpu->charge_since = until - record->wait - record->throttled;
	for (u32 back = 1; back < LOG_SLICES - 1; back++)
		if (charge_slice(back))
			return;
}

/* Everything worth a person's time passes the buckets first, then the ring is touched. */
static __noinline void send_cycle(struct cpu_state *cpu, struct task_struct *prev, u32 reasons, u64 now, u64 run)
{
	u32 index = cpu->slot, zero = 0;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	struct orders *told = bpf_map_lookup_elem(&orders, &zero);
	if (!slot || slot->excluded || !told)
		return;
	u64 steps = told->tightened & 15;
	struct task_state *state = bpf_task_storage_get(&tasks, prev, 0, 0);
	if (!state) {
		cpu->no_storage++;
		return;
	}
	/* a history with holes would be none: a watched process' cycle passes, under that reason alone */
	if (reasons & ~REASON_HISTORY && (!bucket_allows(&slot->bucket, tightened(settings.cgroup_interval, steps), now) ||
					  !bucket_allows(&total_bucket, tightened(settings.total_interval, steps), now))) {
		cpu->rate_limited++;
		reasons &= REASON_HISTORY;
		if (!reasons)
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
	record->culprits = 0;
	if (cpu->wait >= 100000)
		charge(cpu, now - run);
	u32 entries = record->culprits;
	if (entries > CULPRITS)
		return;
	if (cpu->flags & FLAG_WAKER) {
		cpu->message.who[entries] = cpu->waker;
		entries++;
	}
	if (cpu->flags & FLAG_CONTEXT) {
		if (entries > CULPRITS + 1)
			return;
		__builtin_memcpy(&cpu->message.who[entries], &cpu->context, sizeof(cpu->context));
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
