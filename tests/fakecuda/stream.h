/* What streams, events and captures share. A stream is two positions: the last one
 * given to an event and the one its work has passed. */
#ifndef STALLOC_FAKE_STREAM_H
#define STALLOC_FAKE_STREAM_H

#include "fake.h"

enum { NOT_CAPTURING, CAPTURING, INVALIDATED };
#define CAPTURE_IMPLICIT 906

struct stream {
	void *key;
	int created, alive, capture, device; /* -1: of any */
	int blocking; /* it and the default stream wait for each other */
	int captures; /* begun so far */
	long last, passed;
};
extern struct stream *streams;
extern size_t stream_count;

/* Handles are numbers, cast to pointers; they start above the driver's own
 * special streams 0, 1 and 2. */
#define FIRST 4096

struct stream *find_stream(void *key);
/* Lets the work of a stream pass a position; what it waits for passes first. */
void pass(struct stream *s, long to);
/* Work of a stream after its last position begins when another has passed one. */
void stream_wait(struct stream *s, long other, long until);

/* event.c */
void event_reset(void);

/* capture.c */
void invalidate(void); /* every capture */
/* Whether the default stream is named while a stream that waits for it is captured. To ask does
 * that no harm, to give it work does. */
int implicit(const struct stream *s);
void capture_reset(void);

#endif
