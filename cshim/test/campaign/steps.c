/* Steps as a training run makes them: activations that live from the forward to the
 * backward pass, and many short-lived blocks. */
#include "run.h"

enum { LAYERS = 16, ACTS = 3, STEPS = 24, MANY = 20000 };

/* Short-lived blocks: nearly all requests. */
static void short_lived(struct worker *w, uint64_t *program, int device, void *stream)
{
	size_t size = 1 + kit_below(program, run.largest);
	for (uint64_t n = 1 + kit_below(program, size < MANY ? 200 : 8); n > 0; n--) {
		struct tracked a, b;
		tracked_malloc(w, &a, size, device, stream);
		tracked_malloc(w, &b, size / 3 + 1, device, stream);
		tracked_free(w, &a);
		tracked_free(w, &b);
	}
}

/* Length: of the sequences, in 64ths. */
static void step(struct worker *w, uint64_t program, uint64_t length, int device, void *stream)
{
	struct tracked act[LAYERS][ACTS] = {{{0}}};
	int layers = 2 + (int)kit_below(&program, LAYERS - 2);
	for (int l = 0; l < layers; l++) {
		for (int i = 0; i < ACTS; i++) {
			size_t size = 1 + kit_below(&program, run.largest);
			if (i > 0) size = size * length / 64 + 1;
			if (!run.noisy || kit_below(&w->random, 50))
				tracked_malloc(w, &act[l][i], size, device, stream);
		}
		short_lived(w, &program, device, stream);
	}
	for (int l = layers - 1; l >= 0; l--) {
		short_lived(w, &program, device, stream);
		for (int i = ACTS - 1; i >= 0; i--)
			if (run.noisy && act[l][i].at && kit_below(&w->random, 40) == 0)
				shared_put(w, &act[l][i]);
			else
				tracked_free(w, &act[l][i]);
	}
}

void steps_play(struct worker *w)
{
	bool own = !run.noisy && w->id <= run.devices;
	int device = own ? w->id - 1 : (int)kit_below(&w->random, (uint64_t)run.devices);
	int slot = slot_acquire(w, device, own ? w->id : 0);
	uint64_t program =
		kit_below(&w->random, 4) ? run.seed + (uint64_t)w->id : kit_random(&w->random);
	bool varies = kit_below(&w->random, 2);
	for (uint64_t n = 1 + kit_below(&w->random, STEPS); n > 0 && !atomic_load(&over); n--) {
		step(w, program, varies ? 16 + kit_below(&w->random, 49) : 64, device,
		     slot_stream(slot));
		if (own || kit_below(&w->random, 4) == 0)
			CHECK(stalloc_step(device) == STALLOC_OK || run.faults, "%s",
			      stalloc_last_error());
		kit_progress();
	}
	slot_release(slot);
}
