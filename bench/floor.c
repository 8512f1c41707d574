/* The least that a copy of small files asks of the kernel: floor [-t THREADS] [-p] [-a] [-c] [-u] [-s] [-m METHOD] [-r RANK/RANKS] [-l] [-j] SOURCE TARGET
 *
 * Each file is opened, looked at, made, filled, and closed twice: the calls of cpz, but for a look at the open file in place of one at
 * its name. -p adds the two calls by which gush proves the end and notices a change of the source; -a adds a list of attributes, the
 * times and the mode; -c gives each thread credentials of its own, and -u a table of descriptors of its own, by which it opens each directory anew. METHOD is copy (copy_file_range), clone (FICLONERANGE), read (read and
 * write), send (sendfile) or map (mmap and write). Threads take whole directories, or with -s some 1,000 files of one at a time. With -r
 * several of these programs copy one tree: each lists everything, makes the directories that it finds missing, and copies the files that
 * a hash makes its own. -l has each rank look at the files of the others, whose size and number of names say whether all ranks copy a part,
 * or one all names. -j has a rank keep a journal: a look at each new file, and a line for it, 32 of them in one write; rank 0 waits for
 * the others, and gives the directories their times in a second walk, which lists no directory without subdirectories. Links, owners and lists of access are nobody's business here, so no copy with the same calls takes less. Build:
 * cc -O2 -pthread floor.c */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
enum { BUFFER_BYTES = 64 << 10, LIST_BYTES = 32 << 10, MOST_THREADS = 64, LINE_BYTES = 47, WAITING_LINES = 32 };

/* A directory under way: open on both sides until all below is complete. */
struct dir {
	struct dir *next, *above;
	/* With a table for each thread, descriptors mean nothing to other threads, and paths do. */
	char *source, *target;
	int from, to;
	struct stat like;
	atomic_int waits_for;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dir *todo;
static int busy;
static int proves, keeps, own_credentials, own_table, shares, looks, journals, completes;
static unsigned rank, ranks = 1;
static const char *method = "copy", *root_target;

/* Lines of the journal that wait for others. */
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[WAITING_LINES * LINE_BYTES];
static unsigned waiting;
static int journal;

static void note(const struct stat *made)
{
	pthread_mutex_lock(&journal_lock);
	memset(lines + waiting * LINE_BYTES, '0' + made->st_ino % 10, LINE_BYTES);
	if (++waiting == WAITING_LINES) {
		if (write(journal, lines, sizeof lines) != sizeof lines)
			err(1, "journal");
		waiting = 0;
	}
	pthread_mutex_unlock(&journal_lock);
}

static void finish(int to, const struct stat *like)
{
	const struct timespec times[2] = {like->st_atim, like->st_mtim};

	if (futimens(to, times) || fchmod(to, like->st_mode & 07777))
		err(1, "attributes");
}

static void fill(int from, int to, off_t left, char *buffer)
{
	loff_t from_at = 0, to_at = 0;

	while (left > 0) {
		ssize_t got;

		if (!strcmp(method, "clone")) {
			const struct file_clone_range range = {.src_fd = from, .src_length = left};

			got = ioctl(to, FICLONERANGE, &range) ? -1 : left;
		} else if (*method == 'c') {
			got = copy_file_range(from, &from_at, to, &to_at, left, 0);
		} else if (*method == 's') {
			got = sendfile(to, from, NULL, left);
		} else if (*method == 'm') {
			void *mapped = mmap(NULL, left, PROT_READ, MAP_SHARED | MAP_POPULATE, from, 0);

			if (mapped == MAP_FAILED || (got = write(to, mapped, left)) != left)
				err(1, "map");
			munmap(mapped, left);
		} else {
			got = read(from, buffer, left < BUFFER_BYTES ? left : BUFFER_BYTES);
			if (got > 0 && write(to, buffer, got) != got)
				err(1, "write");
		}
		if (got <= 0)
			err(1, "%s", method);
		left -= got;
	}
}

static void file(const struct dir *dir, const char *name, char *buffer)
{
	struct stat like, other;
	char byte, names[128];
	int from = openat(dir->from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), to;

	if (from < 0 || fstat(from, &like))
		err(1, "%s", name);
	to = openat(dir->to, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, keeps ? 0600 : like.st_mode & 0777);
	if (to < 0)
		err(1, "%s", name);
	fill(from, to, like.st_size, buffer);
	if (proves && (pread(from, &byte, 1, like.st_size) || fstat(from, &other)))
		err(1, "%s", name);
	if (keeps) {
		if (flistxattr(from, names, sizeof names) > 0)
			errx(1, "%s has attributes, which are not copied here", name);
		finish(to, &like);
	}
	if (journals) {
		if (fstat(to, &other))
			err(1, "%s", name);
		note(&other);
	}
	close(to);
	close(from);
}

static int is_own(const struct dir *dir, const char *name)
{
	unsigned long long hash = dir->like.st_ino;

	if (ranks == 1)
		return 1;
	while (*name)
		hash = (hash ^ (unsigned char)*name++) * 0x100000001b3;
	return (hash >> 32) % ranks == rank;
}

static void done(struct dir *dir)
{
	while (dir && atomic_fetch_sub(&dir->waits_for, 1) == 1) {
		struct dir *above = dir->above;

		if (own_table && ((dir->to = open(dir->target, DIRECTORY)) < 0 || (dir->from = open(dir->source, DIRECTORY)) < 0))
			err(1, "%s", dir->target);
		if (keeps && rank == 0 && completes == journals)
			finish(dir->to, &dir->like);
		close(dir->from);
		close(dir->to);
		free(dir);
		dir = above;
	}
}

static void push(struct dir *dir)
{
	pthread_mutex_lock(&lock);
	dir->next = todo;
	todo = dir;
	pthread_mutex_unlock(&lock);
}

static void add(struct dir *above, const char *name, int from, int to)
{
	struct dir *dir = calloc(1, sizeof *dir);

	if (!dir || from < 0 || to < 0 || fstat(from, &dir->like))
		err(1, "directory");
	if (own_table && (!above ? !(dir->source = strdup(name)) || !(dir->target = strdup(root_target))
				 : asprintf(&dir->source, "%s/%s", above->source, name) < 0 ||
					   asprintf(&dir->target, "%s/%s", above->target, name) < 0))
		err(1, "path");
	if (own_table) {
		close(from);
		close(to);
	}
	dir->from = from;
	dir->to = to;
	dir->waits_for = 1;
	if ((dir->above = above))
		atomic_fetch_add(&above->waits_for, 1);
	push(dir);
}

static void entries(struct dir *dir, const struct dir *own, const char *list, long bytes, char *buffer)
{
	for (const char *at = list; at < list + bytes; at += ((const struct dirent64 *)at)->d_reclen) {
		const struct dirent64 *entry = (const void *)at;
		const char *name = entry->d_name;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (entry->d_type == DT_REG && !completes) {
			struct stat others;

			if (is_own(dir, name))
				file(own, name, buffer);
			else if (looks && fstatat(own->from, name, &others, AT_SYMLINK_NOFOLLOW))
				err(1, "%s", name);
		}
		if (entry->d_type != DT_DIR)
			continue;
		if (!completes && mkdirat(dir->to, name, 0700) && (ranks == 1 || errno != EEXIST))
			err(1, "%s", name);
		add(dir, name, openat(dir->from, name, DIRECTORY), openat(dir->to, name, DIRECTORY));
	}
}

static void directory(struct dir *dir, char *buffer)
{
	char list[LIST_BYTES] __attribute__((aligned(8)));
	long got;

	if (own_table && ((dir->from = open(dir->source, DIRECTORY)) < 0 || (dir->to = open(dir->target, DIRECTORY)) < 0))
		err(1, "%s", dir->source);
	/* Its own name and its dot: no subdirectory counts one more. */
	while (!(completes && dir->like.st_nlink == 2) && (got = syscall(SYS_getdents64, dir->from, list, sizeof list)) > 0) {
		struct dir own = {.from = dir->from, .to = dir->to};

		if (!shares) {
			entries(dir, &own, list, got, buffer);
			continue;
		}
		/* Another thread lists on, and this one reaches the files by descriptors of its own. */
		atomic_fetch_add(&dir->waits_for, 1);
		push(dir);
		own.from = openat(dir->from, ".", O_PATH | O_CLOEXEC);
		own.to = openat(dir->to, ".", O_PATH | O_CLOEXEC);
		entries(dir, &own, list, got, buffer);
		close(own.from);
		close(own.to);
		break;
	}
	if (own_table) {
		close(dir->from);
		close(dir->to);
	}
	done(dir);
}

static void *work(void *unused)
{
	char *buffer = malloc(BUFFER_BYTES);

	if (own_credentials && prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0))
		err(1, "prctl");
	if (own_table && unshare(CLONE_FILES))
		err(1, "unshare");
	for (;;) {
		struct dir *dir;
		int others;

		pthread_mutex_lock(&lock);
		if ((dir = todo)) {
			todo = dir->next;
			busy++;
		}
		others = busy;
		pthread_mutex_unlock(&lock);
		if (!dir && !others)
			return unused;
		if (!dir) {
			sched_yield();
			continue;
		}
		directory(dir, buffer);
		pthread_mutex_lock(&lock);
		busy--;
		pthread_mutex_unlock(&lock);
	}
}

static void walk(const char *source, const char *target, int number)
{
	pthread_t threads[MOST_THREADS];

	root_target = target;
	add(NULL, source, open(source, O_RDONLY | O_DIRECTORY), open(target, O_RDONLY | O_DIRECTORY));
	for (int at = 1; at < number; at++)
		pthread_create(&threads[at], NULL, work, NULL);
	work(NULL);
	for (int at = 1; at < number; at++)
		pthread_join(threads[at], NULL);
}

static const char *beside(const char *target, unsigned of, const char *what)
{
	static char name[4096];

	snprintf(name, sizeof name, "%s-rank-%u.%s", target, of, what);
	return name;
}

/* Tells of this rank's end; rank 0 waits for all, and completes the directories. */
static void end(const char *source, const char *target, int number)
{
	if (write(journal, lines, waiting * LINE_BYTES) < 0 || close(creat(beside(target, rank, "done"), 0600)))
		err(1, "report");
	if (rank != 0)
		return;
	for (unsigned of = 0; of < ranks; of++)
		while (access(beside(target, of, "done"), F_OK))
			usleep(1000);
	completes = 1;
	walk(source, target, number);
	for (unsigned of = 0; of < ranks; of++) {
		unlink(beside(target, of, "done"));
		unlink(beside(target, of, "journal"));
	}
}

int main(int count, char **words)
{
	const char *usage = "floor [-t THREADS] [-p] [-a] [-c] [-u] [-s] [-m METHOD] [-r RANK/RANKS] [-l] [-j] SOURCE TARGET (which must not be there)";
	int number = 2, option;

	while ((option = getopt(count, words, "t:pacusm:r:lj")) != -1) {
		if (option == 't')
			number = atoi(optarg);
		proves |= option == 'p';
		keeps |= option == 'a';
		own_credentials |= option == 'c';
		own_table |= option == 'u';
		shares |= option == 's';
		looks |= option == 'l';
		journals |= option == 'j';
		if (option == 'm')
			method = optarg;
		if (option == 'r' && (sscanf(optarg, "%u/%u", &rank, &ranks) != 2 || rank >= ranks))
			errx(1, "no rank: %s", optarg);
	}
	if (optind + 2 != count || number < 1 || number > MOST_THREADS ||
	    (own_table && shares) ||
	    (mkdir(words[optind + 1], 0700) && (ranks == 1 || errno != EEXIST)))
		err(1, "%s", usage);
	if (journals && (journal = open(beside(words[optind + 1], rank, "journal"), O_WRONLY | O_CREAT | O_APPEND, 0600)) < 0)
		err(1, "journal");
	walk(words[optind], words[optind + 1], number);
	if (journals)
		end(words[optind], words[optind + 1], number);
	return 0;
}
