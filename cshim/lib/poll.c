/* Has an allocator asked for a block again and again, for one that looks only then which work of
 * other streams is done. A loop here, since one in Python takes its lock from the program. */
#include <time.h>

#include "../stalloc.h"

int stalloc_poll(stalloc_ask ask, stalloc_give_back give_back, uint64_t bytes, uint32_t micros, const int *stop)
{
	const struct timespec pause = {.tv_sec = micros / 1000000, .tv_nsec = micros % 1000000 * 1000L};
	while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
		void *block = NULL;
		if (ask(bytes, &block) != 0 || give_back(block) != 0) return STALLOC_ERR_MEMORY;
		nanosleep(&pause, NULL);
	}
	return STALLOC_OK;
}
