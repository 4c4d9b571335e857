/* The CUDA driver, opened once, and the program's tracker of what is mapped. */
#include <pthread.h>
#include <stdio.h>

#include "runtime.h"

static struct stalloc_driver driver;
static stalloc_tracker the_tracker; /* written atomically */
static bool driver_open;
static char driver_problem[512];
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
	driver_open = stalloc_driver_open(stalloc_conf("driver"), &driver, driver_problem,
					  sizeof driver_problem) == 0;
	driver.tracker = &the_tracker;
}

const struct stalloc_driver *stalloc_get_driver(char *err, size_t n) {
	pthread_once(&driver_once, open_driver);
	if (!driver_open) snprintf(err, n, "%s", driver_problem);
	return driver_open ? &driver : NULL;
}

/* What is kept was mapped by the driver, so it is open by then. */
void stalloc_tidy_imports(void) { stalloc_tidy(&driver); }

_Static_assert((int)STALLOC_MAPPED == STALLOC_CU_MAPPED &&
		       (int)STALLOC_USABLE == STALLOC_CU_USABLE &&
		       (int)STALLOC_UNMAPPED == STALLOC_CU_UNMAPPED,
	       "stalloc.h and cuda/driver.h number the changes for trackers differently");

void stalloc_set_tracker(stalloc_tracker tracker) {
	__atomic_store_n(&the_tracker, tracker, __ATOMIC_RELEASE);
}
