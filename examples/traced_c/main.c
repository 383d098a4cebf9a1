/* A C program whose intervals go into its own traces: cc -rdynamic main.c -o traced_c && ./traced_c [REQUESTS].
 * Each request works, asks a "database" under a span of its own, and prints its trace id. A real one takes the ids from
 * its OpenTelemetry SDK and exports the spans; here they are made up, so that a backend shows the intervals alone. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#define THREAD_CONTEXT_HERE
#include "thread_context.h"

static void work(int ms)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

int main(int count, char **words)
{
	int requests = count > 1 ? atoi(words[1]) : 20;
	uint8_t ids[32];

	if (publish_process("traced-c"))
		return 1;
	while (requests-- && getrandom(ids, sizeof(ids), 0) == sizeof(ids)) {
		struct thread_context none = enter_span(ids, ids + 16, 1);
		work(20);
		struct thread_context request = enter_span(ids, ids + 24, 1);
		usleep(12000);
		leave_span(request);
		work(5);
		leave_span(none);
		for (int i = 0; i < 16; i++)
			printf("%02x", ids[i]);
		puts("");
		usleep(100000);
	}
	return 0;
}
