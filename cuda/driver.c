/* Opening the driver's library and resolving its functions: see driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layouts are a binary interface: a compiler that pads otherwise must fail
 * here and not in the driver. */
_Static_assert(sizeof(struct stalloc_cu_uuid) == 16, "CUuuid");
_Static_assert(sizeof(struct stalloc_cu_location) == 8, "CUmemLocation");
_Static_assert(sizeof(struct stalloc_cu_prop) == 32, "CUmemAllocationProp");
_Static_assert(offsetof(struct stalloc_cu_prop, win32) == 16,
	       "CUmemAllocationProp.win32HandleMetaData");
_Static_assert(sizeof(struct stalloc_cu_access) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(stalloc_cu_addr) == 8, "CUdeviceptr");

static const char default_path[] = "libcuda.so.1";

/* POSIX promises that a pointer from dlsym can hold a function; ISO C has no
 * cast for it, so the bytes are copied. */
static int resolve(void *library, const char *symbol, void *slot)
{
	void *address = dlsym(library, symbol);
	memcpy(slot, &address, sizeof address);
	return address != NULL;
}

int stalloc_driver_open(const char *path, struct stalloc_driver *out, char *err,
			size_t errlen)
{
	if (path == NULL || path[0] == '\0')
		path = default_path;
	memset(out, 0, sizeof *out);
	out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (out->handle == NULL) {
		const char *why = dlerror();
		snprintf(err, errlen,
			 "cannot open the CUDA driver library %s: %s; install "
			 "the NVIDIA driver, or add the folder that holds "
			 "libcuda.so.1 to LD_LIBRARY_PATH",
			 path, why != NULL ? why : "unknown reason");
		return -1;
	}
	const char *missing = NULL;
#define RESOLVE(field, symbol, parameters)                                     \
	if (!resolve(out->handle, #symbol, &out->field) && missing == NULL)   \
		missing = #symbol;
	STALLOC_DRIVER_CALLS(RESOLVE)
#undef RESOLVE
	if (missing == NULL)
		return 0;
	snprintf(err, errlen,
		 "%s is not a usable CUDA driver library: it has no function "
		 "%s; install an NVIDIA driver of CUDA 11.4 or later",
		 path, missing);
	dlclose(out->handle);
	memset(out, 0, sizeof *out);
	return -1;
}

const char *stalloc_driver_error_name(const struct stalloc_driver *driver,
				      stalloc_cu_result code)
{
	const char *name = NULL;
	if (driver->cuGetErrorName(code, &name) != STALLOC_CU_SUCCESS ||
	    name == NULL)
		return "";
	return name;
}

/* What the driver would not take back. */
static struct kept {
	struct kept *next;
	struct stalloc_leftover what;
} *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* Without memory on the host it is lost until the process ends. */
static void keep(const struct stalloc_leftover *what)
{
	struct kept *k = malloc(sizeof *k);
	if (k == NULL)
		return;
	k->what = *what;
	pthread_mutex_lock(&kept_lock);
	k->next = kept;
	__atomic_store_n(&kept, k, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&kept_lock);
}

stalloc_cu_result stalloc_undo(const struct stalloc_driver *driver,
			       struct stalloc_leftover what, const char **call)
{
	stalloc_cu_result code = STALLOC_CU_SUCCESS;
	*call = "cuMemUnmap";
	if (what.mapped != 0)
		code = driver->cuMemUnmap(what.at, what.mapped);
	if (code == STALLOC_CU_SUCCESS)
		what.mapped = 0;
	if (what.mapped == 0 && what.reserved != 0) {
		*call = "cuMemAddressFree";
		code = driver->cuMemAddressFree(what.at, what.reserved);
		if (code == STALLOC_CU_SUCCESS)
			what.reserved = 0;
	}
	if (what.held) {
		stalloc_cu_result released = driver->cuMemRelease(what.handle);
		what.held = released != STALLOC_CU_SUCCESS;
		if (what.held && code == STALLOC_CU_SUCCESS) {
			*call = "cuMemRelease";
			code = released;
		}
	}
	if (code != STALLOC_CU_SUCCESS)
		keep(&what);
	return code;
}

void stalloc_tidy(const struct stalloc_driver *driver)
{
	struct kept *k, *next;
	const char *call;
	if (__atomic_load_n(&kept, __ATOMIC_RELAXED) == NULL)
		return;
	pthread_mutex_lock(&kept_lock);
	k = kept;
	__atomic_store_n(&kept, NULL, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&kept_lock);
	for (; k != NULL; k = next) {
		next = k->next;
		stalloc_undo(driver, k->what, &call);
		free(k);
	}
}

stalloc_cu_result stalloc_map_exported(const struct stalloc_driver *driver,
				       stalloc_cu_addr at, size_t size,
				       const struct stalloc_exported *what,
				       const char **call)
{
	stalloc_cu_handle handle;
	stalloc_cu_result code;
	*call = "cuMemImportFromShareableHandle";
	if (what->fd >= 0)
		code = driver->cuMemImportFromShareableHandle(
			&handle, (void *)(intptr_t)what->fd,
			STALLOC_CU_HANDLE_FD);
	else
		code = driver->cuMemImportFromShareableHandle(
			&handle, (void *)(uintptr_t)what->name,
			STALLOC_CU_HANDLE_FABRIC);
	if (code != STALLOC_CU_SUCCESS)
		return code;
	*call = "cuMemMap";
	code = driver->cuMemMap(at, size, 0, handle, 0);
	const char *other; /* it lives as long as it is mapped */
	struct stalloc_leftover rest = {.handle = handle, .held = 1};
	stalloc_undo(driver, rest, &other);
	return code;
}
