/* Exported blocks over sleep. Whoever imports keeps what a token's text has been mapped to, as the
 * adapter for PyTorch does: so a text that comes again has to name the same memory, to the byte. */
#include <stdio.h>
#include <string.h>

#include "model.h"

enum { TOKENS = 64, LENGTH = 1 << 12 };

static struct token {
	char text[LENGTH], *at; /* what it is mapped to, NULL: it is free */
	int device;
} tokens[TOKENS];

static void end(struct token *t)
{
	if (t->at) OK(stalloc_end_import(t->at));
	t->at = NULL;
}

static struct token *token_of(const char *text, int device)
{
	for (int i = 0; i < TOKENS; i++)
		if (tokens[i].at && tokens[i].device == device && !strcmp(tokens[i].text, text))
			return &tokens[i];
	struct token *t = &tokens[below(TOKENS)];
	end(t);
	t->at = stalloc_import_block(text, device);
	CHECK(t->at, "%s", stalloc_last_error());
	snprintf(t->text, sizeof t->text, "%s", text);
	t->device = device;
	return t;
}

void token_take(void)
{
	static char text[LENGTH];
	size_t offset = 0;
	struct stay *s = &night.stays[below(STAYS)];
	if (!s->p.at || s->plain || s->lost || night.lent[s->p.device][s->region]) return;
	long n = stalloc_export_block(s->p.at, &offset, text, sizeof text);
	if (n < 0) {
		const char *why = stalloc_last_error();
		CHECK(!stay_awake(s) || night.closed[s->p.device],
		      "a block of device %d, region %d: %s", s->p.device, s->region, why);
		return;
	}
	CHECK(stay_awake(s), "a block that sleeps was exported");
	if ((size_t)n >= sizeof text) return; /* of many handles */
	s->shared = true;
	TELL("export %p: %s, at %zu", s->p.at, text, offset);
	kit_pass_all();
	piece_check(&s->p);
	struct token *t = token_of(text, s->p.device);
	s->p.tag = ++night.w->sequence * 64 + 1;
	piece_few(&s->p, night.written[s->p.device][s->region] = true);
	struct piece there = s->p;
	there.at = t->at + offset;
	CHECK(piece_few(&there, false) < 0,
	      "a block of device %d, region %d is other memory than its token was: \"%s\"",
	      s->p.device, s->region, text);
	night.w->did.exports++;
	if (!chance(8)) stay_give(s); /* its memory sleeps with the others again */
}

void tokens_close(void)
{
	for (int i = 0; i < TOKENS; i++) end(&tokens[i]);
}
