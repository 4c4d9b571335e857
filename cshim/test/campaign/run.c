/* One life of a process: see attack.c. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run.h"

struct life life;
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

/* STALLOC_CONF names the driver, then the engine; the rest is the life's. */
static void set_conf(uint64_t dice, const struct life *l)
{
	char conf[2048];
	const char *from = getenv("STALLOC_CONF"), *folder = getenv("ATTACK_SCRATCH");
	const char *engine = from ? strstr(from, ",engine:") : NULL;
	CHECK(engine, "STALLOC_CONF names no driver and engine");
	int n = snprintf(conf, sizeof conf, "%.*s%s", (int)(engine - from), from,
			 l->engine ? engine : ",engine:/nonexistent/engine.so");
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
	if (l->limits && one_in(&dice, 3)) ADD(",limit:60%%");
	if (one_in(&dice, 2) || l->night) ADD(",share:fd");
	if (one_in(&dice, 8)) ADD(",oom_report:%s/oom", folder);
#undef ADD
	CHECK(n < (int)sizeof conf, "STALLOC_CONF is too long");
	setenv("STALLOC_CONF", conf, 1);
	set_number("FAKECUDA_DEVICES", (uint64_t)l->devices);
	set_number("FAKECUDA_CAPACITY", l->capacity);
	set_number("FAKECUDA_EVENT_DELAY", one_in(&dice, 2) ? kit_below(&dice, 40) : 0);
	set_number("FAKECUDA_REUSE_STREAMS", kit_below(&dice, 2));
	set_number("FAKECUDA_REUSE_HANDLES", l->night || one_in(&dice, 2));
	set_number("FAKECUDA_HELD", l->night);
	set_number("FAKECUDA_ANY_STREAM", 0);
	set_number("FAKECUDA_POISON", 0);
	if (one_in(&dice, 5)) setenv("GOGC", "5", 1);
}

/* A night is short: what it finds, it finds early. */
static void as_night(uint64_t dice, struct life *l)
{
	static const size_t capacities[] = {40 << 20, 64 << 20, 128 << 20};
	l->capacity = capacities[kit_below(&dice, 3)];
	l->devices = one_in(&dice, 2) ? 1 : 2 + (int)kit_below(&dice, DEVICES - 1);
	l->closes = l->devices > 1 && one_in(&dice, 2);
	l->limits = one_in(&dice, 2);
	l->mishaps = one_in(&dice, 2);
	l->threads = 0;
	l->engine = true;
	l->rough = l->wrong = l->forks = l->roomy = false;
	l->seconds = 1;
}

struct life life_of(uint64_t seed, bool in_environment)
{
	static const size_t capacities[] = {256 << 20, 512 << 20, (size_t)6 << 30};
	static const size_t largest[] = {6000, 6000, 60000, 400000, 3 << 20};
	uint64_t dice = seed;
	struct life l = {.seed = seed, .devices = 1};
	if (one_in(&dice, 2)) l.devices += (int)kit_below(&dice, DEVICES);
	l.threads = l.devices + 1 + (int)kit_below(&dice, (uint64_t)(THREADS - l.devices));
	l.capacity = capacities[kit_below(&dice, 3)];
	l.largest = largest[kit_below(&dice, 5)];
	l.engine = !one_in(&dice, 25);
	l.noisy = one_in(&dice, 2);
	l.mishaps = one_in(&dice, 3);
	l.open_pools = one_in(&dice, 3);
	l.closes = one_in(&dice, 4);
	l.limits = one_in(&dice, 4);
	l.rough = one_in(&dice, 5);
	l.wrong = one_in(&dice, 3);
	l.forks = CAN_FORK && one_in(&dice, 3);
	l.ends_closed = one_in(&dice, 2);
	l.roomy = l.capacity > (size_t)1 << 30 && !l.mishaps && !l.limits;
	l.sound = l.engine && !l.mishaps && !l.closes;
	l.seconds = 1 + (double)kit_below(&dice, 9000) / 1000;
	l.night = kit_number("ATTACK_NIGHTS", one_in(&dice, 2));
	if (l.night) as_night(dice, &l);
	if (in_environment) set_conf(dice, &l);
	return l;
}

/* Held while a thread does something; or alone. */
static pthread_rwlock_t still;

static void still_open(void)
{
	pthread_rwlockattr_t a;
	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&still, &a);
}

static void *live(void *argument)
{
	struct worker *w = argument;
	rough_thread(w);
	bool trains = !life.noisy && w->id <= life.devices; /* and so its steps repeat */
	while (!atomic_load(&over)) {
		uint64_t dice = kit_below(&w->random, 1000);
		bool alone = !trains && dice >= 998;
		alone ? pthread_rwlock_wrlock(&still) : pthread_rwlock_rdlock(&still);
		if (trains || dice < 300)
			steps_play(w);
		else if (dice < 880)
			cells_play(w);
		else if (dice < 920)
			deed(w);
		else if (dice < 930)
			graph_pool(w);
		else if (dice < 940)
			graph_capture(w);
		else if (dice < 970)
			nap(w);
		else if (dice < 985)
			road_renew(w);
		else if (dice < 998)
			road_visit(w);
		else
			all_nap(w);
		if (trains && dice > 990) deed(w);
		pthread_rwlock_unlock(&still);
	}
	rough_thread_ends();
	return NULL;
}

/* Closes a device under the others, at times all of them. */
static void wait_out(struct worker *w, double seconds)
{
	double start = kit_seconds();
	bool closes = life.closes;
	while (kit_seconds() - start < seconds) {
		kit_sleep_ms(5);
		if (!closes || kit_seconds() - start < seconds * 0.6) continue;
		int device = (int)kit_below(&w->random, (uint64_t)life.devices + 1) - 1;
		CHECK(stalloc_close(device) == STALLOC_OK || life.mishaps, "%s",
		      stalloc_last_error());
		closes = false;
	}
}

/* The sums lie where the campaign sees them, too. */
static void add(struct tally *sum, const struct tally *did)
{
#define ADD(name) sum->name += did->name;
	TALLY(ADD)
#undef ADD
}

static struct tally *shared_tally(void)
{
	char path[256];
	snprintf(path, sizeof path, "%s/tally", getenv("ATTACK_SCRATCH"));
	int f = open(path, O_RDWR);
	struct tally *t = f < 0 ? MAP_FAILED
				: mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	CHECK(t != MAP_FAILED, "no tally in %s", path);
	close(f);
	return t;
}

/* What many threads do at once. */
static void day_play(struct worker *workers, struct worker *w, double most)
{
	plan_before(w);
	mishaps_start();
	for (int i = 0; i < life.threads; i++) {
		workers[i] = (struct worker){.id = i + 1,
					     .random = life.seed + 1000 * (uint64_t)(i + 1)};
		workers[i].thread = kit_thread(live, &workers[i]);
	}
	rough_start(workers, life.threads);
	wait_out(w, life.seconds < most ? life.seconds : most);
	atomic_store(&over, true);
	rough_end(w);
	for (int i = 0; i < life.threads; i++) pthread_join(workers[i].thread, NULL);
	mishaps_end(w);
}

void life_play(double most)
{
	static struct worker workers[THREADS], w;
	life = life_of(kit_seed(), false);
	printf("devices %d of %zu MiB, threads %d, requests to %zu; noisy %d, roomy %d, engine %d, "
	       "open pools %d, closes %d, forks %d, "
	       "limits %d, mishaps %d, rough %d, wrong %d, ends closed %d, night %d\n",
	       life.devices, life.capacity >> 20, life.threads, life.largest, life.noisy,
	       life.roomy, life.engine, life.open_pools, life.closes, life.forks, life.limits,
	       life.mishaps, life.rough, life.wrong, life.ends_closed, life.night);
	kit_watchdog((unsigned)kit_number("STALLOC_TEST_HANG", 60));
	fflush(stdout);
	pieces_open();
	still_open();
	w = (struct worker){.id = THREADS + 1, .random = life.seed + 5};
	roads_open(&w);
	life.night ? night_play(&w, life.seconds < most ? life.seconds : most)
		   : day_play(workers, &w, most);
	balance(workers, &w);
	struct tally *sum = shared_tally();
	for (int i = 0; i < life.threads; i++) add(sum, &workers[i].did);
	add(sum, &w.did);
}
