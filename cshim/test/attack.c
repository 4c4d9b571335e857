/* The attack: a campaign of random lives over the fake driver, to find what nobody thought
 * of.
 *
 * A life is a process of some seconds: streams made and destroyed, private pools, captures,
 * steps, memory that sleeps, exports, plans in files, limits, forks, closed devices, failing
 * driver calls and signals, from several threads, with a claim on the bytes of each block and
 * a pattern in it, and a balance at the end. Closing has no way back, so what comes behind it
 * is another life.
 *
 * ATTACK_SECONDS says how long (60), ATTACK_REQUESTS how many requests at least (0),
 * STALLOC_TEST_SEED the first life's seed; each has the next. ATTACK_AGAIN=1 plays the
 * first life again and again. Ends with the first failure, and says how to repeat it.
 *
 * One life in two is a night (model.h): one thread, which knows at each moment what has to
 * hold. ATTACK_NIGHTS=1: each is; 0: none. With ATTACK_TELL=1 one that fails says what it did. */
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

static int forget(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	(void)s, (void)kind, (void)at;
	return remove(path);
}

static void clean(void) { nftw(scratch, forget, 16, FTW_DEPTH | FTW_PHYS); }

static const char *in_scratch(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", scratch, name);
	return path;
}

static struct tally *prepare(void)
{
	const char *folder = getenv("TMPDIR");
	snprintf(scratch, sizeof scratch, "%.150s/stalloc-attack-XXXXXX",
		 folder && *folder ? folder : "/tmp");
	CHECK(mkdtemp(scratch), "no scratch folder");
	setenv("ATTACK_SCRATCH", scratch, 1);
	int f = open(in_scratch("tally"), O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(f >= 0 && ftruncate(f, sizeof(struct tally)) == 0, "no tally");
	struct tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	CHECK(t != MAP_FAILED, "no tally");
	close(f);
	return t;
}

static void interrupt(int signal) { interrupted = signal; }

/* Whether the life has said a text. Tells all of it if told to. */
static bool said(const char *text, bool tell)
{
	char line[4096];
	bool found = false;
	FILE *f = fopen(in_scratch("said"), "r");
	while (f && fgets(line, sizeof line, f)) {
		if (tell) fputs(line, stderr);
		found = found || strstr(line, text);
	}
	if (f) fclose(f);
	return found;
}

/* One life, in a process of its own. Returns how it ended. */
static int play(uint64_t seed, double most)
{
	char number[24], seconds[24];
	int status = -1;
	pid_t pid = fork();
	CHECK(pid >= 0, "cannot fork");
	if (pid == 0) {
		snprintf(number, sizeof number, "%llu", (ull)seed);
		snprintf(seconds, sizeof seconds, "%.3f", most);
		setenv("STALLOC_TEST_SEED", number, 1);
		life_of(seed, true);
		int f = open(in_scratch("said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (f < 0 || dup2(f, STDOUT_FILENO) < 0 || dup2(f, STDERR_FILENO) < 0) _exit(126);
		printf("STALLOC_CONF=%s\n", getenv("STALLOC_CONF"));
		fflush(stdout);
		execl("/proc/self/exe", "attack", "life", seconds, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) != pid) { /* interrupted: so is the life */
		CHECK(errno == EINTR, "lost a life");
		kill(pid, SIGKILL);
	}
	return status;
}

static void sum_up(double spent, uint64_t lives, const struct tally *t)
{
	printf("attack: %.0f s, %llu lives, %.2f million requests a second", spent,
	       (ull)lives, (double)t->requests / spent / 1e6);
#define SHOW(name) printf(", %llu " #name, (ull)t->name);
	TALLY(SHOW)
#undef SHOW
	puts("");
	fflush(stdout);
}

int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "life")) {
		life_play(strtod(arguments[2], NULL));
		return 0;
	}
	double seconds = (double)kit_number("ATTACK_SECONDS", 60), start = kit_seconds(),
	       told = start, now = start;
	uint64_t requests = kit_number("ATTACK_REQUESTS", 0), lives = 0, first = kit_seed();
	bool again = kit_number("ATTACK_AGAIN", 0);
	struct tally *sum = prepare();
	sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
	for (; now - start < seconds || sum->requests < requests; now = kit_seconds()) {
		uint64_t seed = again ? first : first + lives;
		double left = seconds - (now - start);
		int status = play(seed, sum->requests < requests || left > 1
						? left > 10 || requests ? 10 : left
						: 1);
		lives++;
		if (interrupted) break;
		if (status != 0 ||
		    (said("not a live block", false) && !life_of(seed, false).wrong)) {
			said("", true);
			clean();
			fprintf(stderr,
				"attack: life %llu ended with %#x; again: make attack SEED=%llu "
				"ATTACK_AGAIN=1\n", (ull)lives, (unsigned)status, (ull)seed);
			return 1;
		}
		if (kit_seconds() - told < EVERY) continue;
		told = kit_seconds();
		sum_up(told - start, lives, sum);
	}
	sum_up(kit_seconds() - start, lives, sum);
	printf("attack: 0 overlaps, 0 bytes left (seed %llu)\n", (ull)first);
	clean();
	CHECK(lives < 50 || sum->hits > 0, "no plan served");
	return interrupted ? 128 + interrupted : 0;
}
