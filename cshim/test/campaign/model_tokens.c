/* Exported blocks over sleep. Whoever imports keeps what a token has been mapped to, as the adapter
 * for PyTorch does: so a token that comes again has to name the same memory, to the byte. */
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

void token_play(void)
{
	static char text[LENGTH];
	size_t offset = 0;
	struct block *b = &model.blocks[below(BLOCKS)];
	if (!b->p.at || b->plain || b->lost || model.lent[b->p.device][b->region]) return;
	long n = stalloc_export_block(b->p.at, &offset, text, sizeof text);
	if (n < 0) {
		const char *error = stalloc_last_error();
		CHECK(!block_awake(b) || model.closed[b->p.device],
		      "a block of device %d, region %d: %s", b->p.device, b->region, error);
		return;
	}
	CHECK(block_awake(b), "a block that sleeps was exported");
	if ((size_t)n >= sizeof text) return; /* of many handles */
	b->shared = true;
	LOG("export %p: %s, at %zu", b->p.at, text, offset);
	kit_pass_all();
	tracked_check(&b->p);
	struct token *t = token_of(text, b->p.device);
	b->p.tag = ++model.w->sequence * 64 + 1;
	tracked_words(&b->p, model.written[b->p.device][b->region] = true);
	struct tracked there = b->p;
	there.at = t->at + offset;
	CHECK(tracked_words(&there, false) < 0,
	      "a block of device %d, region %d is other memory than its token was: \"%s\"",
	      b->p.device, b->region, text);
	model.w->did.exports++;
	if (!chance(8)) model_free(b); /* its memory sleeps with the others again */
}

void tokens_close(void)
{
	for (int i = 0; i < TOKENS; i++) end(&tokens[i]);
}
