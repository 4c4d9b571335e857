/* STALLOC_CONF: comma-separated key:value pairs, as in PYTORCH_CUDA_ALLOC_CONF. It is read here
 * because Go sees a copy of the environment that was made at start. It is checked here for C, Go
 * and Python, so that all mistakes are reported at once before anything runs. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amount.h"
#include "runtime.h"

enum kind { FLAG, AMOUNT, LIMIT, WINDOW, TEXT, IGNORED, LEVEL, POOL, PLAN, PORT, ROUTE, SHARE,
	    HANDLE_PART, HANDLE_MOST, GROW_PART, SMALL_LIMIT };

static const struct {
	const char *name;
	enum kind kind;
} keys[] = {
	{"plan", PLAN},
	{"log", LEVEL},
	{"engine", TEXT},
	{"driver", TEXT},
	{"window", WINDOW},
	{"limit", LIMIT},
	{"cache", IGNORED},
	{"stitch", FLAG},
	{"pool", POOL},
	{"fraglimit", AMOUNT},
	{"page", FLAG},
	{"metrics", PORT},
	{"trace", TEXT},
	{"native", FLAG},
	{"oom_report", TEXT},
	{"share", SHARE},
	{"wait", FLAG},
	{"route", ROUTE}, /* of the Python package */
	/* Memory against driver time: `stalloc tune` finds values for a program. */
	{"handle_part", HANDLE_PART},
	{"handle_most", HANDLE_MOST},
	{"grow_part", GROW_PART},
	{"small_limit", SMALL_LIMIT},
};
enum { KEYS = sizeof keys / sizeof *keys, MOST = 2047, LONGEST = 511 };

struct settings {
	char value[KEYS][LONGEST + 1];
	char problem[4096];  /* every mistake, or "" */
	bool unknown;	     /* there is an unknown key */
	const char *ignored; /* a key of an earlier release, or NULL */
};

static struct settings all;
static char text[MOST + 1]; /* the settings, for the engine */
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define AMOUNTS "80GiB or 80G (2^30 bytes each), 80GB (10^9) or a whole number of bytes"
static const char *const expected[] = {
	[FLAG] = "on or off",
	[AMOUNT] = "an amount of memory such as " AMOUNTS,
	[LIMIT] = "an amount of memory of at least 2MiB, such as " AMOUNTS
		  ", or a share of the device's such as 90%, at least 0.1%",
	[WINDOW] = "an amount of addresses of at least 1GiB and at most 4TiB, such as " AMOUNTS,
	[TEXT] = "a path of at most 511 bytes",
	[IGNORED] = "anything: it is ignored",
	[LEVEL] = "debug, info, warn or error",
	[POOL] = "range or gmlake",
	[PLAN] = "on, off or always",
	[PORT] = "a port, from 1 to 65535",
	[ROUTE] = "adapter, pluggable or auto",
	[SHARE] = "fd, fabric or off",
	[HANDLE_PART] = "a whole number from 16 to 8192",
	[HANDLE_MOST] = "an amount of memory that is a power of two, from 2MiB to 1GiB",
	[GROW_PART] = "a whole number from 1 to 64",
	[SMALL_LIMIT] = "an amount of memory from 512 bytes to 1MiB",
};

static bool between(const char *value, long least, long most) {
	return *value && strspn(value, "0123456789") == strlen(value) && strlen(value) < 6 &&
	       atol(value) >= least && atol(value) <= most;
}

static bool fits(enum kind kind, const char *value) {
	struct stalloc_amount a;
	switch (kind) {
	case FLAG: return !strcmp(value, "on") || !strcmp(value, "off");
	case PLAN: return fits(FLAG, value) || !strcmp(value, "always");
	case POOL: return !strcmp(value, "range") || !strcmp(value, "gmlake");
	case ROUTE:
		return !strcmp(value, "auto") || !strcmp(value, "adapter") ||
		       !strcmp(value, "pluggable");
	case SHARE:
		return !strcmp(value, "fd") || !strcmp(value, "fabric") || !strcmp(value, "off");
	case LEVEL:
		return !strcmp(value, "debug") || !strcmp(value, "info") ||
		       !strcmp(value, "warn") || !strcmp(value, "error");
	case PORT: return between(value, 1, (1 << 16) - 1);
	case HANDLE_PART: return between(value, 16, 8192);
	case GROW_PART: return between(value, 1, 64);
	case AMOUNT: return stalloc_read_amount(value, &a) && a.bytes > 0;
	/* With a share that rounds to 0 no request could be served. */
	case LIMIT:
		return stalloc_read_amount(value, &a) && (a.share >= 0.001 || a.bytes >= 2 << 20);
	case HANDLE_MOST:
		return stalloc_read_amount(value, &a) && a.bytes >= 2 << 20 && a.bytes <= 1 << 30 &&
		       !(a.bytes & (a.bytes - 1));
	case SMALL_LIMIT:
		return stalloc_read_amount(value, &a) && a.bytes >= 512 && a.bytes <= 1 << 20;
	case WINDOW:
		return stalloc_read_amount(value, &a) && a.bytes >= 1 << 30 &&
		       a.bytes <= (uint64_t)4 << 40;
	default: return *value != '\0';
	}
}

static void complain(struct settings *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void complain(struct settings *s, const char *format, ...) {
	size_t used = strlen(s->problem), room = sizeof s->problem - used;
	va_list args;
	int n = snprintf(s->problem + used, room, used ? "; " : "STALLOC_CONF: ");
	if ((size_t)n >= room) return;
	va_start(args, format);
	vsnprintf(s->problem + used + n, room - (size_t)n, format, args);
	va_end(args);
}

/* Trims blanks at both ends, in place. */
static char *trimmed(char *from) {
	from += strspn(from, " \t\r\n");
	for (char *end = from + strlen(from); end > from && strchr(" \t\r\n", end[-1]);)
		*--end = '\0';
	return from;
}

/* Copies a value and replaces each %r by the rank; false: it is too long. "%%" is kept for whoever
 * uses the value. */
static bool expand(char *to, const char *value) {
	const char *end = to + LONGEST;
	char rank[24];
	snprintf(rank, sizeof rank, "%ld", stalloc_rank() < 0 ? 0 : stalloc_rank());
	while (*value) {
		bool is_rank = value[0] == '%' && value[1] == 'r';
		const char *part = is_rank ? rank : value;
		size_t taken = value[0] == '%' && value[1] ? 2 : 1,
		       n = is_rank ? strlen(rank) : taken;
		if (n > (size_t)(end - to)) return false;
		memcpy(to, part, n);
		to += n;
		value += taken;
	}
	*to = '\0';
	return true;
}

static void set(struct settings *s, char *pair) {
	char *colon = strchr(pair, ':'), value[LONGEST + 1];
	if (colon) *colon = '\0';
	const char *key = trimmed(pair), *given = colon ? trimmed(colon + 1) : "";
	if (!colon || !*key) {
		complain(s, "\"%s%s%.200s\": expected key:value; commas separate several", key,
			 colon ? ":" : "", given);
		return;
	}
	for (int i = 0; i < KEYS; i++) {
		if (strcmp(key, keys[i].name) != 0) continue;
		if (!expand(value, given) || !fits(keys[i].kind, value))
			complain(s, "%s:%.200s: expected %s", key, given, expected[keys[i].kind]);
		else if (s->value[i][0])
			complain(s, "%s is set twice, to %.200s and to %.200s: leave one", key,
				 s->value[i], value);
		else if (keys[i].kind == IGNORED)
			s->ignored = keys[i].name;
		else
			strcpy(s->value[i], value);
		return;
	}
	s->unknown = true;
	complain(s, "unknown key \"%.200s\"", key);
}

/* Writes all settings as one text for the engine, and returns its length, as snprintf does. */
static size_t join(const struct settings *s, char *to, size_t n) {
	size_t used = 0;
	for (int i = 0; i < KEYS; i++)
		if (s->value[i][0])
			used += (size_t)snprintf(used < n ? to + used : NULL,
						 used < n ? n - used : 0, "%s%s:%s",
						 used ? "," : "", keys[i].name, s->value[i]);
	return used;
}

static void read_all(const char *from, struct settings *s) {
	char copy[MOST + 1], *rest = copy, *pair;
	memset(s, 0, sizeof *s);
	if (strlen(from) > MOST) {
		complain(s, "it is longer than %d bytes", MOST);
		return;
	}
	strcpy(copy, from);
	while ((pair = strsep(&rest, ",")))
		if (*(pair = trimmed(pair))) set(s, pair);
	if (join(s, NULL, 0) > MOST)
		complain(s, "with the rank for each %%r it is longer than %d bytes", MOST);
	for (int i = 0; i < KEYS && s->unknown; i++) {
		size_t used = strlen(s->problem);
		snprintf(s->problem + used, sizeof s->problem - used, "%s%s",
			 i ? ", " : "; known are ", keys[i].name);
	}
	for (char *c = s->problem; *c; c++) /* it is printed on terminals */
		if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}

static void read_environment(void) {
	const char *from = getenv("STALLOC_CONF");
	if (from) read_all(from, &all);
	join(&all, text, sizeof text);
	if (all.ignored) {
		static _Atomic bool logged;
		stalloc_log_once(&logged,
				 "STALLOC_CONF: a setting of earlier releases is ignored: %s",
				 all.ignored);
	}
}

int stalloc_check_conf(const char *conf) {
	struct settings s;
	read_all(conf ? conf : "", &s);
	return s.problem[0] ? stalloc_fail(STALLOC_ERR_CONF, "%s", s.problem) : STALLOC_OK;
}

const char *stalloc_conf_problem(void) {
	pthread_once(&once, read_environment);
	return all.problem[0] ? all.problem : NULL;
}

const char *stalloc_conf(const char *key) {
	for (int i = 0; i < KEYS; i++)
		if (!strcmp(key, keys[i].name)) return all.value[i][0] ? all.value[i] : NULL;
	return NULL;
}

const char *stalloc_conf_text(void) { return text; }
