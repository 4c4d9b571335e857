/* Makes another allocator process its events: it checks which work of other streams is done only
 * when a block is requested. The loop is in C because one in Python would hold the GIL. */
#include <time.h>

#include "../stalloc_torch.h"

int stalloc_poll(stalloc_ask ask, stalloc_give_back give_back, uint64_t bytes, uint32_t micros,
		 const int *stop)
{
	const struct timespec pause = {.tv_sec = micros / 1000000,
				       .tv_nsec = micros % 1000000 * 1000L};
	while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
		void *block = NULL;
		if (ask(bytes, &block) != 0 || give_back(block) != 0) return STALLOC_ERR_MEMORY;
		nanosleep(&pause, NULL);
	}
	return STALLOC_OK;
}
