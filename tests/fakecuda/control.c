/* Settings, failure rules, counters, and the way into every call. */
#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int configured;
static long counts[CALLS];

static const char *const names[CALLS] = {
#define NAME(field, symbol, parameters) #field,
	STALLOC_DRIVER_CALLS(NAME)
#undef NAME
};

struct settings settings;

#define ANY CALLS
#define MAX_RULES 32

static struct rule {
	int call;   /* or ANY */
	long nth;   /* 0: every */
	int code;
	long seen;
} rules[MAX_RULES];
static size_t rule_count;

void fatal(const char *what, const char *value)
{
	fprintf(stderr, "fakecuda: %s: %s\n", what, value);
	abort();
}

void *checked(void *memory)
{
	if (memory == NULL)
		fatal("out of memory", "tables");
	return memory;
}

static int call_number(const char *name, size_t length)
{
	if (length == 1 && name[0] == '*')
		return ANY;
	for (int i = 0; i < CALLS; i++)
		if (strlen(names[i]) == length &&
		    memcmp(names[i], name, length) == 0)
			return i;
	return -1;
}

/* Reads one rule "name:nth:code" and returns its end, or NULL. */
static const char *parse_rule(const char *text, struct rule *out)
{
	size_t length = strcspn(text, ":,");
	out->call = call_number(text, length);
	if (out->call < 0 || text[length] != ':')
		return NULL;
	text += length + 1;
	char *end;
	if (text[0] == '*') {
		out->nth = 0;
		text++;
	} else {
		out->nth = strtol(text, &end, 10);
		if (end == text || out->nth < 1)
			return NULL;
		text = end;
	}
	if (text[0] != ':')
		return NULL;
	text++;
	out->code = (int)strtol(text, &end, 10);
	out->seen = 0;
	return end == text || out->code < 1 ? NULL : end;
}

static int parse_rules(const char *text)
{
	struct rule parsed[MAX_RULES];
	size_t count = 0;
	while (text != NULL && text[0] != '\0') {
		if (count == MAX_RULES)
			return -1;
		text = parse_rule(text, &parsed[count++]);
		if (text == NULL || (text[0] != ',' && text[0] != '\0'))
			return -1;
		if (text[0] == ',')
			text++;
	}
	memcpy(rules, parsed, count * sizeof parsed[0]);
	rule_count = count;
	return 0;
}

static long number(const char *name, long fallback, long min, long max)
{
	const char *text = getenv(name);
	if (text == NULL || text[0] == '\0')
		return fallback;
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno != 0 || *end != '\0' || value < min || value > max)
		fatal(name, text);
	return value;
}

static void configure(void)
{
	const char *fail = getenv("FAKECUDA_FAIL");
	settings.capacity = number("FAKECUDA_CAPACITY", 8L << 30, 1, 1L << 42);
	settings.devices = number("FAKECUDA_DEVICES", 1, 0, MAX_DEVICES);
	settings.peers = number("FAKECUDA_PEERS", 1, 0, 1);
	settings.event_delay = number("FAKECUDA_EVENT_DELAY", 0, 0, 1L << 30);
	settings.poison = number("FAKECUDA_POISON", 1, 0, 1);
	settings.any_stream = number("FAKECUDA_ANY_STREAM", 0, 0, 1);
	settings.reuse_streams = number("FAKECUDA_REUSE_STREAMS", 0, 0, 1);
	settings.rdma = number("FAKECUDA_RDMA", 0, 0, 2);
	settings.fd = number("FAKECUDA_FD", 1, 0, 1);
	settings.fabric = number("FAKECUDA_FABRIC", 0, 0, 2);
	if (parse_rules(fail) != 0)
		fatal("FAKECUDA_FAIL", fail);
	configured = 1;
}

static int failure(int call)
{
	int code = 0;
	for (size_t i = 0; i < rule_count; i++) {
		struct rule *r = &rules[i];
		if (r->call != call &&
		    (r->call != ANY || call == CALL_cuGetErrorName))
			continue;
		r->seen++;
		if (code == 0 && (r->nth == 0 || r->nth == r->seen))
			code = r->code;
	}
	return code;
}

int enter(enum call call, enum need need)
{
	pthread_mutex_lock(&lock);
	if (!configured)
		configure();
	counts[call]++;
	int code = failure(call);
	if (code != 0)
		return code;
	if (need >= NEED_INIT && !initialised())
		return STALLOC_CU_NOT_INITIALIZED;
	if (need >= NEED_CONTEXT && current_device() < 0)
		return STALLOC_CU_INVALID_CONTEXT;
	if (need >= NEED_SAFE && capture_blocks())
		return STALLOC_CU_CAPTURE_UNSUPPORTED;
	return 0;
}

int leave(int code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

int fakecuda_fail(const char *text)
{
	pthread_mutex_lock(&lock);
	if (!configured)
		configure();
	return leave(parse_rules(text));
}

long fakecuda_count(const char *name)
{
	int call = call_number(name, strlen(name));
	if (call < 0)
		return -1;
	pthread_mutex_lock(&lock);
	long total = 0;
	for (int i = 0; i < CALLS; i++)
		if (i == call || (call == ANY && i != CALL_cuGetErrorName))
			total += counts[i];
	pthread_mutex_unlock(&lock);
	return total;
}

long fakecuda_live(const char *kind)
{
	static const struct {
		const char *kind;
		long (*count)(void);
	} kinds[] = {
		{"handles", handle_live},   {"mappings", mapping_live},
		{"blocks", plain_live},     {"reservations", reservation_live},
		{"events", event_live},     {"streams", stream_live},
		{"contexts", context_live}, {"dead calls", stream_dead_calls},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i].kind, kind) != 0)
			continue;
		pthread_mutex_lock(&lock);
		long count = kinds[i].count();
		pthread_mutex_unlock(&lock);
		return count;
	}
	return -1;
}

int fakecuda_capture_begin(void *stream)
{
	pthread_mutex_lock(&lock);
	return leave(stream_capture(stream, 1));
}

int fakecuda_capture_end(void *stream)
{
	pthread_mutex_lock(&lock);
	return leave(stream_capture(stream, 0));
}

void fakecuda_reset(void)
{
	pthread_mutex_lock(&lock);
	memory_reset();
	handle_reset();
	plain_reset();
	usage_reset();
	stream_reset();
	context_reset();
	memset(counts, 0, sizeof counts);
	rule_count = 0;
	configure();
	pthread_mutex_unlock(&lock);
}
