/* A test double of libstalloc.so: the same interface, and nothing behind it but
 * malloc and counters, so that the Python package is tested without a GPU and
 * without the engine. The tests set and read its state through stub_*. */
#include "stalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stalloc_stats stats;
static stalloc_thrower thrower;
static const char *error = "";
static char conf[256];
static char calls[4096]; /* names of the hooks called, each followed by a blank */
static char text[65536];

STALLOC_API uint64_t *stub_stats(void) { return (uint64_t *)&stats; }
STALLOC_API size_t stub_stats_size(void) { return sizeof(stats); }
STALLOC_API const char *stub_conf(void) { return conf; }
STALLOC_API const char *stub_calls(void) { return calls; }
STALLOC_API void stub_set_text(const char *value) { snprintf(text, sizeof(text), "%s", value); }

static void called(const char *name)
{
	size_t used = strlen(calls);
	snprintf(calls + used, sizeof(calls) - used, "%s ", name);
}

static int device_error(int device)
{
	if (device < 8)
		return STALLOC_OK;
	error = "device out of range";
	return STALLOC_ERR_ARGUMENT;
}

int stalloc_check_conf(const char *text)
{
	if (!strstr(text, "unknown_key"))
		return STALLOC_OK;
	error = "STALLOC_CONF: unknown key \"unknown_key\"";
	return STALLOC_ERR_CONF;
}

int stalloc_init(void)
{
	const char *value = getenv("STALLOC_CONF");

	snprintf(conf, sizeof(conf), "%s", value ? value : "");
	return stalloc_check_conf(conf);
}

const char *stalloc_last_error(void) { return error; }
const char *stalloc_version(void) { return STALLOC_VERSION; }

void *stalloc_malloc(size_t size, int device, void *stream)
{
	(void)device;
	(void)stream;
	if (size > (size_t)1 << 40) {
		if (thrower)
			thrower("stalloc_malloc", "stub", 1,
				"CUDA out of memory. This is the stub.");
		return NULL;
	}
	stats.requests++;
	return size ? malloc(size) : NULL;
}

void stalloc_free(void *ptr, size_t size, int device, void *stream)
{
	(void)size;
	(void)device;
	(void)stream;
	free(ptr);
}

void stalloc_set_device_count(int count)
{
	(void)count;
	called("init");
}

void stalloc_empty_cache(void) { called("reset"); }

int stalloc_set_memory_fraction(double fraction, int device)
{
	(void)device;
	called(fraction == 0.5 ? "half" : "fraction");
	return STALLOC_OK;
}

void *stalloc_base(void *ptr, size_t *size)
{
	(void)size;
	called("base");
	return ptr;
}

void stalloc_record_stream(void *ptr, void *stream)
{
	(void)ptr;
	(void)stream;
	called("record");
}

void stalloc_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter)
{
	(void)device;
	(void)id0;
	(void)id1;
	(void)filter;
	called("begin");
}

void stalloc_end_pool(int device, uint64_t id0, uint64_t id1)
{
	(void)device;
	(void)id0;
	(void)id1;
	called("end");
}

void stalloc_release_pool(int device, uint64_t id0, uint64_t id1)
{
	(void)device;
	(void)id0;
	(void)id1;
	called("release");
}

int stalloc_step(int device)
{
	stats.steps++;
	return device_error(device);
}

int stalloc_close(int device)
{
	called("close");
	return device_error(device);
}

int stalloc_save_plan(int device, const char *path)
{
	called("save");
	called(path);
	return device_error(device);
}

int stalloc_load_plan(int device, const char *path)
{
	called("load");
	called(path);
	return device_error(device);
}

int stalloc_get_stats(int device, struct stalloc_stats *out, size_t size)
{
	memcpy(out, &stats, size < sizeof(stats) ? size : sizeof(stats));
	return device_error(device);
}

int stalloc_reset_peak(int device)
{
	stats.peak_allocated = stats.allocated;
	stats.peak_requested = stats.requested;
	stats.peak_active = stats.active;
	stats.peak_reserved = stats.reserved;
	stats.peak_blocks = stats.blocks;
	return device_error(device);
}

int stalloc_begin_region(const char *tag)
{
	called("region");
	called(tag);
	error = "a region has no name";
	return *tag ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

int stalloc_end_region(void)
{
	called("outside");
	return STALLOC_OK;
}

int stalloc_pause(int device, const char *const *tags, size_t n, int backup)
{
	called(backup == STALLOC_BACKUP_HOST ? "pause" : "discard");
	for (size_t i = 0; i < n; i++)
		called(tags[i]);
	if (n == 1 && !strcmp(tags[0], "full")) {
		error = "the host has too little memory";
		return STALLOC_ERR_DRIVER;
	}
	stats.asleep = 1000;
	return device_error(device);
}

int stalloc_resume(int device, const char *const *tags, size_t n)
{
	called("resume");
	for (size_t i = 0; i < n; i++)
		called(tags[i]);
	if (n == 0)
		stats.asleep = 0;
	return device_error(device);
}

static int awake(const char *name, int device, const char *tag)
{
	called(name);
	called(tag);
	if (strcmp(tag, "unknown"))
		return device_error(device);
	error = "there is no such region";
	return STALLOC_ERR_ARGUMENT;
}

int stalloc_begin_awake(int device, const char *tag, void *stream)
{
	(void)stream;
	return awake("begin_awake", device, tag);
}

int stalloc_end_awake(int device, const char *tag, void *stream, int how)
{
	(void)stream;
	return awake(how & STALLOC_CHANGED ? "end_changed" : "end_read", device, tag);
}

int stalloc_prefetch(int device, const char *tag) { return awake("prefetch", device, tag); }

int stalloc_explain(int device, char *out, size_t length)
{
	int status = device_error(device);

	return status < 0 ? status : snprintf(out, length, "%s", text);
}

void stalloc_set_thrower(stalloc_thrower fn) { thrower = fn; }

#include "lib/poll.c" /* the real one: it needs nothing else of the library */
