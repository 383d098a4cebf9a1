/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
 *
 * Throttled time apart from waiting: the growth of a throttled clock of a (task group, CPU), cut to the wait.
 * Quotas of ancestors are in that clock too. The kernel keeps one where `cfs_rq` has throttled_clock_self_time;
 * else two hooks on the rare way into and out of throttling keep ours. No state per task: a wait that began
 * anywhere is laid over the last few episodes of its group's run queue.
 */
#ifndef THROTTLE_H
#define THROTTLE_H

static __always_inline struct throttle_log *throttle_log_of(struct cfs_rq *queue)
{
	u64 key = (u64)queue;
	return bpf_map_lookup_elem(&throttles, &key);
}

/* The log of a queue, made where there is none; `counted` is what its clock holds from before. */
static __always_inline struct throttle_log *throttle_log_make(struct cfs_rq *queue, u64 counted)
{
	struct throttle_log *log = throttle_log_of(queue);
	if (log)
		return log;
	u64 key = (u64)queue;
	struct throttle_log fresh = { .counted = counted };
	bpf_map_update_elem(&throttles, &key, &fresh, BPF_ANY);
	return throttle_log_of(queue);
}

/* An episode has ended. */
static __always_inline void throttle_add(struct throttle_log *log, u64 from, u64 to)
{
	u32 at = log->head & 3;
	log->from[at] = from;
	log->to[at] = to;
	log->head++;
	log->begin = 0;
}

/* At a switch-out: an episode that goes on has a known begin now. */
static __always_inline void throttle_seen(struct cfs_rq *queue)
{
	u64 begin = queue->throttled_clock_self;
	if (!begin)
		return;
	struct throttle_log *log = throttle_log_make(queue, queue->throttled_clock_self_time);
	if (log)
		log->begin = begin;
}

/* Brings the log up to the clock: growth since the last look is an episode that has ended. */
static __always_inline void throttle_ended(struct throttle_log *log, u64 total, u64 now)
{
	if (total <= log->counted)
		return;
	u64 grown = total - log->counted;
	/* without a seen begin it ended at the latest now */
	u64 from = log->begin ? log->begin : now - grown;
	throttle_add(log, from, from + grown);
	log->counted = total;
}

/* Global, so that the verifier proves it once and knows nothing of the result: its branches multiply no states. */
__noinline u64 overlap(u64 from, u64 to, u64 since, u64 now)
{
	if (from < since)
		from = since;
	if (to > now)
		to = now;
	return to > from ? to - from : 0;
}

/* A stay off the CPU while runnable, and what of it was throttled. */
struct stay {
	u64 since;
	u64 now;
	u64 queue;			/* key of its log */
	u64 total;			/* the kernel's clock of the queue: episodes that ended, */
	u64 running;			/* and the begin of one that goes on, else 0 */
	u64 throttled;
	u64 first;			/* begin of the first throttled part */
};

/* Global for the same reason. Fills in the throttled part, an episode that still goes on included. */
__noinline int throttled_part(struct stay *stay)
{
	if (!stay)
		return 0;
	u64 key = stay->queue, since = stay->since, now = stay->now, running = stay->running;
	struct throttle_log *log = bpf_map_lookup_elem(&throttles, &key);
	u64 sum = 0, begin = now;

	if (log) {
		if (settings.throttle_clock)
			throttle_ended(log, stay->total, now);
		else
			running = log->begin;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			u64 part = overlap(log->from[i], log->to[i], since, now);
			sum += part;
			if (part && log->from[i] < begin)
				begin = log->from[i];
		}
	}
	if (running) {
		sum += overlap(running, now, since, now);
		if (running < begin)
			begin = running;
	}
	/* an end that is only inferred from the kernel's total may overlap the episode that goes on */
	u64 whole = now > since ? now - since : 0;
	stay->throttled = sum < whole ? sum : whole;
	stay->first = begin < since ? since : begin;
	return 0;
}

/* A stay in `queue`, its clock read. */
static __always_inline void stay_in(struct stay *stay, struct cfs_rq *queue, u64 since, u64 now)
{
	stay->since = since;
	stay->now = now;
	stay->queue = (u64)queue;
	stay->throttled = stay->first = stay->total = stay->running = 0;
	if (settings.throttle_clock) {
		stay->total = queue->throttled_clock_self_time;
		stay->running = queue->throttled_clock_self;
	}
}

/* Whether its queue was ever throttled, as cheaply as it can be told. */
static __always_inline bool throttle_possible(struct stay *stay)
{
	if (settings.throttle_clock)
		return stay->total | stay->running;
	return settings.throttle_hook && throttles_seen;
}

/* The hooks of a throttled clock of our own. Called for the throttled group and once for each below it, per CPU;
 * own and ancestor's quota together call twice: throttle_count, not yet changed here, tells the outermost. */
static __always_inline void throttle_hook(struct task_group *group, void *data, bool begins)
{
	struct rq *rq = data;
	struct cfs_rq **queues = BPF_CORE_READ(group, cfs_rq), *queue = NULL;
	u32 cpu = BPF_CORE_READ(rq, cpu);

	if (bpf_probe_read_kernel(&queue, sizeof(queue), queues + cpu) || !queue)
		return;
	int depth = BPF_CORE_READ(queue, throttle_count);
	u64 now = BPF_CORE_READ(rq, clock);
	if (begins ? depth != 0 : depth != 1)
		return;
	struct throttle_log *log = throttle_log_make(queue, 0);
	if (!log)
		return;
	throttles_seen = 1;
	if (begins)
		log->begin = now;
	else if (log->begin)
		throttle_add(log, log->begin, now);
}

#endif
