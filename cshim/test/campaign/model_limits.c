/* Limits, as the driver counts: no call makes a device hold more than its limit, or more than it
 * held before. Memory of closed devices is of plain driver allocations, beside what still sleeps.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

static size_t limits[DEVICES]; /* 0: not set */
static size_t held[DEVICES];   /* when the last call was over */

/* What STALLOC_CONF allows. */
static size_t most(void)
{
	return strstr(getenv("STALLOC_CONF"), ",limit:60%") ? (size_t)((double)life.capacity * 0.6)
							    : life.capacity;
}

void quota_set(int device, double fraction)
{
	CHECK(stalloc_set_memory_fraction(fraction, device) == STALLOC_OK || night.closed[device],
	      "%s", stalloc_last_error());
	TELL("limit device %d to %g", device, fraction);
	limits[device] = (size_t)((double)life.capacity * fraction);
}

void quotas_check(void)
{
	for (int d = 0; d < life.devices; d++) {
		size_t limit = limits[d] && limits[d] < most() ? limits[d] : most();
		size_t peak = (size_t)fake(most)(d), now = (size_t)fake(most)(d);
		CHECK(night.closed[d] || peak <= limit || peak <= held[d],
		      "device %d held %zu bytes, of %zu that it may, and %zu before", d, peak,
		      limit, held[d]);
		held[d] = now;
	}
}
