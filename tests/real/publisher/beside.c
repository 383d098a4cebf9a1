/* Publishes by turns the record that lies right behind the pointer to it, and one elsewhere; then the former holds ids
 * that are nobody's. */
#define _GNU_SOURCE
#define THREAD_CONTEXT_HERE
#include "thread_context.h"

void publish(struct thread_context *record)
{
	static __thread unsigned turn;

	if (turn++ % 2) {
		thread_context_put(*record);
		return;
	}
	memset(&thread_context_record, 0xee, sizeof(thread_context_record));
	thread_context_record.valid = 1;
	otel_thread_ctx_v1 = record;
}
