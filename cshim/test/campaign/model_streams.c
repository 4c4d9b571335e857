/* Streams: those that the run has all along, some of which it replaces, and those of a pool, each
 * of which makes one request, as in a program that takes another stream in each round. */
#include "model.h"

enum { POOL = 32, ROUNDS = 10, REQUESTS = 2, PACE_MS = 20 * REQUESTS + 10 };
static const size_t size = (size_t)4 << 20, slack = (size_t)4 << 20;

static void *pool[DEVICES][POOL];
static int next[DEVICES];

/* The next stream of a device's pool. */
static void *next_of_pool(int device)
{
	void **s = &pool[device][next[device]++ % POOL];
	if (!*s) CHECK((*s = stream_create(model.w, device)), "no stream");
	return *s;
}

void streams_open(void)
{
	for (int d = 0; d < run.devices; d++)
		for (int n = 1; n < STREAMS; n++) {
			CHECK((model.streams[d][n] = stream_create(model.w, d)), "no stream");
			if (n < PERSISTENT) stalloc_lasting_stream(d, model.streams[d][n]);
		}
}

void pass_some(void)
{
	fake(pass)(kit_random(&model.w->random), 1 + (long)below(8));
}

/* Destroys a stream that still has blocks; blocks used on it have to be freed before. */
void stream_replace(void)
{
	int device = (int)below((uint64_t)run.devices);
	int n = PERSISTENT + (int)below(STREAMS - PERSISTENT);
	for (int i = 0; i < BLOCKS; i++)
		if (model.blocks[i].p.at && model.blocks[i].p.device == device &&
		    model.blocks[i].used_on == n + 1)
			return;
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &model.blocks[i];
		if (b->p.at && b->p.device == device && b->stream_no == n) b->stream_no = -1;
	}
	for (int r = 1; r < REGIONS; r++) /* else nothing could come after its work there */
		if (model.own[device][r][n])
			fake(pass_stream)(model.streams[device][n]);
	LOG("replace device %d, stream %d", device, n);
	kit_stream_end(model.streams[device][n]);
	CHECK((model.streams[device][n] = stream_create(model.w, device)), "no stream");
}

void streams_close(void)
{
	kit_pass_all();
	for (int d = 0; d < run.devices; d++) {
		for (int n = 1; n < STREAMS; n++) kit_stream_end(model.streams[d][n]);
		for (int i = 0; i < POOL; i++)
			if (pool[d][i]) kit_stream_end(pool[d][i]);
	}
}

static size_t reserved(int device)
{
	return kit_stats_of(device).reserved;
}

/* False: the device is full. */
static bool round_on(int device)
{
	struct tracked p[REQUESTS];
	int served = 0;
	for (; served < REQUESTS; served++) {
		struct tracked *x = &p[served];
		*x = (struct tracked){.size = size,
				      .device = device,
				      .stream = next_of_pool(device),
				      .tag = ++model.w->sequence * 64 + 1};
		stalloc_lasting_stream(device, x->stream); /* first, as PyTorch's adapter does */
		x->at = stalloc_malloc(size, device, x->stream);
		if (answer_of(x->at, device, 0) != IS_AWAKE) break;
		tracked_claim(x, true);
		kit_pass_all(); /* of earlier blocks there */
		tracked_words(x, true);
	}
	for (int i = 0; i < served; i++) {
		tracked_check(&p[i]);
		tracked_claim(&p[i], false);
		stalloc_free(p[i].at, 0, device, p[i].stream);
	}
	return served == REQUESTS;
}

/* What a round leaves serves the next. Rounds take a while, since lending is rationed, and come
 * first in a run: after waits that bought nothing lending stops for a while. */
void single_play(void)
{
	int device = (int)below((uint64_t)run.devices);
	size_t second = 0;
	for (int i = 1; i <= ROUNDS && round_on(device); i++) {
		if (i == 2) second = reserved(device);
		CHECK(i < 3 || reserved(device) <= second + slack,
		      "device %d: %zu bytes are reserved after round %d, %zu were after the "
		      "second",
		      device, reserved(device), i, second);
		kit_sleep_ms(PACE_MS);
		kit_progress();
	}
}

