/* Steps as a training run makes them: activations that live from the forward to the
 * backward pass, and a lot of what lives for a moment. */
#include "run.h"

enum { LAYERS = 16, ACTS = 3, STEPS = 24, MANY = 20000 };

/* What lives for a moment: nearly all requests. */
static void moments(struct worker *w, uint64_t *program, int device, void *stream)
{
	size_t size = 1 + kit_below(program, life.largest);
	for (uint64_t n = 1 + kit_below(program, size < MANY ? 200 : 8); n > 0; n--) {
		struct piece a, b;
		piece_get(w, &a, size, device, stream);
		piece_get(w, &b, size / 3 + 1, device, stream);
		piece_give(w, &a);
		piece_give(w, &b);
	}
}

/* Length: of the sequences, in 64ths. */
static void step(struct worker *w, uint64_t program, uint64_t length, int device, void *stream)
{
	struct piece act[LAYERS][ACTS] = {{{0}}};
	int layers = 2 + (int)kit_below(&program, LAYERS - 2);
	for (int l = 0; l < layers; l++) {
		for (int i = 0; i < ACTS; i++) {
			size_t size = 1 + kit_below(&program, life.largest);
			if (i > 0) size = size * length / 64 + 1;
			if (!life.noisy || kit_below(&w->random, 50))
				piece_get(w, &act[l][i], size, device, stream);
		}
		moments(w, &program, device, stream);
	}
	for (int l = layers - 1; l >= 0; l--) {
		moments(w, &program, device, stream);
		for (int i = ACTS - 1; i >= 0; i--)
			if (life.noisy && act[l][i].at && kit_below(&w->random, 40) == 0)
				cell_leave(w, &act[l][i]);
			else
				piece_give(w, &act[l][i]);
	}
}

void steps_play(struct worker *w)
{
	bool own = !life.noisy && w->id <= life.devices;
	int device = own ? w->id - 1 : (int)kit_below(&w->random, (uint64_t)life.devices);
	int road = road_enter(w, device, own ? w->id : 0);
	uint64_t program =
		kit_below(&w->random, 4) ? life.seed + (uint64_t)w->id : kit_random(&w->random);
	bool varies = kit_below(&w->random, 2);
	for (uint64_t n = 1 + kit_below(&w->random, STEPS); n > 0 && !atomic_load(&over); n--) {
		step(w, program, varies ? 16 + kit_below(&w->random, 49) : 64, device,
		     road_stream(road));
		if (own || kit_below(&w->random, 4) == 0)
			CHECK(stalloc_step(device) == STALLOC_OK || life.mishaps, "%s",
			      stalloc_last_error());
		kit_progress();
	}
	road_leave(road);
}
