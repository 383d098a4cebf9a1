/* Publishes a thread's active span where an agent on the host can read it (OTEP 4947), and the process' Resource (OTEP
 * 4719), from C and C++. Self-contained: copy it into a service. One file of the program defines
 * THREAD_CONTEXT_HERE before it includes this; the program is linked with -rdynamic, so that the variable is shown.
 *
 * publish_process("shop-web") once, then around the work of each span, on the thread that does it:
 *
 *	struct thread_context outer = enter_span(trace_id, span_id, flags);
 *	...
 *	leave_span(outer);
 */
#ifndef THREAD_CONTEXT_H
#define THREAD_CONTEXT_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include: memfd_create needs it"
#endif
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* The record as the specification lays it out; ids in W3C byte order, flags bit 0: sampled. */
struct thread_context {
	uint8_t trace_id[16], span_id[8], valid, flags;
	uint16_t attributes_bytes;
} __attribute__((packed, aligned(2)));

/* The symbol that readers look for, and right behind it the thread's one record: a reader gets both at once. Only the
 * assembler lays one behind the other. */
#ifdef THREAD_CONTEXT_HERE
__asm__(".pushsection .tbss,\"awT\",%nobits\n"
	".balign 8\n"
	".globl otel_thread_ctx_v1, thread_context_record\n"
	".hidden thread_context_record\n"
	".type otel_thread_ctx_v1, %tls_object\n"
	".type thread_context_record, %tls_object\n"
	".size otel_thread_ctx_v1, 8\n"
	".size thread_context_record, 28\n"
	"otel_thread_ctx_v1: .zero 8\n"
	"thread_context_record: .zero 28\n"
	".popsection");
#endif
#ifdef __cplusplus
extern "C" {
#endif
extern __thread struct thread_context *otel_thread_ctx_v1;
extern __thread struct thread_context thread_context_record __attribute__((visibility("hidden")));
#ifdef __cplusplus
}
#endif

/* A reader sees this thread stopped: the record is invalid while it changes, in program order. */
static inline void thread_context_put(struct thread_context next)
{
	struct thread_context *record = &thread_context_record;
	uint8_t valid = next.valid;

	record->valid = 0;
	__asm__ volatile("" ::: "memory");
	next.valid = 0;
	*record = next;
	__asm__ volatile("" ::: "memory");
	record->valid = valid;
	otel_thread_ctx_v1 = record;
}

/* The span is active on this thread until leave_span(); gives the one that was before. */
static inline struct thread_context enter_span(const uint8_t trace_id[16], const uint8_t span_id[8], uint8_t flags)
{
	struct thread_context outer = thread_context_record, next = { .valid = 1, .flags = flags };

	memcpy(next.trace_id, trace_id, 16);
	memcpy(next.span_id, span_id, 8);
	thread_context_put(next);
	return outer;
}

static inline void leave_span(struct thread_context outer)
{
	thread_context_put(outer);
}

/* One protobuf field of bytes, or of a message: below 128 bytes. */
static inline uint32_t process_context_put(uint8_t *to, uint8_t tag, const void *bytes, uint32_t length)
{
	to[0] = tag;
	to[1] = (uint8_t)length;
	memcpy(to + 2, bytes, length);
	return length + 2;
}

static inline uint32_t process_context_pair(uint8_t *to, const char *key, const char *value)
{
	uint8_t any[128];
	uint32_t any_bytes = process_context_put(any, 0x0a, value, strlen(value));
	uint32_t bytes = process_context_put(to, 0x0a, key, strlen(key));
	return bytes + process_context_put(to + bytes, 0x12, any, any_bytes);
}

/* Says the service's name (at most 60 bytes) and that threads publish. Once a process; -1 where memory is refused. */
static inline int publish_process(const char *service)
{
	static uint8_t payload[256];
	uint8_t pair[128], resource[128];
	uint32_t version = 2, bytes;
	uint64_t address = (uint64_t)(uintptr_t)payload, published;
	struct timespec now;

	if (strlen(service) > 60)
		return -1;
	bytes = process_context_put(resource, 0x0a, pair, process_context_pair(pair, "service.name", service));
	bytes = process_context_put(payload, 0x0a, resource, bytes);
	bytes += process_context_put(payload + bytes, 0x12, pair,
				     process_context_pair(pair, "threadlocal.schema_version", "tlsdesc_v1_dev"));
	int file = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 4096))
		return -1;
	uint8_t *page = (uint8_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (page == MAP_FAILED)
		return -1;
	clock_gettime(CLOCK_BOOTTIME, &now);
	published = now.tv_sec * 1000000000ULL + now.tv_nsec;
	memcpy(page, "OTEL_CTX", 8);
	memcpy(page + 8, &version, 4);
	memcpy(page + 12, &bytes, 4);
	memcpy(page + 24, &address, 8);
	/* the time comes last: it says that the rest is there */
	__atomic_store_n((uint64_t *)(page + 16), published, __ATOMIC_RELEASE);
	/* readers listen for this call, also where the kernel keeps no names */
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "OTEL_CTX");
	return 0;
}

#endif
