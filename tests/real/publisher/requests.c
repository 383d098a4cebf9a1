/* Threads that serve requests and publish the active span of each, and the truth about it: with every change of a
 * thread's span its time, so that a test can judge each interval that an agent put under a span. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define THREAD_CONTEXT_HERE
#include "thread_context.h"

#define THREADS 8
#define CHANGES 200000
#define PERIOD_NS (THREADS * 1000000L)	/* a thousand requests a second in all */

struct change { uint64_t ns, span; };
struct worker { pthread_t thread; int tid, number; size_t changes; struct change *change; };
static struct worker workers[THREADS];
static volatile int stopping;

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void burn(uint64_t us)
{
	struct timespec begin, time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	while ((uint64_t)((time.tv_sec - begin.tv_sec) * 1000000000L + time.tv_nsec - begin.tv_nsec) < us * 1000);
}

/* The change's own time lies between the two that are told: within it either span is right. */
static void enter(struct worker *self, uint64_t trace, uint64_t span)
{
	struct change *change = self->change + self->changes;
	uint8_t trace_id[16] = { 0 };
	struct thread_context none = { 0 };

	if (self->changes + 2 > CHANGES)
		return;
	memcpy(trace_id, &trace, sizeof(trace));
	change[0] = (struct change){ now(), ~0ULL };
	if (span)
		enter_span(trace_id, (uint8_t *)&span, 1);
	else
		leave_span(none);
	change[1] = (struct change){ now(), span };
	self->changes += 2;
}

static void *serve(void *of)
{
	struct worker *self = of;
	struct timespec query = { 0, 200000 }, due;

	self->tid = gettid();
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (uint64_t request = 1; !stopping; request++) {
		uint64_t trace = (uint64_t)(self->number + 1) << 32 | request, span = trace << 8;
		enter(self, trace, span | 1);
		burn(100 + request % 7 * 10);
		enter(self, trace, span | 2);
		burn(5);
		nanosleep(&query, NULL);
		enter(self, trace, span | 1);
		burn(50);
		enter(self, trace, 0);
		due.tv_nsec += PERIOD_NS;
		for (; due.tv_nsec >= 1000000000L; due.tv_nsec -= 1000000000L)
			due.tv_sec++;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
	return NULL;
}

static void stop(int signal)
{
	stopping = 1;
}

int main(int count, char **words)
{
	if (count < 2)
		return 2;
	if (publish_process("requests"))
		return 1;
	signal(SIGINT, stop);
	for (int i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].change = calloc(CHANGES, sizeof(struct change));
		pthread_create(&workers[i].thread, NULL, serve, &workers[i]);
	}
	while (!stopping)
		usleep(50000);
	FILE *truth = fopen(words[1], "w");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		for (size_t k = 0; k < workers[i].changes; k++)
			fprintf(truth, "%d %llu %016llx\n", workers[i].tid, (unsigned long long)workers[i].change[k].ns,
				(unsigned long long)__builtin_bswap64(workers[i].change[k].span));
	}
	return truth ? fclose(truth) : 1;
}
