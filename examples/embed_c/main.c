/* embed_c shows how a C program embeds stalloc: it replays a recorded training run
 * through stalloc.h, from one thread or from several at once, and checks
 * that no block's bytes are ever touched by another.
 *
 * The first thread follows the recording on the default stream; every further
 * thread follows it on a stream of its own, with smaller blocks. All of them meet
 * at each step boundary. Behind the recording its last step is repeated, as a
 * training loop does, so that plans come to serve. Every block is filled with a
 * pattern of its own when it is handed out and compared with it before it is freed,
 * in every fiftieth of the repeated steps; now and then one is lent to the next stream.
 * The Makefile beside this file shows how to build and run it.
 *
 * The exit status is 0 only if every byte was found as it was left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "stalloc.h"
#include "thread.h"

static void served(const struct stalloc_stats *s) {
	double MiB = 1 << 20;
	if (s->fallback == s->requests) {
		fprintf(stderr,
			"embed_c: all %" PRIu64
			" requests were plain driver allocations; the library says above why\n",
			s->requests);
		return;
	}
	printf("requests  %" PRIu64 ", in %" PRIu64 " steps\n", s->requests, s->steps);
	printf("plan      %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
	       " plans; %.1f %% of all requests\n",
	       s->hits, s->misses, s->plan_generation, 100 * (double)s->hits / (double)s->requests);
	printf("memory    %.2f MiB live at the peak, %.2f MiB reserved, %.1f %% fragmentation\n",
	       (double)s->peak_allocated / MiB, (double)s->peak_reserved / MiB,
	       100 * (1 - (double)s->peak_allocated / (double)s->peak_reserved));
	printf("driver    %" PRIu64 " calls, %.3f s\n", s->driver_calls,
	       1e-9 * (double)s->driver_ns);
}

static void report(const struct thread *threads, int n, double took) {
	struct stalloc_stats s;
	uint64_t checked = 0;
	double spent = 0;
	if (stalloc_get_stats(DEVICE, &s, sizeof s) != STALLOC_OK) {
		fprintf(stderr, "embed_c: statistics: %s\n", stalloc_last_error());
		exit(1);
	}
	for (int i = 0; i < n; i++) {
		checked += threads[i].checked;
		spent += threads[i].spent;
	}
	served(&s);
	printf("time      %.3f s, of it %.3f s in the allocator\n", took, spent);
	printf("checked   %.2f MiB, every byte as it was left\n", (double)checked / (1 << 20));
	if (s.allocated == 0 && s.blocks == 0) return;
	fprintf(stderr, "embed_c: %" PRIu64 " blocks are live after all were freed\n", s.blocks);
	exit(1);
}

/* The library is told the driver in STALLOC_CONF; this program uses the same. */
static const char *driver_of_conf(char *out, size_t n) {
	const char *conf = getenv("STALLOC_CONF"), *at = conf ? strstr(conf, "driver:") : NULL;
	if (!at) return "libcuda.so.1";
	at += strlen("driver:");
	snprintf(out, n, "%.*s", (int)strcspn(at, ","), at);
	return out;
}

static void usage(void) {
	fprintf(stderr,
		"usage: embed_c [-s SCALE] [-t THREADS] [-n STEPS] [-p MILLISECONDS] RECORDING\n"
		"  -s  divide the recorded sizes by this (64)\n"
		"  -t  threads, each on a stream of its own, 1 to 64 (1)\n"
		"  -n  repeat the last step so many times (200)\n"
		"  -p  wait after each step, in place of the work a real one does (10)\n"
		"STALLOC_CONF=driver:PATH names the CUDA driver library.\n");
	exit(2);
}

int main(int argc, char **argv) {
	static struct thread threads[64];
	char path[4096];
	int option, n = 1;
	long scale = 64;
	while ((option = getopt(argc, argv, "s:t:n:p:")) != -1) {
		if (option == 's') scale = atol(optarg);
		else if (option == 't') n = atoi(optarg);
		else if (option == 'n') repeats = atoi(optarg);
		else if (option == 'p') pause_ms = (unsigned)atoi(optarg);
		else usage();
	}
	if (optind + 1 != argc || scale < 1 || n < 1 || n > 64 || repeats < 0) usage();
	recording = recording_read(argv[optind]);
	if (stalloc_init() != STALLOC_OK) {
		fprintf(stderr, "embed_c: %s\n", stalloc_last_error());
		return 1;
	}
	gpu_open(driver_of_conf(path, sizeof path));
	gpu_thread();
	pthread_barrier_init(&boundary, NULL, (unsigned)n);
	for (int i = 0; i < n; i++) {
		threads[i] = (struct thread){.number = (uint64_t)i,
					     .scale = (uint64_t)(scale * (i + 1))};
		threads[i].stream = i ? gpu_new_stream() : NULL;
		thread_prepare(&threads[i]);
	}
	printf("%s with stalloc %s: %d threads, sizes divided by %ld\n", argv[optind],
	       stalloc_version(), n, scale);
	double start = now();
	for (int i = 0; i < n; i++) {
		threads[i].neighbour = threads[(i + 1) % n].stream;
		if (pthread_create(&threads[i].id, NULL, thread_follow, &threads[i]) != 0) abort();
	}
	for (int i = 0; i < n; i++) pthread_join(threads[i].id, NULL);
	report(threads, n, now() - start);
	return 0;
}
