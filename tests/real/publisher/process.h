/* What a publisher says of its process (OTEP 4719), and the record that its threads publish (OTEP 4947). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
struct record { uint8_t trace[16], span[8], valid, flags; uint16_t attributes; } __attribute__((packed, aligned(2)));
#ifdef DLOPEN
static void (*publish)(struct record *);
#else
void publish(struct record *);
#endif

/* One protobuf field of bytes, or of a message. */
static int put(uint8_t *to, uint8_t tag, const void *bytes, int length)
{
	to[0] = tag;
	to[1] = length;
	memcpy(to + 2, bytes, length);
	return length + 2;
}

static int key_value(uint8_t *to, const char *key, const char *value)
{
	uint8_t any[64];
	int any_bytes = put(any, 0x0a, value, strlen(value)), bytes = put(to, 0x0a, key, strlen(key));
	return bytes + put(to + bytes, 0x12, any, any_bytes);
}

/* OTEP 4719: Resource{service.name}, and that threads publish. */
static void process_context(void)
{
	static uint8_t payload[256];
	uint8_t pair[128], resource[128];
	uint32_t version = 2, bytes;
	uint64_t address = (uint64_t)payload, now;
	struct timespec time;

	bytes = put(resource, 0x0a, pair, key_value(pair, "service.name", "publisher"));
	bytes = put(payload, 0x0a, resource, bytes);
	bytes += put(payload + bytes, 0x12, pair, key_value(pair, "threadlocal.schema_version", "tlsdesc_v1_dev"));
	int file = memfd_create("OTEL_CTX", 0);
	if (file < 0 || ftruncate(file, 4096))
		exit(1);
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	clock_gettime(CLOCK_BOOTTIME, &time);
	now = time.tv_sec * 1000000000ULL + time.tv_nsec;
	memcpy(page, "OTEL_CTX", 8);
	memcpy(page + 8, &version, 4);
	memcpy(page + 12, &bytes, 4);
	memcpy(page + 24, &address, 8);
	memcpy(page + 16, &now, 8);
	/* readers listen for this call, also where the kernel keeps no names */
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "OTEL_CTX");
}
