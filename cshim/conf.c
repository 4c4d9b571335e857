/* STALLOC_CONF: comma-separated key:value, the form of PYTORCH_CUDA_ALLOC_CONF.
 * It is read here because the environment that Go sees is a copy made at start,
 * and it is checked here so that a mistake is told before anything runs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amount.h"
#include "runtime.h"

enum kind { FLAG, AMOUNT, LIMIT, WINDOW, TEXT, LEVEL, POOL, PLAN, PORT };

static struct {
	const char *name;
	enum kind kind;
	char value[512];
} keys[] = {
	{"plan", PLAN, ""},     {"log", LEVEL, ""},     {"engine", TEXT, ""},
	{"driver", TEXT, ""},   {"window", WINDOW, ""}, {"limit", LIMIT, ""},
	{"cache", TEXT, ""},    {"stitch", FLAG, ""},   {"pool", POOL, ""},
	{"fraglimit", AMOUNT, ""}, {"page", FLAG, ""}, {"metrics", PORT, ""},
	{"trace", TEXT, ""},    {"oom_report", TEXT, ""}, {"native", FLAG, ""},
};
enum { KEYS = sizeof keys / sizeof *keys };

static char text[2048]; /* the accepted settings, for the engine */
static char problem[1024];
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define AMOUNTS "80GiB or 80G (2^30 bytes each), 80GB (10^9) or a whole number of bytes"
static const char *const expected[] = {
	[FLAG] = "on or off",
	[AMOUNT] = "an amount of memory such as " AMOUNTS,
	[LIMIT] = "an amount of memory of at least 2MiB, such as " AMOUNTS ", or a share of the device's such as 90%",
	[WINDOW] = "an amount of addresses of at least 1GiB, such as " AMOUNTS,
	[TEXT] = "a path",
	[LEVEL] = "debug, info, warn or error",
	[POOL] = "range or gmlake",
	[PLAN] = "on, off or always",
	[PORT] = "a port, from 1 to 65535",
};

static bool fits(enum kind kind, const char *value) {
	struct stalloc_amount a;
	switch (kind) {
	case FLAG: return !strcmp(value, "on") || !strcmp(value, "off");
	case PLAN: return fits(FLAG, value) || !strcmp(value, "always");
	case POOL: return !strcmp(value, "range") || !strcmp(value, "gmlake");
	case LEVEL:
		return !strcmp(value, "debug") || !strcmp(value, "info") || !strcmp(value, "warn") || !strcmp(value, "error");
	case PORT: return *value && strspn(value, "0123456789") == strlen(value) && strlen(value) < 6 && atoi(value) > 0 && atoi(value) < 1 << 16;
	case AMOUNT: return stalloc_read_amount(value, &a) && a.bytes > 0;
	case LIMIT: return stalloc_read_amount(value, &a) && (a.share > 0 || a.bytes >= 2 << 20);
	case WINDOW: return stalloc_read_amount(value, &a) && a.bytes >= 1 << 30;
	default: return *value != '\0';
	}
}

static void complain(const char *format, const char *what, const char *remedy) {
	if (problem[0]) return; /* the first mistake is the one to mend first */
	snprintf(problem, sizeof problem, format, what, remedy);
}

static void known_keys(char *out, size_t n) {
	size_t used = 0;
	for (int i = 0; i < KEYS && used < n; i++)
		used += (size_t)snprintf(out + used, n - used, "%s%s", i ? ", " : "", keys[i].name);
}

static void set(char *pair) {
	char names[320];
	char *colon = strchr(pair, ':');
	if (!colon) {
		complain("STALLOC_CONF: \"%s\" is not of the form key:value%s", pair, "");
		return;
	}
	*colon = '\0';
	for (int i = 0; i < KEYS; i++) {
		if (strcmp(pair, keys[i].name) != 0) continue;
		if (!fits(keys[i].kind, colon + 1) || strlen(colon + 1) >= sizeof keys[i].value) {
			snprintf(names, sizeof names, "%.32s:%.200s", pair, colon + 1);
			complain("STALLOC_CONF: %s: expected %s", names, expected[keys[i].kind]);
			return;
		}
		strcpy(keys[i].value, colon + 1);
		return;
	}
	known_keys(names, sizeof names);
	complain("STALLOC_CONF: unknown key \"%s\"; known are %s", pair, names);
}

static void read_all(void) {
	const char *from = getenv("STALLOC_CONF");
	char copy[sizeof text], *rest = copy, *pair;
	if (!from) return;
	if (strlen(from) >= sizeof copy) {
		complain("STALLOC_CONF is longer than %s bytes%s", "2047", "");
		return;
	}
	strcpy(copy, from);
	while ((pair = strsep(&rest, ",")))
		if (*pair) set(pair);
	size_t used = 0;
	for (int i = 0; i < KEYS; i++)
		if (keys[i].value[0] && used < sizeof text)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%s", used ? "," : "", keys[i].name,
						 keys[i].value);
}

int stalloc_conf_read(void) {
	pthread_once(&once, read_all);
	return problem[0] ? stalloc_fail(STALLOC_ERR_CONF, "%s", problem) : STALLOC_OK;
}

const char *stalloc_conf(const char *key) {
	for (int i = 0; i < KEYS; i++)
		if (!strcmp(key, keys[i].name)) return keys[i].value[0] ? keys[i].value : NULL;
	return NULL;
}

const char *stalloc_conf_text(void) { return text; }
