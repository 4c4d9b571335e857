/* Opens the Go engine, on the first request that needs it: importing the
 * package costs nothing, and RTLD_LAZY leaves the NVML functions that the
 * engine does not call unresolved. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static struct stalloc_engine table;
static _Atomic(const struct stalloc_engine *) engine;
static _Atomic bool failed; /* to open */
static _Atomic bool given_up[STALLOC_MAX_DEVICES];
static _Atomic bool logged;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The engine lies beside this library unless STALLOC_CONF names another. */
static void path_of_engine(char *out, size_t n) {
	const char *set = stalloc_conf("engine");
	Dl_info info;
	out[0] = '\0';
	if (set) {
		snprintf(out, n, "%s", set);
	} else if (dladdr((void *)stalloc_version, &info) && info.dli_fname) {
		const char *slash = strrchr(info.dli_fname, '/');
		int dir = slash ? (int)(slash - info.dli_fname) + 1 : 0;
		snprintf(out, n, "%.*slibstalloc_engine.so", dir, info.dli_fname);
	}
}

static int open_engine(char *err, size_t n) {
	char path[4096], why[512];
	path_of_engine(path, sizeof path);
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		snprintf(err, n, "the engine cannot be opened: %s; build it with make build or name it in STALLOC_CONF=engine:PATH",
			 dlerror());
		return STALLOC_ERR_ENGINE;
	}
#define RESOLVE(type, name, parameters)                                                       \
	if (!(*(void **)&table.name = dlsym(library, "stalloc_engine_" #name))) {             \
		snprintf(err, n, "%s has no stalloc_engine_" #name                            \
				 ": it is of another version; build both libraries together", \
			 path);                                                               \
		return STALLOC_ERR_ENGINE;                                                    \
	}
	STALLOC_ENGINE_CALLS(RESOLVE)
#undef RESOLVE
	struct stalloc_host host = {
		.size = sizeof host,
		.conf = stalloc_conf_text(),
		.driver = stalloc_the_driver(why, sizeof why),
		.devices = stalloc_devices,
		.arenas = stalloc_arenas,
		.arena_count = &stalloc_arena_count,
	};
	if (!host.driver) {
		snprintf(err, n, "%s", why);
		return STALLOC_ERR_DRIVER;
	}
	return table.start(&host, err, n);
}

const struct stalloc_engine *stalloc_engine_if_open(void) {
	return atomic_load_explicit(&engine, memory_order_acquire);
}

const struct stalloc_engine *stalloc_engine(int device) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	char err[1024] = "";
	if (STALLOC_UNLIKELY(atomic_load_explicit(&given_up[device], memory_order_relaxed))) return NULL;
	if (STALLOC_LIKELY(e) || atomic_load_explicit(&failed, memory_order_relaxed)) return e;
	pthread_mutex_lock(&lock);
	e = stalloc_engine_if_open();
	if (!e && !atomic_load(&failed)) {
		if (open_engine(err, sizeof err) == STALLOC_OK) {
			e = &table;
			atomic_store_explicit(&engine, e, memory_order_release);
		} else {
			atomic_store(&failed, true);
			stalloc_log_once(&logged, "%s; serving from plain driver allocations", err);
		}
	}
	pthread_mutex_unlock(&lock);
	return e;
}

/* Blocks that the engine handed out stay known to it, and other devices go on with
 * it; alloc is never called again for this one. */
void stalloc_engine_give_up(int device, const char *why) {
	stalloc_log_once(&given_up[device],
			 "the engine failed on device %d (%s); serving it from plain driver allocations from now on", device, why);
}
