/* Amounts of memory as people write them: 70GiB, 70GB, 75161927680, 90%. Go's mem.ParseBytes reads
 * the same except shares; a test compares the two. */
#ifndef STALLOC_AMOUNT_H
#define STALLOC_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct stalloc_amount {
	uint64_t bytes;
	double share; /* if not 0: a share of the device's memory, instead of bytes */
};

/* The bytes of a unit: K, M, G and T, with or without iB, are binary, with B decimal. 0: it is no
 * unit. */
static inline uint64_t stalloc_unit(const char *unit, size_t length) {
	const char *prefix = length > 0 ? strchr("kmgt", *unit | 0x20) : NULL,
		   *rest = unit + (prefix != NULL);
	bool plain = strncasecmp(rest, "b", unit + length - rest) ==
		     0; /* nothing after the prefix, or B */
	if (!prefix) return length < 2 && plain;
	uint64_t base = length == 2 && plain ? 1000 : 1024, factor = base;
	if (length > 1 && base == 1024 && (length != 3 || strncasecmp(rest, "ib", 2) != 0))
		return 0;
	for (; *prefix != 'k'; prefix--) factor *= base;
	return factor;
}

static inline const char *stalloc_skip_spaces(const char *at) { return at + strspn(at, " \t"); }

/* False: the text is not an amount, or is 2^62 bytes or more. Without a unit it must be a whole
 * number of bytes: 0.9 is refused, because it may be meant as a share. */
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
			if (of < 1000000000000000u)
				part = part * 10 + (uint64_t)(*at - '0'), of *= 10;
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
	uint64_t factor = stalloc_unit(at, length);
	if (factor == 0 || whole >= most / factor || (point && factor == 1)) return false;
	out->bytes = whole * factor + (uint64_t)((double)part / (double)of * (double)factor);
	return true;
}

#endif
