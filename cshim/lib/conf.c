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

/* SHARE is an amount or a share of the device's memory, POWER one that is a power of two. */
enum kind { CHOICE, NUMBER, AMOUNT, SHARE, POWER, TEXT, IGNORED };

#define WORDS(words) CHOICE, words, 0, 0
#define FLAG WORDS("on or off")
#define PATH TEXT, "a path of at most 511 bytes", 0, 0
#define AMOUNTS "80GiB or 80G (2^30 bytes each), 80GB (10^9) or a whole number of bytes"
#define MIB ((uint64_t)1 << 20)

static const struct key {
	const char *name;
	enum kind kind;
	const char *expected; /* of a CHOICE: the words */
	uint64_t least, most; /* of numbers and bytes */
} keys[] = {
	{"plan", WORDS("on, off or always")},
	{"log", WORDS("debug, info, warn or error")},
	{"engine", PATH},
	{"driver", PATH},
	{"window", AMOUNT,
	 "an amount of addresses of at least 1GiB and at most 4TiB, such as " AMOUNTS, MIB << 10,
	 MIB << 22},
	{"limit", SHARE,
	 "an amount of memory of at least 2MiB, such as " AMOUNTS
	 ", or a share of the device's such as 90%, at least 0.1%",
	 2 * MIB, UINT64_MAX},
	{"cache", IGNORED, "anything: it is ignored", 0, 0},
	{"stitch", FLAG},
	{"pool", WORDS("range or gmlake")},
	{"fraglimit", AMOUNT, "an amount of memory such as " AMOUNTS, 1, UINT64_MAX},
	{"page", FLAG},
	{"metrics", NUMBER, "a port, from 1 to 65535", 1, 65535},
	{"trace", PATH},
	{"native", FLAG},
	{"oom_report", PATH},
	{"share", WORDS("fd, fabric or off")},
	{"wait", FLAG},
	{"route", WORDS("adapter, pluggable or auto")}, /* of the Python package */
	/* Memory against driver time: `stalloc tune` finds values for a program. */
	{"handle_part", NUMBER, "a whole number from 16 to 8192", 16, 8192},
	{"handle_most", POWER, "an amount of memory that is a power of two, from 2MiB to 1GiB",
	 2 * MIB, MIB << 10},
	{"grow_part", NUMBER, "a whole number from 1 to 64", 1, 64},
	{"small_limit", AMOUNT, "an amount of memory from 512 bytes to 1MiB", 512, MIB},
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

/* Whether a value is one of the words of a text such as "on, off or always". */
static bool is_one_of(const char *words, const char *value) {
	const size_t n = strlen(value);
	if (!n || strpbrk(value, " ,") || !strcmp(value, "or")) return false;
	for (const char *at = words; (at = strstr(at, value)); at++)
		if ((at == words || at[-1] == ' ') && strchr(", ", at[n])) return true;
	return false;
}

static bool fits(const struct key *k, const char *value) {
	struct stalloc_amount a = {0};
	if (k->kind == CHOICE) return is_one_of(k->expected, value);
	if (k->kind == TEXT || k->kind == IGNORED) return *value != '\0';
	if (k->kind == NUMBER && strspn(value, "0123456789") == strlen(value) && strlen(value) < 6)
		a.bytes = (uint64_t)atol(value);
	else if (k->kind == NUMBER || !stalloc_read_amount(value, &a))
		return false;
	/* With a share that rounds to 0 no request could be served. */
	if (k->kind == SHARE && a.share > 0) return a.share >= 0.001;
	return a.bytes >= k->least && a.bytes <= k->most &&
	       (k->kind != POWER || !(a.bytes & (a.bytes - 1)));
}

__attribute__((format(printf, 2, 3))) static void complain(struct settings *s, const char *format,
							    ...) {
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
		if (!expand(value, given) || !fits(&keys[i], value))
			complain(s, "%s:%.200s: expected %s", key, given, keys[i].expected);
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
				 "STALLOC_CONF: a setting of earlier releases is ignored: %s; "
				 "leave it out",
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
