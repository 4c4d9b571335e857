/* Amounts of memory as people write them: 70GiB, 70GB, 75161927680, 90%. Go's
 * mem.ParseBytes reads the same, but for the share; a test holds the two together. */
#ifndef STALLOC_AMOUNT_H
#define STALLOC_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct stalloc_amount {
	uint64_t bytes;
	double share; /* not 0: of the device's memory, instead of bytes */
};

static const struct {
	char name[4];
	uint64_t factor;
} stalloc_units[] = {
	{"", 1},
	{"b", 1},
	{"k", 1ull << 10},
	{"m", 1ull << 20},
	{"g", 1ull << 30},
	{"t", 1ull << 40},
	{"kib", 1ull << 10},
	{"mib", 1ull << 20},
	{"gib", 1ull << 30},
	{"tib", 1ull << 40},
	{"kb", 1000},
	{"mb", 1000 * 1000},
	{"gb", 1000 * 1000 * 1000},
	{"tb", 1000ull * 1000 * 1000 * 1000},
};

static inline const char *stalloc_skip_spaces(const char *at) { return at + strspn(at, " \t"); }

/* False: the text is no amount, or one of 2^62 bytes or more. A number without a unit is
 * a whole number of bytes, so 0.9 is refused: it may be meant as a share. */
static inline bool stalloc_read_amount(const char *text, struct stalloc_amount *out) {
	const uint64_t most = (uint64_t)1 << 62;
	uint64_t whole = 0, part = 0, of = 1;
	const char *at = stalloc_skip_spaces(text), *first = at;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (whole >= most / 10) return false;
		whole = whole * 10 + (uint64_t)(*at - '0');
	}
	if (at == first) return false;
	bool point = *at == '.';
	if (point) {
		for (first = ++at; *at >= '0' && *at <= '9'; at++)
			if (of < 1000000000000000u) part = part * 10 + (uint64_t)(*at - '0'), of *= 10;
		if (at == first) return false;
	}
	at = stalloc_skip_spaces(at);
	size_t length = strcspn(at, " \t");
	if (*stalloc_skip_spaces(at + length)) return false;
	*out = (struct stalloc_amount){0};
	if (length == 1 && *at == '%') {
		out->share = ((double)whole + (double)part / (double)of) / 100;
		return out->share > 0 && out->share <= 1;
	}
	for (size_t i = 0; i < sizeof stalloc_units / sizeof *stalloc_units; i++) {
		uint64_t factor = stalloc_units[i].factor;
		if (strlen(stalloc_units[i].name) != length || strncasecmp(at, stalloc_units[i].name, length) != 0) continue;
		if (whole >= most / factor || (point && factor == 1)) return false;
		out->bytes = whole * factor + (uint64_t)((double)part / (double)of * (double)factor);
		return true;
	}
	return false;
}

#endif
