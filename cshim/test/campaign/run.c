/* One run, in a process of its own: see campaign.c. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run.h"

struct run run;
_Atomic bool over;

#if defined(__SANITIZE_THREAD__)
enum { CAN_FORK = 0 }; /* forked children of a program with threads are beyond TSan */
#else
enum { CAN_FORK = 1 };
#endif

static bool one_in(uint64_t *dice, uint64_t n) { return kit_below(dice, n) == 0; }

static void set_number(const char *name, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (ull)value);
	setenv(name, text, 1);
}

/* STALLOC_CONF names the driver, then the engine; the rest is the run's. */
static void set_conf(uint64_t dice, const struct run *r)
{
	char conf[2048];
	const char *from = getenv("STALLOC_CONF"), *folder = getenv("CAMPAIGN_SCRATCH");
	const char *engine = from ? strstr(from, ",engine:") : NULL;
	CHECK(engine, "STALLOC_CONF names no driver and engine");
	int n = snprintf(conf, sizeof conf, "%.*s%s", (int)(engine - from), from,
			 r->engine ? engine : ",engine:/nonexistent/engine.so");
#define ADD(...) n += snprintf(conf + n, sizeof conf - (size_t)n, __VA_ARGS__)
	/* Large handles, as of a large program. */
	if (dice % 4 == 0) ADD(",handle_part:16");
	static const char *const plans[] = {"always", "always", "always", "on", "on", "off"};
	ADD(",plan:%s", plans[kit_below(&dice, 6)]);
	if (one_in(&dice, 8)) ADD(",stitch:off");
	if (one_in(&dice, 8)) ADD(",pool:gmlake");
	if (one_in(&dice, 4)) ADD(",native:off");
	if (one_in(&dice, 8)) ADD(",page:off");
	if (one_in(&dice, 8)) ADD(",window:32GiB");
	if (r->limits && one_in(&dice, 3)) ADD(",limit:60%%");
	if (one_in(&dice, 2) || r->modelled) ADD(",share:fd");
	if (one_in(&dice, 8)) ADD(",oom_report:%s/oom", folder);
#undef ADD
	CHECK(n < (int)sizeof conf, "STALLOC_CONF is too long");
	setenv("STALLOC_CONF", conf, 1);
	set_number("FAKECUDA_DEVICES", (uint64_t)r->devices);
	set_number("FAKECUDA_CAPACITY", r->capacity);
	set_number("FAKECUDA_EVENT_DELAY", one_in(&dice, 2) ? kit_below(&dice, 40) : 0);
	set_number("FAKECUDA_REUSE_STREAMS", kit_below(&dice, 2));
	set_number("FAKECUDA_REUSE_HANDLES", r->modelled || one_in(&dice, 2));
	set_number("FAKECUDA_HELD", r->modelled);
	set_number("FAKECUDA_ANY_STREAM", 0);
	set_number("FAKECUDA_POISON", 0);
	if (one_in(&dice, 5)) setenv("GOGC", "5", 1);
}

/* Such a run is short: what it finds, it finds early. */
static void as_modelled(uint64_t dice, struct run *r)
{
	static const size_t capacities[] = {40 << 20, 64 << 20, 128 << 20};
	r->capacity = capacities[kit_below(&dice, 3)];
	r->devices = one_in(&dice, 2) ? 1 : 2 + (int)kit_below(&dice, DEVICES - 1);
	r->closes = r->devices > 1 && one_in(&dice, 2);
	r->limits = one_in(&dice, 2);
	r->faults = one_in(&dice, 2);
	r->threads = 0;
	r->engine = true;
	r->perturbed = r->wrong_frees = r->forks = r->no_oom = false;
	r->seconds = 1;
}

struct run run_of(uint64_t seed, bool in_environment)
{
	static const size_t capacities[] = {256 << 20, 512 << 20, (size_t)6 << 30};
	static const size_t largest[] = {6000, 6000, 60000, 400000, 3 << 20};
	uint64_t dice = seed;
	struct run r = {.seed = seed, .devices = 1};
	if (one_in(&dice, 2)) r.devices += (int)kit_below(&dice, DEVICES);
	r.threads = r.devices + 1 + (int)kit_below(&dice, (uint64_t)(THREADS - r.devices));
	r.capacity = capacities[kit_below(&dice, 3)];
	r.largest = largest[kit_below(&dice, 5)];
	r.engine = !one_in(&dice, 25);
	r.noisy = one_in(&dice, 2);
	r.faults = one_in(&dice, 3);
	r.open_pools = one_in(&dice, 3);
	r.closes = one_in(&dice, 4);
	r.limits = one_in(&dice, 4);
	r.perturbed = one_in(&dice, 5);
	r.wrong_frees = one_in(&dice, 3);
	r.forks = CAN_FORK && one_in(&dice, 3);
	r.ends_closed = one_in(&dice, 2);
	r.no_oom = r.capacity > (size_t)1 << 30 && !r.faults && !r.limits;
	r.no_fallback = r.engine && !r.faults && !r.closes;
	r.seconds = 1 + (double)kit_below(&dice, 9000) / 1000;
	r.modelled = kit_number("CAMPAIGN_MODELLED", one_in(&dice, 2));
	if (r.modelled) as_modelled(dice, &r);
	if (in_environment) set_conf(dice, &r);
	return r;
}

/* Held shared by each thread that does something, or exclusively by one. */
static pthread_rwlock_t exclusive;

static void exclusive_open(void)
{
	pthread_rwlockattr_t a;
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&exclusive, &a);
}

static void *thread_main(void *argument)
{
	struct worker *w = argument;
	perturb_thread(w);
	bool trains = !run.noisy && w->id <= run.devices; /* and so its steps repeat */
	while (!atomic_load(&over)) {
		uint64_t dice = kit_below(&w->random, 1000);
		bool alone = !trains && dice >= 998;
		alone ? pthread_rwlock_wrlock(&exclusive) : pthread_rwlock_rdlock(&exclusive);
		if (trains || dice < 300)
			steps_play(w);
		else if (dice < 880)
			shared_play(w);
		else if (dice < 920)
			other_call(w);
		else if (dice < 930)
			graph_pool(w);
		else if (dice < 940)
			graph_capture(w);
		else if (dice < 970)
			region_play(w);
		else if (dice < 985)
			slot_recreate(w);
		else if (dice < 998)
			short_stream_play(w);
		else
			pause_all(w);
		if (trains && dice > 990) other_call(w);
		pthread_rwlock_unlock(&exclusive);
	}
	perturb_thread_ends();
	return NULL;
}

/* Closes a device that the threads use, at times all of them. */
static void wait_and_close(struct worker *w, double seconds)
{
	double start = kit_seconds();
	bool closes = run.closes;
	while (kit_seconds() - start < seconds) {
		kit_sleep_ms(5);
		if (!closes || kit_seconds() - start < seconds * 0.6) continue;
		int device = (int)kit_below(&w->random, (uint64_t)run.devices + 1) - 1;
		CHECK(stalloc_close(device) == STALLOC_OK || run.faults, "%s",
		      stalloc_last_error());
		closes = false;
	}
}

/* The sums of all runs, in memory that the campaign shares. */
static void add(struct tally *sum, const struct tally *did)
{
#define ADD(name) sum->name += did->name;
	TALLY(ADD)
#undef ADD
}

static struct tally *shared_tally(void)
{
	char path[256];
	snprintf(path, sizeof path, "%s/tally", getenv("CAMPAIGN_SCRATCH"));
	int f = open(path, O_RDWR);
	struct tally *t = f < 0 ? MAP_FAILED
				: mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	CHECK(t != MAP_FAILED, "no tally in %s", path);
	close(f);
	return t;
}

/* A run of many threads. */
static void threaded_play(struct worker *workers, struct worker *w, double most)
{
	load_earlier_plan(w);
	faults_start();
	for (int i = 0; i < run.threads; i++) {
		workers[i] = (struct worker){.id = i + 1,
					     .random = run.seed + 1000 * (uint64_t)(i + 1)};
		workers[i].thread = kit_thread(thread_main, &workers[i]);
	}
	perturb_start(workers, run.threads);
	wait_and_close(w, run.seconds < most ? run.seconds : most);
	atomic_store(&over, true);
	perturb_end(w);
	for (int i = 0; i < run.threads; i++) pthread_join(workers[i].thread, NULL);
	faults_end(w);
}

void run_play(double most)
{
	static struct worker workers[THREADS], w;
	run = run_of(kit_seed(), false);
	printf("devices %d of %zu MiB, threads %d, requests to %zu; noisy %d, no OOM %d, "
	       "engine %d, open pools %d, closes %d, forks %d, "
	       "limits %d, faults %d, perturbed %d, wrong frees %d, ends closed %d, modelled %d\n",
	       run.devices, run.capacity >> 20, run.threads, run.largest, run.noisy,
	       run.no_oom, run.engine, run.open_pools, run.closes, run.forks, run.limits,
	       run.faults, run.perturbed, run.wrong_frees, run.ends_closed, run.modelled);
	kit_watchdog((unsigned)kit_number("STALLOC_TEST_HANG", 60));
	fflush(stdout);
	tracked_open();
	exclusive_open();
	w = (struct worker){.id = THREADS + 1, .random = run.seed + 5};
	slots_open(&w);
	run.modelled ? modelled_play(&w, run.seconds < most ? run.seconds : most)
		     : threaded_play(workers, &w, most);
	leak_check(workers, &w);
	struct tally *sum = shared_tally();
	for (int i = 0; i < run.threads; i++) add(sum, &workers[i].did);
	add(sum, &w.did);
}
