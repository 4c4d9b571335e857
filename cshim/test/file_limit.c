/* A program that lowers its limit of file sizes while stalloc has files: the page, a trace, a log,
 * and a plan that is saved. The kernel ends a process that writes beyond it; nothing here may. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kit.h"

enum { BLOCKS = 40 };

static void limit(rlim_t bytes)
{
	struct rlimit l;
	CHECK(getrlimit(RLIMIT_FSIZE, &l) == 0, "no limit");
	l.rlim_cur = bytes < l.rlim_max ? bytes : l.rlim_max;
	CHECK(setrlimit(RLIMIT_FSIZE, &l) == 0, "no limit");
}

static void steps(int n)
{
	for (int s = 0; s < n; s++) {
		void *blocks[BLOCKS];
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = kit_get(100000 + i * 77777, 0, NULL);
		}
		for (int i = BLOCKS; i-- > 0;) stalloc_free(blocks[i], 0, 0, NULL);
		OK(stalloc_step(-1));
		kit_sleep_ms(20); /* pages and traces are written ten times a second */
	}
}

static void wait_for_plan(void)
{
	for (unsigned waited = 0; kit_stats().plan_generation == 0; steps(1))
		kit_wait(&waited, 20, "a plan");
}

/* Lines go to a file as large as it may be. */
static void log_is_full(const char *folder)
{
	char path[256];
	snprintf(path, sizeof path, "%s/log", folder);
	int log = open(path, O_RDWR | O_CREAT | O_APPEND, 0600), old = dup(2);
	CHECK(log >= 0 && dup2(log, 2) == 2, "no log");
	stalloc_free(path, 0, 0, NULL); /* a line of C's */
	stalloc_set_memory_fraction(2, 0);
	OK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_DISCARD)); /* and Go's */
	CHECK(lseek(log, 0, SEEK_END) == 0, "something was written");
	dup2(old, 2);
	close(old), close(log);
	unlink(path);
}

int main(void)
{
	char folder[] = "/tmp/stalloc-file-limit-XXXXXX", conf[1024], path[64], trace[64];
	sigset_t waiting, mask;
	CHECK(mkdtemp(folder), "no folder");
	snprintf(path, sizeof path, "%s/plan", folder);
	snprintf(trace, sizeof trace, "%s/trace", folder);
	snprintf(conf, sizeof conf, "%s,log:info,trace:%s", getenv("STALLOC_CONF"), trace);
	setenv("STALLOC_CONF", conf, 1);
	kit_watchdog(60);
	kit_stderr_begin();
	steps(2);
	limit(0);
	steps(30);
	wait_for_plan();
	log_is_full(folder);
	SAYS(stalloc_save_plan(0, path) == STALLOC_ERR_PLAN, "ulimit -f");
	CHECK(access(path, F_OK) != 0, "a plan was written");
	CHECK(sigpending(&waiting) == 0 && !sigismember(&waiting, SIGXFSZ), "the signal waits");
	CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGXFSZ),
	      "the signal is held back for good");
	limit(RLIM_INFINITY); /* before there is new memory: the simulated driver's are files */
	OK(stalloc_resume(0, NULL, 0));
	steps(2);
	OK(stalloc_save_plan(0, path));
	OK(stalloc_close(-1));
	CHECK(kit_stderr_end("not a live block") == 0, "the line came late");
	CHECK(unlink(path) == 0 && unlink(trace) == 0 && rmdir(folder) == 0,
	      "other files are left");
	puts("file_limit: no write ended the process");
	return 0;
}
