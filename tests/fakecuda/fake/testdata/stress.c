/* Several threads stitch, fill, check and give back memory through the product's
 * device calls over the simulated driver, and children touch what they must
 * not. Built with sanitizers by the Go test beside it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../cuda/device.h"
#include "../../fakecuda.h"

#define PAGE STALLOC_HANDLE_SIZE
#define THREADS 4
#define ROUNDS 8
#define PAGES 3

static struct stalloc_driver driver;
static struct stalloc_device dev;

#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "line %d: %s\n", __LINE__,             \
				#condition);                                   \
			exit(1);                                               \
		}                                                              \
	} while (0)
#define OK(call) MUST((call).code == 0)

static void check(const unsigned char *at, unsigned char value, size_t size)
{
	for (size_t i = 0; i < size; i += 1021)
		MUST(at[i] == value);
}

/* Maps the handles in reverse order elsewhere and finds each one's bytes. */
static void stitch(const stalloc_cu_handle *handles, unsigned char value)
{
	stalloc_cu_addr view;
	OK(stalloc_device_reserve(&dev, PAGES * PAGE, &view));
	for (size_t i = 0; i < PAGES; i++)
		OK(stalloc_device_map(&dev, view + i * PAGE, PAGE,
				      handles[PAGES - 1 - i]));
	OK(stalloc_device_access(&dev, view, PAGES * PAGE));
	for (size_t i = 0; i < PAGES; i++)
		check((unsigned char *)(uintptr_t)(view + i * PAGE),
		      (unsigned char)(value + PAGES - 1 - i), PAGE);
	OK(stalloc_device_unmap(&dev, view, PAGES * PAGE));
	OK(stalloc_device_unreserve(&dev, view, PAGES * PAGE));
}

static void one_round(unsigned char value)
{
	stalloc_cu_addr addr;
	stalloc_cu_handle handles[PAGES];
	uintptr_t event = 0;
	int done = 0;
	OK(stalloc_device_reserve(&dev, PAGES * PAGE, &addr));
	for (size_t i = 0; i < PAGES; i++) {
		OK(stalloc_device_create(&dev, PAGE, &handles[i]));
		OK(stalloc_device_map(&dev, addr + i * PAGE, PAGE,
				      handles[i]));
	}
	OK(stalloc_device_access(&dev, addr, PAGES * PAGE));
	unsigned char *bytes = (unsigned char *)(uintptr_t)addr;
	check(bytes, 0xCB, PAGES * PAGE); /* nobody's old bytes */
	for (size_t i = 0; i < PAGES; i++)
		memset(bytes + i * PAGE, value + (int)i, PAGE);
	stitch(handles, value);
	OK(stalloc_device_record(&dev, 0, &event));
	OK(stalloc_device_sync(&dev));
	OK(stalloc_device_query(&dev, event, &done));
	MUST(done);
	OK(stalloc_device_drop_event(&dev, event));
	OK(stalloc_device_unmap(&dev, addr, PAGES * PAGE));
	for (size_t i = 0; i < PAGES; i++)
		OK(stalloc_device_release(&dev, handles[i]));
	OK(stalloc_device_unreserve(&dev, addr, PAGES * PAGE));

	stalloc_cu_context popped;
	MUST(driver.cuCtxPushCurrent(dev.context) == 0);
	MUST(driver.cuMemAlloc(&addr, 5000) == 0);
	bytes = (unsigned char *)(uintptr_t)addr;
	check(bytes, 0xCB, 5000);
	memset(bytes, value, 5000);
	check(bytes, value, 5000);
	MUST(driver.cuMemFree(addr) == 0);
	MUST(driver.cuCtxPopCurrent(&popped) == 0);
}

static void *thread(void *number)
{
	for (int i = 0; i < ROUNDS; i++)
		one_round((unsigned char)(10 * (uintptr_t)number + 1));
	return NULL;
}

/* A child that writes there must die of it. */
static void must_fault(stalloc_cu_addr addr)
{
	pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		*(volatile char *)(uintptr_t)addr = 1;
		_exit(0);
	}
	int state;
	MUST(waitpid(child, &state, 0) == child);
	MUST(WIFSIGNALED(state));
}

static void invalid_accesses(void)
{
	stalloc_cu_addr addr;
	stalloc_cu_handle handle;
	OK(stalloc_device_reserve(&dev, PAGE, &addr));
	must_fault(addr); /* reserved */
	OK(stalloc_device_create(&dev, PAGE, &handle));
	OK(stalloc_device_map(&dev, addr, PAGE, handle));
	must_fault(addr); /* mapped without access */
	OK(stalloc_device_access(&dev, addr, PAGE));
	*(volatile char *)(uintptr_t)addr = 1;
	OK(stalloc_device_unmap(&dev, addr, PAGE));
	must_fault(addr); /* unmapped */
	OK(stalloc_device_release(&dev, handle));
	OK(stalloc_device_unreserve(&dev, addr, PAGE));
}

/* A handle of several pages is mapped and unmapped whole, at any page. */
static void larger(void)
{
	stalloc_cu_addr addr;
	stalloc_cu_handle handle;
	OK(stalloc_device_reserve(&dev, 4 * PAGE, &addr));
	OK(stalloc_device_create(&dev, 3 * PAGE, &handle));
	MUST(driver.cuMemMap(addr, PAGE, 0, handle, 0) ==
	     STALLOC_CU_NOT_SUPPORTED);
	MUST(driver.cuMemMap(addr, PAGE, PAGE, handle, 0) ==
	     STALLOC_CU_NOT_SUPPORTED);
	MUST(driver.cuMemMap(addr, 4 * PAGE, 0, handle, 0) ==
	     STALLOC_CU_NOT_SUPPORTED);
	OK(stalloc_device_map(&dev, addr + PAGE, 3 * PAGE, handle));
	MUST(stalloc_device_access(&dev, addr + PAGE, PAGE).code ==
	     STALLOC_CU_INVALID_VALUE);
	OK(stalloc_device_access(&dev, addr + PAGE, 3 * PAGE));
	must_fault(addr + PAGE - 1); /* before it */
	unsigned char *bytes = (unsigned char *)(uintptr_t)(addr + PAGE);
	check(bytes, 0xCB, 3 * PAGE);
	memset(bytes, 1, 3 * PAGE);
	MUST(stalloc_device_unmap(&dev, addr + 2 * PAGE, PAGE).code ==
	     STALLOC_CU_INVALID_VALUE);
	check(bytes, 1, 3 * PAGE);
	OK(stalloc_device_unmap(&dev, addr + PAGE, 3 * PAGE));
	must_fault(addr + 4 * PAGE - 1); /* its last byte */
	OK(stalloc_device_release(&dev, handle));
	OK(stalloc_device_unreserve(&dev, addr, 4 * PAGE));
}

/* A call of ours leaves the thread's own context current, and puts none there if
 * there was none. */
static void context_restored(void)
{
	stalloc_cu_context own = NULL, now = NULL;
	OK(stalloc_device_sync(&dev));
	MUST(driver.cuCtxGetCurrent(&now) == 0 && now == NULL);
	MUST(driver.cuDevicePrimaryCtxRetain(&own, 1) == 0);
	MUST(driver.cuCtxPushCurrent(own) == 0);
	OK(stalloc_device_sync(&dev));
	MUST(driver.cuCtxGetCurrent(&now) == 0 && now == own);
	MUST(driver.cuCtxPopCurrent(&now) == 0);
	MUST(driver.cuDevicePrimaryCtxRelease(1) == 0);
}

/* An allocation breaks a capture when made directly, and what is as dangerous does not when
 * made through us; the thread's capture mode is its own again afterwards. */
static void capture(void *library)
{
	int (*begin)(void *), (*end)(void *);
	*(void **)&begin = dlsym(library, "fakecuda_capture_begin");
	*(void **)&end = dlsym(library, "fakecuda_capture_end");
	stalloc_cu_addr addr;
	stalloc_cu_context popped;
	uintptr_t event = 0;
	int done = 0;
	MUST(driver.cuCtxPushCurrent(dev.context) == 0);
	MUST(begin(NULL) == 0);
	OK(stalloc_device_record(&dev, 1, &event));
	OK(stalloc_device_query(&dev, event, &done));
	OK(stalloc_device_drop_event(&dev, event));
	MUST(end(NULL) == 1);
	MUST(begin(NULL) == 0);
	MUST(driver.cuMemAlloc(&addr, 1) == STALLOC_CU_CAPTURE_UNSUPPORTED);
	MUST(end(NULL) == 2);
	MUST(driver.cuCtxPopCurrent(&popped) == 0);
}

int main(int argc, char **argv)
{
	char err[512];
	struct stalloc_device_facts facts;
	pthread_t threads[THREADS];
	MUST(argc == 2);
	if (stalloc_driver_open(argv[1], &driver, err, sizeof err) != 0) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	OK(stalloc_device_open(&driver, 0, &dev, &facts));
	MUST(facts.granularity == PAGE && facts.count == 2);
	invalid_accesses();
	larger();
	context_restored();
	capture(driver.handle);
	for (uintptr_t i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
	size_t free_bytes, total;
	OK(stalloc_device_memory(&dev, &free_bytes, &total));
	MUST(free_bytes == total);
	OK(stalloc_device_close(&dev));
	puts("clean");
	return 0;
}
