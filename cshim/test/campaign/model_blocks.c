/* Blocks whose bytes are written and read by work in streams that runs late: if their memory is
 * reused too early, this work finds another block's pattern. */
#include <stdio.h>
#include <string.h>

#include "model.h"

const char *tag_of(int region)
{
	static const char *const tags[REGIONS] = {NULL, "weights", "cache", "rest"};
	return tags[region];
}

int region_begin(int region)
{
	return region ? stalloc_begin_region(tag_of(region)) : STALLOC_OK;
}

void region_end(int region)
{
	if (region) OK(stalloc_end_region());
}

void regions_open(void)
{
	for (int r = 1; r < REGIONS; r++) { /* its name is known from now on */
		OK(region_begin(r));
		region_end(r);
	}
}

/* The kernels. */
static void write_it(void *at, size_t size, unsigned long tag)
{
	tracked_words(&(struct tracked){.at = at, .size = size, .tag = tag}, true);
}

static void read_it(void *at, size_t size, unsigned long tag)
{
	tracked_check(&(struct tracked){.at = at, .size = size, .tag = tag});
}

static void work(const struct tracked *p, int n, fakecuda_kernel kernel)
{
	void *stream = model.streams[p->device][n];
	CHECK(fake(launch)(stream, p->device, kernel, p->at, p->size, p->tag) == 0, "no stream");
}

void work_write(const struct tracked *p, int n)
{
	work(p, n, write_it);
}

void work_read(const struct tracked *p, int n)
{
	work(p, n, read_it);
}

bool block_awake(const struct block *b)
{
	int device = b->p.device, r = b->region;
	return b->plain || b->shared || (!model.asleep[device][r] && !model.lent[device][r]);
}

/* Whether a stream's work may use the region, but for that of other streams' freed blocks. */
static bool stream_uses(int device, int region, int n)
{
	bool uses = model.own[device][region][n];
	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &model.blocks[i];
		uses |= b->p.at && b->p.device == device && b->region == region &&
			b->used_on == n + 1;
	}
	return uses;
}

void region_read(int device, int region, void *stream, bool ends)
{
	for (int n = 0; n < STREAMS; n++)
		if (model.streams[device][n] != stream && (ends || stream_uses(device, region, n)))
			fake(pass_stream)(model.streams[device][n]);
	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &model.blocks[i];
		if (!b->p.at || b->p.device != device || b->region != region || b->plain ||
		    b->lost || !block_awake(b))
			continue;
		CHECK(fake(launch)(stream, device, read_it, b->p.at, b->p.size, b->p.tag) == 0,
		      "no stream");
	}
	if (ends) fake(pass_stream)(stream);
}

size_t request_size(void)
{
	static const size_t most[] = {4000, 60000, 400000, 3 << 20, 7 << 20, 14 << 20};
	return 513 + below(most[below(chance(6) ? 6 : 4)]);
}

static bool others_in(int device, int region, const void *but)
{
	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &model.blocks[i];
		if (b->p.at && !b->plain && b->p.device == device && b->region == region &&
		    b->p.at != but)
			return true;
	}
	return false;
}

bool region_has_blocks(int device, int region)
{
	return others_in(device, region, NULL);
}

enum answer answer_of(void *at, int device, int region)
{
	const char *error = stalloc_last_error();
	if (at) model.w->served[device]++;
	if (at && model.lent[device][region] && !model.closed[device]) {
		CHECK(!others_in(device, region, at), "region %d of device %d has lent its memory",
		      region, device);
		model.lent[device][region] = false; /* it had none left */
	}
	if (at) return IS_AWAKE;
	model.w->did.refused++;
	if (strstr(error, "sleeps")) return IS_ASLEEP;
	if (strstr(error, "not in use")) {
		CHECK(model.lent[device][region], "region %d of device %d: %s", region, device,
		      error);
		return IS_AWAKE;
	}
	CHECK(strstr(error, "out of memory") || model.fails,
	      "a request on device %d, region %d: %s", device, region, error);
	return IS_FULL;
}

void model_malloc(struct block *b)
{
	int device = (int)below((uint64_t)run.devices), n = (int)below(STREAMS);
	model_malloc_in(b, device, (int)below(REGIONS), n);
}

void model_malloc_in(struct block *b, int device, int region, int n)
{
	struct worker *w = model.w;
	b->p.at = NULL;
	*b = (struct block){.region = region, .stream_no = n, .plain = model.closed[device]};
	b->p = (struct tracked){
		.size = request_size(), .device = device, .stream = model.streams[device][n]};
	b->p.tag = ++w->sequence * 64 + 1; /* not all words are checked */
	OK(region_begin(b->region));
	b->p.at = stalloc_malloc(b->p.size, device, b->p.stream);
	enum answer is = answer_of(b->p.at, device, b->region);
	region_end(b->region);
	if (is != IS_FULL && !b->plain) region_is(device, b->region, is == IS_ASLEEP, "a request");
	LOG("malloc %p, %zu bytes, device %d, region %d, stream %d, tag %#llx", b->p.at, b->p.size,
	    device, b->region, n, (ull)b->p.tag);
	if (!b->p.at) return;
	tracked_claim(&b->p, true);
	model.own[device][b->region][n] = model.written[device][b->region] = true;
	work_write(&b->p, n);
}

void model_record_stream(struct block *b)
{
	int n = (int)below(STREAMS);
	if (!block_awake(b) || b->lost || b->used_on || n == b->stream_no) return;
	if (b->stream_no < 0)
		kit_pass_all();
	else /* as an event that is waited for */
		fake(pass_stream)(model.streams[b->p.device][b->stream_no]);
	stalloc_record_stream(b->p.at, model.streams[b->p.device][n]);
	b->used_on = n + 1;
	LOG("record stream %d for %p", n, b->p.at);
	work_read(&b->p, n);
	if (chance(2)) return;
	work_write(&b->p, n); /* the same */
	model.written[b->p.device][b->region] = true;
}

void model_free(struct block *b)
{
	if (!b->p.at) return;
	LOG("free %p", b->p.at);
	if (block_awake(b) && !b->lost && b->stream_no >= 0) work_read(&b->p, b->stream_no);
	if (b->shared) kit_pass_all(); /* its region may sleep, where no work is to be */
	tracked_claim(&b->p, false);
	stalloc_free(b->p.at, b->p.size, b->p.device, b->p.stream);
	b->p.at = NULL;
}

void model_free_awake(void)
{
	for (int i = 0; i < BLOCKS; i++)
		if (block_awake(&model.blocks[i])) model_free(&model.blocks[i]);
	kit_pass_all();
	stalloc_empty_cache();
}

void model_check(void)
{
	kit_pass_all();
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &model.blocks[i];
		if (!b->p.at || !block_awake(b)) continue;
		if (b->lost)
			tracked_words(&b->p, model.written[b->p.device][b->region] = true);
		else
			tracked_check(&b->p);
		b->lost = false;
	}
}
