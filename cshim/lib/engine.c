/* Opens the Go engine on the first request that needs it, so that importing the package costs
 * nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime.h"

static struct stalloc_engine table;
static _Atomic(const struct stalloc_engine *) engine;
static _Atomic bool given_up[STALLOC_MAX_DEVICES];
static char why_given_up[STALLOC_MAX_DEVICES][1024];
static _Atomic bool logged_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The engine is in this library's folder unless STALLOC_CONF names another file. */
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
	char path[4096], name[32];
	if (stalloc_conf_problem()) {
		snprintf(err, n, "%s", stalloc_conf_problem());
		return STALLOC_ERR_ENGINE;
	}
	path_of_engine(path, sizeof path);
	if (!stalloc_needs_met(err, n)) return STALLOC_ERR_ENGINE;
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		snprintf(err, n,
			 "the engine cannot be opened: %s; build it with make build or name it in "
			 "STALLOC_CONF=engine:PATH",
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
		.device = sizeof *stalloc_devices,
		.name = stalloc_log_name(name, sizeof name),
		.conf = stalloc_conf_text(),
		.driver = stalloc_get_driver(err, n),
		.devices = stalloc_devices,
	};
	return host.driver ? table.start(&host, err, n) : STALLOC_ERR_DRIVER;
}

/* Opens the engine and keeps the soft limit of open files. Go raises it to one below the hard
 * limit; children would inherit that, and programs that use select() need small descriptors. */
static int open_with_limits_kept(char *err, size_t n) {
	struct rlimit before, after;
	bool known = getrlimit(RLIMIT_NOFILE, &before) == 0;
	int result = open_engine(err, n);
	if (known && getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur > before.rlim_cur &&
	    after.rlim_cur + 1 >= after.rlim_max) {
		after.rlim_cur = before.rlim_cur;
		setrlimit(RLIMIT_NOFILE, &after);
	}
	return result;
}

const struct stalloc_engine *stalloc_engine_if_open(void) {
	const struct stalloc_engine *e = atomic_load_explicit(&engine, memory_order_acquire);
	return e && *stalloc_alive && STALLOC_LIKELY(stalloc_thread_fits()) ? e : NULL;
}

/* Called with the lock held. */
static void give_up(int device, const char *why) {
	if (atomic_load(&given_up[device])) return;
	snprintf(why_given_up[device], sizeof why_given_up[device], "%s", why);
	atomic_store(&given_up[device], true);
}

const struct stalloc_engine *stalloc_engine(int device) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	char why[1024];
	if (STALLOC_UNLIKELY(atomic_load_explicit(&given_up[device], memory_order_relaxed)))
		return NULL;
	if (STALLOC_LIKELY(e)) return e;
	if (!stalloc_thread_fits()) {
		stalloc_log_once(&logged_thread, "a thread's alternate signal stack is too small "
						 "for the engine and cannot be replaced; "
						 "plain driver allocations serve it");
		return NULL;
	}
	pthread_mutex_lock(&lock);
	e = stalloc_engine_if_open();
	if (!e && !atomic_load(&given_up[device])) {
		if (open_with_limits_kept(why, sizeof why) == STALLOC_OK) {
			e = &table;
			atomic_store_explicit(&engine, e, memory_order_release);
		} else {
			for (int i = 0; i < STALLOC_MAX_DEVICES; i++) give_up(i, why);
		}
	}
	pthread_mutex_unlock(&lock);
	return e;
}

const struct stalloc_engine *stalloc_engine_of_any(void) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	for (int i = 0; i < STALLOC_MAX_DEVICES && !e; i++) e = stalloc_engine(i);
	return e;
}

/* The engine still knows the blocks that it allocated, so frees still go there; only alloc is not
 * called again. Other devices have pools of their own. */
void stalloc_engine_give_up(int device, const char *why) {
	pthread_mutex_lock(&lock);
	give_up(device, why);
	pthread_mutex_unlock(&lock);
}

void stalloc_log_fallback_once(int device) {
	static _Atomic bool logged[STALLOC_MAX_DEVICES];
	if (atomic_load(&given_up[device]))
		stalloc_log_once(&logged[device],
				 "the engine does not serve device %d (%s); serving from plain "
				 "driver allocations",
				 device, why_given_up[device]);
}

const char *stalloc_engine_problem(int device) {
	return atomic_load(&given_up[device]) ? why_given_up[device] : NULL;
}
