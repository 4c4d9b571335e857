/* Streams that make one request each, as a program's that takes another stream of a pool in each
 * round: what a round leaves serves the next. Rounds take a while, since lending is
 * rationed, and come first in a night: after waits that bought nothing it pauses. */
#include "model.h"

enum { POOL = 32, ROUNDS = 10, PACKS = 2, PACE_MS = 20 * PACKS + 10 };
static const size_t pack = (size_t)4 << 20, slack = (size_t)4 << 20;

static void *pool[DEVICES][POOL];
static int next[DEVICES];

/* Of each device's pool, in turns; they last as long as the night. */
static void *stream_of(int device)
{
	void **s = &pool[device][next[device]++ % POOL];
	if (!*s) CHECK((*s = road_new(night.w, device)), "no stream");
	return *s;
}

static size_t reserved(int device)
{
	return kit_stats_of(device).reserved;
}

/* False: the device is full. */
static bool round_of(int device)
{
	struct piece p[PACKS];
	int served = 0;
	for (; served < PACKS; served++) {
		struct piece *x = &p[served];
		*x = (struct piece){.size = pack,
				    .device = device,
				    .stream = stream_of(device),
				    .tag = ++night.w->sequence * 64 + 1};
		stalloc_lasting_stream(device,
				       x->stream); /* before its request, as PyTorch's adapter */
		x->at = stalloc_malloc(pack, device, x->stream);
		if (answer_of(x->at, device, 0) != IS_AWAKE) break;
		piece_claim(x, true);
		kit_pass_all(); /* of whoever had it before */
		piece_few(x, true);
	}
	for (int i = 0; i < served; i++) {
		piece_check(&p[i]);
		piece_claim(&p[i], false);
		stalloc_free(p[i].at, 0, device, p[i].stream);
	}
	return served == PACKS;
}

void once_play(void)
{
	int device = (int)below((uint64_t)life.devices);
	size_t second = 0;
	for (int i = 1; i <= ROUNDS && round_of(device); i++) {
		if (i == 2) second = reserved(device);
		CHECK(i < 3 || reserved(device) <= second + slack,
		      "device %d: %zu bytes are reserved after round %d, %zu were after the "
		      "second",
		      device, reserved(device), i, second);
		kit_sleep_ms(PACE_MS);
		kit_progress();
	}
}

void once_close(void)
{
	kit_pass_all();
	for (int d = 0; d < life.devices; d++)
		for (int i = 0; i < POOL; i++)
			if (pool[d][i]) kit_stream_end(pool[d][i]);
}
