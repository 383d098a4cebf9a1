/* hostile VICTIM_ID: a process that wants the agent to crash, to grow, or to take it for another container. It claims
 * another's identity, publishes records and a process context that are garbage, torn or gone, renames itself without
 * end and makes threads by the thousand. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREAD_CONTEXT_HERE
#include "thread_context.h"

static uint8_t *page, payload[4096];
static struct thread_context torn;

static void rest(long us)
{
	struct timespec time = { 0, us * 1000 };
	nanosleep(&time, NULL);
}

/* Pointers that lead nowhere, into the kernel, and to memory that comes and goes. */
static void *points_nowhere(void *unused)
{
	uint8_t *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t places[] = { 8, 0xffffffff81000000, ~0UL, 0x7ffffffff000, (uintptr_t)place, (uintptr_t)place + 4090,
			       (uintptr_t)&thread_context_record };

	for (unsigned turn = 0;; turn++) {
		otel_thread_ctx_v1 = (struct thread_context *)places[turn % 7];
		mprotect(place, 4096, turn & 1 ? PROT_NONE : PROT_READ);
		rest(500);
	}
	return unused;
}

/* A record that another thread writes all the time. */
static void *is_torn(void *unused)
{
	otel_thread_ctx_v1 = &torn;
	for (;;)
		rest(300);
	return unused;
}

static void *tears(void *unused)
{
	for (unsigned turn = 0;; turn++) {
		memset(torn.trace_id, turn % 3 ? 0xee : 0, sizeof(torn.trace_id));
		memset(torn.span_id, turn % 2 ? 0xdd : 0, sizeof(torn.span_id));
		torn.valid = (uint8_t)turn;
		torn.flags = 0xff;
		torn.attributes_bytes = 0xffff;
		if (turn % 4096 == 0)
			rest(100);
	}
	return unused;
}

/* A size and an address that lie, and a time that never stands still. */
static void *mutates(void *unused)
{
	for (uint64_t turn = 1;; turn++) {
		uint32_t size = turn % 3 ? 400 : 0xffffffff;
		uint64_t address = turn % 5 ? (uintptr_t)payload : 0xffff800000000000;
		memcpy(page + 12, &size, 4);
		memcpy(page + 24, &address, 8);
		memcpy(page + 16, &turn, 8);
		prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "OTEL_CTX");
		rest(20000);
	}
	return unused;
}

static void *renames(void *unused)
{
	char name[16] = "\x1b[2J\xff\xfe\n\"}],";
	for (unsigned turn = 0;; turn++) {
		name[12] = (char)turn;
		prctl(PR_SET_NAME, name);
		rest(1000);
	}
	return unused;
}

static void *ends(void *unused)
{
	return unused;
}

static void start(void *(*work)(void *))
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, work, NULL))
		exit(1);
}

int main(int count, char **words)
{
	const char *claims[][2] = {
		{ "service.name", "evil" }, { "container.id", count > 1 ? words[1] : "" }, { "container.name", "victim" },
		{ "k8s.pod.name", "victim" },
	};
	uint8_t resource[1024], pair[256];
	uint32_t version = 2, bytes = 0, size;
	uint64_t address = (uintptr_t)payload, now = 1;

	for (int i = 0; i < 4; i++)
		bytes += process_context_put(resource + bytes, 0x0a, pair, process_context_pair(pair, claims[i][0], claims[i][1]));
	/* lengths of two bytes: the whole is longer than one can say */
	payload[0] = 0x0a;
	payload[1] = (uint8_t)(bytes | 0x80);
	payload[2] = (uint8_t)(bytes >> 7);
	memcpy(payload + 3, resource, bytes);
	size = 3 + bytes;
	size += process_context_put(payload + size, 0x12, pair,
				    process_context_pair(pair, "threadlocal.schema_version", "tlsdesc_v1_dev"));
	int file = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 4096))
		return 1;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	memcpy(page, "OTEL_CTX", 8);
	memcpy(page + 8, &version, 4);
	memcpy(page + 12, &size, 4);
	memcpy(page + 24, &address, 8);
	memcpy(page + 16, &now, 8);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "OTEL_CTX");
	start(points_nowhere);
	start(is_torn);
	start(tears);
	start(renames);
	/* first it is believed */
	for (int i = 0; i < 30; i++)
		rest(100000);
	start(mutates);
	for (;;) {
		pthread_t threads[50];
		for (int i = 0; i < 50; i++)
			if (pthread_create(&threads[i], NULL, ends, NULL))
				return 1;
		for (int i = 0; i < 50; i++)
			pthread_join(threads[i], NULL);
		rest(1000);
	}
}
