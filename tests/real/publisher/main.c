/* Four threads that publish a context each and sleep; the library that holds the variable is linked or opened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pthread.h>
#include "thread_context.h"

#ifdef DLOPEN
static void (*publish)(struct thread_context *);
#else
void publish(struct thread_context *);
#endif

/* Thread `id` is in trace 4id4id... under span 5id5id..., so that a reader sees whose record it got. */
static void *work(void *id)
{
	struct thread_context *record = calloc(1, sizeof(*record) + 8);
	memset(record->trace_id, 0x40 + (long)id, 16);
	memset(record->span_id, 0x50 + (long)id, 8);
	record->valid = record->flags = 1;
	for (;;) {
		publish(record);
		usleep(20000);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t thread;

	if (publish_process("publisher"))
		return 1;
#ifdef DLOPEN
	void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
	if (!library)
		return 1;
	publish = dlsym(library, "publish");
#endif
	for (long id = 1; id <= 3; id++)
		pthread_create(&thread, NULL, work, (void *)id);
	work(NULL);
}
