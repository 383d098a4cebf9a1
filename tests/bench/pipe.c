/* Two threads on one CPU that hand a byte to and fro: pipe LOOPS [publish]; prints ns a switch. With `publish` each has
 * an active span the whole time, so that its context is read at every switch-out. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define THREAD_CONTEXT_HERE
#include "../../examples/traced_c/thread_context.h"

static int to[2], fro[2], publishes;

static void be_active(int number)
{
	uint8_t trace_id[16], span_id[8];
	memset(trace_id, 0x40 + number, sizeof(trace_id));
	memset(span_id, 0x50 + number, sizeof(span_id));
	if (publishes)
		enter_span(trace_id, span_id, 1);
}

static void *answer(void *unused)
{
	char byte;
	be_active(1);
	while (read(to[0], &byte, 1) == 1 && byte)
		if (write(fro[1], &byte, 1) != 1)
			break;
	return NULL;
}

static void turns(long loops)
{
	char byte = 1;
	while (loops--)
		if (write(to[1], &byte, 1) != 1 || read(fro[0], &byte, 1) != 1)
			exit(1);
}

int main(int count, char **words)
{
	struct timespec begin, end;
	pthread_t thread;
	cpu_set_t cpu;
	char stop = 0;
	long loops = count > 1 ? atol(words[1]) : 1000;

	publishes = count > 2;
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	if (publishes && publish_process("pipe"))
		return 1;
	be_active(0);
	if (pipe(to) || pipe(fro) || pthread_create(&thread, NULL, answer, NULL))
		return 1;
	/* an agent looks at a new program after a moment */
	for (int i = 0; i < 15; i++) {
		turns(100);
		usleep(100000);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	turns(loops);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / loops / 2);
	return write(to[1], &stop, 1) == 1 ? pthread_join(thread, NULL) : 1;
}
