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

/* Imported handles that the driver would not take back. */
static struct unreleased {
	struct unreleased *next;
	stalloc_cu_handle handle;
} *unreleased;
static pthread_mutex_t unreleased_lock = PTHREAD_MUTEX_INITIALIZER;

/* Without memory on the host it is lost until the process ends. */
static void let_go(const struct stalloc_driver *driver,
		   stalloc_cu_handle handle)
{
	struct unreleased *u;
	if (driver->cuMemRelease(handle) == STALLOC_CU_SUCCESS ||
	    (u = malloc(sizeof *u)) == NULL)
		return;
	u->handle = handle;
	pthread_mutex_lock(&unreleased_lock);
	u->next = unreleased;
	unreleased = u;
	pthread_mutex_unlock(&unreleased_lock);
}

void stalloc_release_imported(const struct stalloc_driver *driver)
{
	pthread_mutex_lock(&unreleased_lock);
	for (struct unreleased **at = &unreleased, *u; (u = *at) != NULL;) {
		if (driver->cuMemRelease(u->handle) == STALLOC_CU_SUCCESS) {
			*at = u->next;
			free(u);
		} else {
			at = &u->next;
		}
	}
	pthread_mutex_unlock(&unreleased_lock);
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
	let_go(driver, handle); /* it lives as long as it is mapped */
	return code;
}
