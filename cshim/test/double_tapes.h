/* The stand-in engine's plans. At a step boundary what a stream did in the step
 * becomes a tape whose slots are all disjoint, so that every order of serving them is
 * valid, and is published; a block that is live at the boundary is owed. After a
 * mismatch a few entries are looked ahead.
 *
 * Every function but tapes_look_ahead is called under the engine's lock and takes the
 * streams' itself. */
#ifndef STALLOC_TEST_DOUBLE_TAPES_H
#define STALLOC_TEST_DOUBLE_TAPES_H

#include "../shared.h"

/* Tapes are entered into the host's table of arenas, from now on. */
void tapes_open(const struct stalloc_host *host);

/* Serves a request that C refused from one of the next entries; 0: there is none that
 * fits. The stream's lock is held. */
uint64_t tapes_look_ahead(struct stalloc_stream *s, uint64_t asked);

/* Notes that another stream uses the slot at addr, if there is one. */
void tapes_pin(uint64_t addr, uint64_t stream);

/* Ends the life of a pinned slot. False: there is no such arena. */
bool tapes_unpin(uint64_t addr);

/* Ends a stream's step: its tape starts over, or another one takes its place, or none
 * if so said. */
void tapes_boundary(struct stalloc_stream *s, struct stalloc_engine_stats *sum, bool none);

/* Frees what tapes hold that are not served and have no live block, and adds their
 * counts to their devices' totals. */
void tapes_retire(struct stalloc_engine_stats *totals);

/* Adds the counts of the tapes there are. */
void tapes_count(int device, struct stalloc_engine_stats *out);

#endif
