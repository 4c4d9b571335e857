/* A process with a page: cshim/lib/page.c, and the little that it needs of libstalloc.
 *
 *   writer layout         prints the layout that C has
 *   writer serve          writes device 0 and 3 once; for each line of input again;
 *                         "fork" writes from a child, "stress" from four threads
 *                         until the next line
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../cshim/lib/page.h"

static unsigned char *alive;
const unsigned char *_Atomic stalloc_alive;
const char *stalloc_conf(const char *key) { return strcmp(key, "page") ? NULL : getenv("PAGE"); }

static struct stalloc_stats filled(uint64_t n)
{
	struct stalloc_stats s;
	uint64_t *counters = (uint64_t *)&s;
	for (size_t i = 0; i < sizeof s / sizeof *counters; i++) counters[i] = n;
	return s;
}

static _Atomic bool over;

static void *stress(void *from)
{
	for (uint64_t n = 0; !over; n++) {
		struct stalloc_stats s = filled((uint64_t)from + n);
		stalloc_page_put(3, &s);
	}
	return NULL;
}

static void layout(void)
{
	struct stalloc_stats s;
	printf("page %zu header %zu device %zu sample %zu counters %zu\n",
	       sizeof(struct stalloc_page), offsetof(struct stalloc_page, device),
	       sizeof(struct stalloc_page_device), sizeof(struct stalloc_page_sample),
	       sizeof s / 8);
#define FIELD(name) printf(#name " %zu\n", offsetof(struct stalloc_stats, name) / 8)
#include "fields.h"
}

int main(int argc, char **argv)
{
	char line[64];
	struct stalloc_stats s = {.requests = 100,
				  .hits = 75,
				  .steps = 3,
				  .allocated = 4096,
				  .peak_allocated = 1 << 20,
				  .reserved = 2 << 20,
				  .peak_reserved = 2 << 20,
				  .fallback = 7};
	alive = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(alive, 4096, MADV_WIPEONFORK);
	*alive = 1;
	stalloc_alive = alive;
	if (argc > 1 && !strcmp(argv[1], "layout")) return layout(), 0;
	stalloc_page_put(99, &s);
	stalloc_page_put(0, &s);
	struct stalloc_stats other = {.requests = 1000};
	bool first = stalloc_page_due(3);
	stalloc_page_put(3, &other);
	printf("due %d then %d\n", first, stalloc_page_due(99)), fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		pthread_t threads[4];
		if (!strcmp(line, "fork\n")) {
			struct stalloc_stats none = filled(666);
			pid_t child = fork();
			if (!child)
				stalloc_page_put(0, &none),
					exit(0); /* the page must survive that, too */
			waitpid(child, NULL, 0);
		} else if (!strcmp(line, "stress\n")) {
			for (uint64_t i = 0; i < 4; i++)
				pthread_create(&threads[i], NULL, stress, (void *)((i + 1) << 32));
			over = fgets(line, sizeof line, stdin) || feof(stdin);
			for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
		} else {
			s.requests += 60, s.hits += 30, s.steps++, s.driver_ns += 1000;
			stalloc_page_put(0, &s);
		}
		puts("done"), fflush(stdout);
	}
	return 0;
}
