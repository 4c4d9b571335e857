/* The random campaign: runs over the fake driver that call all of the interface at random, with
 * fault injection.
 *
 * A run is a process of some seconds: streams made and destroyed, private pools, captures,
 * steps, memory that sleeps, exports, plans in files, limits, forks, closed devices, failing
 * driver calls and signals, from several threads, with a claim on the bytes of each block and
 * a pattern in it, and a check for leaks at the end. A device that is closed stays closed.
 *
 * CAMPAIGN_SECONDS says how long (60), CAMPAIGN_REQUESTS how many requests at least (0),
 * STALLOC_TEST_SEED the first run's seed; each has the next. CAMPAIGN_REPEAT=1 repeats the
 * first run again and again. Ends with the first failure, and says how to repeat it.
 *
 * One run in two is modelled (model.h): one thread, which knows at each moment what has to
 * hold. CAMPAIGN_MODELLED=1: each is; 0: none. CAMPAIGN_LOG=1: one that fails prints its log. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign/run.h"

enum { EVERY = 60 };
static char scratch[200];
static volatile sig_atomic_t interrupted;

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s, (void)kind, (void)at;
	return remove(path);
}

static void clean(void) { nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static const char *in_scratch(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", scratch, name);
	return path;
}

static struct tally *prepare(void)
{
	const char *folder = getenv("TMPDIR");
	snprintf(scratch, sizeof scratch, "%.150s/stalloc-campaign-XXXXXX",
		 folder && *folder ? folder : "/tmp");
	CHECK(mkdtemp(scratch), "no scratch folder");
	setenv("CAMPAIGN_SCRATCH", scratch, 1);
	int f = open(in_scratch("tally"), O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(f >= 0 && ftruncate(f, sizeof(struct tally)) == 0, "no tally");
	struct tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	CHECK(t != MAP_FAILED, "no tally");
	close(f);
	return t;
}

static void interrupt(int signal) { interrupted = signal; }

/* Whether the output of the run has a text. Prints all of it if told to. */
static bool output_has(const char *text, bool print)
{
	char line[4096];
	bool found = false;
	FILE *f = fopen(in_scratch("output"), "r");
	while (f && fgets(line, sizeof line, f)) {
		if (print) fputs(line, stderr);
		found = found || strstr(line, text);
	}
	if (f) fclose(f);
	return found;
}

/* One run, in a process of its own. Returns how it ended. */
static int run_one(uint64_t seed, double most)
{
	char number[24], seconds[24];
	int status = -1;
	pid_t pid = fork();
	CHECK(pid >= 0, "cannot fork");
	if (pid == 0) {
		snprintf(number, sizeof number, "%llu", (ull)seed);
		snprintf(seconds, sizeof seconds, "%.3f", most);
		setenv("STALLOC_TEST_SEED", number, 1);
		run_of(seed, true);
		int f = open(in_scratch("output"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (f < 0 || dup2(f, STDOUT_FILENO) < 0 || dup2(f, STDERR_FILENO) < 0) _exit(126);
		printf("STALLOC_CONF=%s\n", getenv("STALLOC_CONF"));
		fflush(stdout);
		execl("/proc/self/exe", "campaign", "run", seconds, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) != pid) { /* interrupted: so is the run */
		CHECK(errno == EINTR, "lost a run");
		kill(pid, SIGKILL);
	}
	return status;
}

static void print_summary(double spent, uint64_t runs, const struct tally *t)
{
	printf("campaign: %.0f s, %llu runs, %.2f million requests a second", spent,
	       (ull)runs, (double)t->requests / spent / 1e6);
#define SHOW(name) printf(", %llu " #name, (ull)t->name);
	TALLY(SHOW)
#undef SHOW
	puts("");
	fflush(stdout);
}

int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "run")) {
		run_play(strtod(arguments[2], NULL));
		return 0;
	}
	double seconds = (double)kit_number("CAMPAIGN_SECONDS", 60), start = kit_seconds(),
	       printed = start, now = start;
	uint64_t requests = kit_number("CAMPAIGN_REQUESTS", 0), runs = 0, first = kit_seed();
	bool repeat = kit_number("CAMPAIGN_REPEAT", 0);
	struct tally *sum = prepare();
	sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
	for (; now - start < seconds || sum->requests < requests; now = kit_seconds()) {
		uint64_t seed = repeat ? first : first + runs;
		double left = seconds - (now - start);
		int status = run_one(seed, sum->requests < requests || left > 1
						? left > 10 || requests ? 10 : left
						: 1);
		runs++;
		if (interrupted) break;
		if (status != 0 ||
		    (output_has("not a live block", false) && !run_of(seed, false).wrong_frees)) {
			output_has("", true);
			clean();
			fprintf(stderr,
				"campaign: run %llu ended with %#x; again: make campaign SEED=%llu "
				"CAMPAIGN_REPEAT=1\n", (ull)runs, (unsigned)status, (ull)seed);
			return 1;
		}
		if (kit_seconds() - printed < EVERY) continue;
		printed = kit_seconds();
		print_summary(printed - start, runs, sum);
	}
	print_summary(kit_seconds() - start, runs, sum);
	printf("campaign: 0 overlaps, 0 bytes left (seed %llu)\n", (ull)first);
	clean();
	CHECK(runs < 50 || sum->hits > 0, "no plan served");
	return interrupted ? 128 + interrupted : 0;
}
