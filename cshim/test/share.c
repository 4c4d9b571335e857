/* Memory that several processes have: bytes both ways, what ends first, sleep, and what is refused.
 * The receiver is this program again, with a token for its argument. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

static void *const stream = (void *)0x100;
#define MIB ((size_t)1 << 20)

static void *get(size_t size)
{
	return kit_get(size, 0, stream);
}

static char token[1 << 16];

static size_t export(void *at)
{
	size_t offset = 0;
	long n = stalloc_export_block(at, &offset, token, sizeof token);
	CHECK(n > 0 && (size_t)n == strlen(token), "%ld: %s", n, stalloc_last_error());
	return offset;
}

/* A receiver: "new" sees what the exporter writes later, "back" writes, "dies" is killed. */
static int receive(char **arguments)
{
	size_t offset = strtoul(arguments[3], NULL, 10), size = strtoul(arguments[4], NULL, 10);
	char *at = stalloc_import_block(arguments[2], 0), byte = 0, words[256];
	CHECK(at, "%s", stalloc_last_error());
	CHECK(stalloc_explain(0, words, sizeof words) > 0 &&
		      strstr(words, "MiB of other processes are mapped here"),
	      "%s", words);
	CHECK(kit_damage(at + offset, size, 1) < 0, "what arrives is damaged");
	if (!strcmp(arguments[1], "new")) {
		CHECK(write(1, &byte, 1) == 1 && read(0, &byte, 1) == 1, "no pipe");
		CHECK(kit_damage(at + offset, size, 2) < 0,
		      "what is written later does not arrive");
	}
	if (!strcmp(arguments[1], "back")) kit_fill(at + offset, size, 2);
	if (!strcmp(arguments[1], "dies")) raise(SIGKILL);
	OK(stalloc_end_import(at));
	CHECK(fake(live)("mappings") + fake(live)("reservations") == 0, "something is left of it");
	return 0;
}

/* Shares a block with a receiver that does so, and returns how that ended. */
static int share(const char *how, char *at, size_t size)
{
	char offset[32], length[32], byte = 0;
	int to[2], from[2], status = 0;
	kit_fill(at, size, 1);
	snprintf(offset, sizeof offset, "%zu", export(at));
	snprintf(length, sizeof length, "%zu", size);
	CHECK(pipe(to) == 0 && pipe(from) == 0, "no pipes");
	pid_t child = fork();
	if (child == 0) {
		dup2(to[0], 0), dup2(from[1], 1);
		close(to[0]), close(to[1]), close(from[0]), close(from[1]);
		execl("/proc/self/exe", "share", how, token, offset, length, NULL);
		_exit(127);
	}
	if (!strcmp(how, "new")) {
		CHECK(read(from[0], &byte, 1) == 1, "the receiver is gone");
		kit_fill(at, size, 2);
		CHECK(write(to[1], &byte, 1) == 1, "the receiver is gone");
	}
	waitpid(child, &status, 0);
	close(to[0]), close(to[1]), close(from[0]), close(from[1]);
	return status;
}

static int files(void)
{
	int n = 0;
	DIR *folder = opendir("/proc/self/fd");
	while (folder && readdir(folder)) n++;
	closedir(folder);
	return n;
}

static void shares(char *at, size_t size)
{
	CHECK(share("new", at, size) == 0, "it failed");
	CHECK(share("back", at, size) == 0, "it failed");
	CHECK(kit_damage(at, size, 2) < 0, "what the receiver wrote does not arrive");
	CHECK(WIFSIGNALED(share("dies", at, size)), "it lives");
	CHECK(kit_damage(at, size, 1) < 0, "a receiver that died has done harm");
}

/* What others can have stays awake until it is freed; the rest sleeps. */
static void awake(char *at, size_t size)
{
	char *other = get(40 * MIB);
	kit_fill(other, 40 * MIB, 3);
	kit_fill(at, size, 1);
	export(at);
	for (int i = 0; i < 2; i++) {
		OK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST));
		export(at);
		CHECK(kit_damage(at, size, 1) < 0, "it sleeps, and others have it");
		kit_fill(at, size, 4); /* as a receiver may */
		CHECK(kit_stats().asleep >= 32 * MIB && kit_stats().reserved >= size, "%llu sleep",
		      (ull)kit_stats().asleep);
		size_t offset;
		CHECK(stalloc_export_block(other, &offset, token, sizeof token) ==
			      STALLOC_ERR_ASLEEP,
		      "%s", stalloc_last_error());
		OK(stalloc_resume(0, NULL, 0));
		CHECK(kit_damage(at, size, 4) < 0 && kit_damage(other, 40 * MIB, 3) < 0,
		      "the backup was put over it");
		kit_fill(at, size, 1);
	}
	stalloc_free(other, 0, 0, stream);
}

/* A token of a model's memory is megabytes long, and is read once: where each piece looks at all
 * that follows, this one takes hours. */
static void long_token(void)
{
	enum { PIECES = 200000, PIECE = 160 };
	char *text = malloc((size_t)PIECES * PIECE + 100),
	     *at = text + sprintf(text, "stalloc1 0 0");
	CHECK(text, "no memory");
	for (int i = 0; i < PIECES; i++) at += sprintf(at, " x%0128d/2097152/%d", i, i);
	sprintf(at, " x"); /* the last is wrong */
	alarm(60);
	SAYS(!stalloc_import_block(text, 0), "no token");
	alarm(0);
	free(text);
}

static void refused(char *at)
{
	size_t offset, n = export(at);
	char kept[sizeof token];
	snprintf(kept, sizeof kept, "%s", token);
	long length = stalloc_export_block(at, &offset, token, 30);
	CHECK(length == (long)strlen(kept), "%ld", length);
	CHECK(!strcmp(token, kept), "\"%s\" was written, which is not all", token);
	CHECK(stalloc_export_block(&n, &offset, token, sizeof token) == STALLOC_ERR_ARGUMENT, "%s",
	      stalloc_last_error());
	const char *wrong[] = {"",
			       "stalloc1",
			       "stalloc1 1 2",
			       "stalloc1 1 2 3/4/5",
			       "stalloc1 1 2 3/2097152/5x",
			       "another",
			       "stalloc1 1 2 4294967299/2097152/5",
			       "stalloc1 1 2 -3/2097152/5",
			       "stalloc1 1 2 3/99999999999999999999/5",
			       "stalloc1 1 2 3/18446744073707454464/5 3/2097152/6 3/2097152/7",
			       "stalloc1 1 2  3/2097152/5"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		SAYS(!stalloc_import_block(wrong[i], 0), "no token");
	const char *names[] = {"", "x", "x12", "3"}; /* a fabric's have 128 digits */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(token, sizeof token, "stalloc1 0 0 %s/2097152/1", names[i]);
		SAYS(!stalloc_import_block(token, 0), "no token");
	}
	snprintf(token, sizeof token, "stalloc1 0 0 x%0128d/2097152/1", 0); /* of nobody */
	SAYS(!stalloc_import_block(token, 0), "cuMemImportFromShareableHandle failed");
	snprintf(token, sizeof token, "stalloc1 %ld 7 3/2097152/1", (long)getpid());
	SAYS(!stalloc_import_block(token, 0), "has ended or is in another container");
	CHECK(stalloc_end_import(at) == STALLOC_ERR_ARGUMENT, "it was not imported");
	pid_t child = fork();
	if (child == 0)
		_exit(stalloc_export_block(at, &offset, token, sizeof token) < 0 &&
				      strstr(stalloc_last_error(), "fork") &&
				      !stalloc_import_block(kept, 0)
			      ? 0
			      : 1);
	int status = 0;
	waitpid(child, &status, 0);
	CHECK(status == 0, "a forked child has memory of CUDA's");
	long mappings = fake(live)("mappings"), spaces = fake(live)("reservations"),
	     handles = fake(live)("handles");
	int open = files();
	for (long nth = 1, made = 1; nth <= made; nth++) { /* each call fails once */
		char rule[32];
		long calls = fake(count)("*");
		snprintf(rule, sizeof rule, "*:%ld:2", nth);
		fake(fail)(rule);
		void *there = stalloc_import_block(kept, 0);
		if (there) stalloc_end_import(there);
		made = fake(count)("*") - calls;
		fake(fail)(NULL);
		CHECK((there = stalloc_import_block(kept, 0)), "%s",
		      stalloc_last_error()); /* what was left is tried again */
		OK(stalloc_end_import(there));
		CHECK(fake(live)("mappings") == mappings &&
			      fake(live)("reservations") == spaces && files() == open &&
			      fake(live)("handles") == handles,
		      "call %ld failed, and something is left", nth);
	}
}

int main(int n, char **arguments)
{
	if (n == 5) return receive(arguments);
	int open = 0;
	size_t offset;
	char *blocks[] = {get(1000), get(50 * MIB), NULL};
	if (n == 2) { /* with share:off */
		CHECK(stalloc_export_block(blocks[0], &offset, token, sizeof token) < 0 &&
			      strstr(stalloc_last_error(), "share:fd"),
		      "%s", stalloc_last_error());
		printf("share: refused as it should\n");
		return 0;
	}
	open = files();
	shares(blocks[0], 1000);
	shares(blocks[1], 50 * MIB);
	shares(blocks[1] + 20 * MIB, 5 * MIB); /* a part of a block */
	awake(blocks[1], 50 * MIB);
	refused(blocks[1]);
	long_token();
	/* A view: two holes of 50 MiB for a block of 90, where there is no room for more. */
	char *middle = get(20 * MIB), *second = get(50 * MIB), *last = get(MIB);
	stalloc_free(blocks[1], 0, 0, stream);
	stalloc_free(second, 0, 0, stream);
	OK(stalloc_set_memory_fraction(0.6, 0));
	blocks[1] = get(90 * MIB);
	CHECK(fake(live)("mappings") > fake(live)("handles"), "nothing was stitched");
	shares(blocks[1], 90 * MIB);
	void *all[] = {blocks[0], blocks[1], middle, last};
	for (int i = 0; i < 4; i++) stalloc_free(all[i], 0, 0, stream);
	OK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST));
	CHECK(kit_stats().reserved == 0, "%llu are awake that nobody shares",
	      (ull)kit_stats().reserved);
	OK(stalloc_resume(0, NULL, 0));
	stalloc_empty_cache();
	CHECK(kit_stats().reserved == 0, "%llu are held", (ull)kit_stats().reserved);
	for (unsigned waited = 0; files() != open;) /* one tells how much the host has free */
		kit_wait(&waited, 1, "closed files");
	printf("share: both ways, killed receivers, sleep and failures\n");
	return 0;
}
