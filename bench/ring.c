/* What io_uring takes for the calls of a tree's small files, next to the calls themselves: ring DIRECTORY
 *
 * Files are made, looked at, closed and opened, 32 at a time: by 32 calls, or by one io_uring_enter(2) for all 32. Prints the
 * nanoseconds a file, of wall time and of processor time, which the kernel's own worker threads add to. The directory gets 40,000 empty
 * files. Build: cc -O2 ring.c */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, FILES = 20000, ENTRIES = 64, NAME_BYTES = 32 };
enum phase { MAKE, LOOK, CLOSE, OPEN, PHASES };

static const int make_flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, open_flags = O_RDONLY | O_CLOEXEC;

static struct {
	int fd;
	unsigned *tail, *mask, *array, *done_head, *done_tail, *done_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *done;
} ring;

static void *mapped(size_t bytes, off_t at)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, at);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	return memory;
}

static void set_up(void)
{
	struct io_uring_params about = {0};
	char *asked, *done;

	if ((ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &about)) < 0)
		err(1, "io_uring_setup");
	asked = mapped(about.sq_off.array + about.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	done = mapped(about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.entries = mapped(about.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.tail = (unsigned *)(asked + about.sq_off.tail);
	ring.mask = (unsigned *)(asked + about.sq_off.ring_mask);
	ring.array = (unsigned *)(asked + about.sq_off.array);
	ring.done_head = (unsigned *)(done + about.cq_off.head);
	ring.done_tail = (unsigned *)(done + about.cq_off.tail);
	ring.done_mask = (unsigned *)(done + about.cq_off.ring_mask);
	ring.done = (struct io_uring_cqe *)(done + about.cq_off.cqes);
}

static void ask(struct io_uring_sqe entry)
{
	unsigned at = *ring.tail & *ring.mask;

	ring.entries[at] = entry;
	ring.array[at] = at;
	__atomic_store_n(ring.tail, *ring.tail + 1, __ATOMIC_RELEASE);
}

static void wait_for_all(int *answers)
{
	if (syscall(SYS_io_uring_enter, ring.fd, BATCH, BATCH, IORING_ENTER_GETEVENTS, NULL, 0) != BATCH)
		err(1, "io_uring_enter");
	for (int left = BATCH; left > 0; left--) {
		const struct io_uring_cqe *answer = &ring.done[*ring.done_head & *ring.done_mask];

		if (*ring.done_head == __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE) || answer->res < 0)
			errx(1, "an answer of io_uring");
		answers[answer->user_data] = answer->res;
		__atomic_store_n(ring.done_head, *ring.done_head + 1, __ATOMIC_RELEASE);
	}
}

static void phase(enum phase phase, int by_ring, int dir, char names[][NAME_BYTES], const int *fds, int *answers)
{
	static struct statx looks[BATCH];

	for (int at = 0; at < BATCH; at++) {
		struct io_uring_sqe entry = {.fd = fds[at], .user_data = at};
		struct stat look;

		switch (phase) {
		case MAKE:
		case OPEN:
			entry.opcode = IORING_OP_OPENAT;
			entry.fd = dir;
			entry.addr = (unsigned long)names[at];
			entry.open_flags = phase == MAKE ? make_flags : open_flags;
			entry.len = 0600;
			if (!by_ring)
				answers[at] = openat(dir, names[at], entry.open_flags, 0600);
			break;
		case LOOK:
			entry.opcode = IORING_OP_STATX;
			entry.addr = (unsigned long)"";
			entry.len = STATX_BASIC_STATS;
			entry.statx_flags = AT_EMPTY_PATH;
			entry.off = (unsigned long)&looks[at];
			if (!by_ring)
				answers[at] = fstat(fds[at], &look);
			break;
		default:
			entry.opcode = IORING_OP_CLOSE;
			if (!by_ring)
				answers[at] = close(fds[at]);
		}
		if (by_ring)
			ask(entry);
		else if (answers[at] < 0)
			err(1, "%s", names[at]);
	}
	if (by_ring)
		wait_for_all(answers);
}

static double seconds(const struct timeval *time)
{
	return time->tv_sec + time->tv_usec / 1e6;
}

static void measure(int by_ring, int dir)
{
	static const char *const words[PHASES] = {"make", "look", "close", "open"};
	double wall[PHASES] = {0}, processor[PHASES] = {0};

	for (int first = 0; first < FILES; first += BATCH) {
		char names[BATCH][NAME_BYTES];
		int fds[BATCH], answers[BATCH];

		for (int at = 0; at < BATCH; at++)
			snprintf(names[at], NAME_BYTES, "%d-%06d", by_ring, first + at);
		for (enum phase at = MAKE; at < PHASES; at++) {
			struct timespec begun, ended;
			struct rusage before, after;

			getrusage(RUSAGE_SELF, &before);
			clock_gettime(CLOCK_MONOTONIC, &begun);
			phase(at, by_ring, dir, names, fds, answers);
			clock_gettime(CLOCK_MONOTONIC, &ended);
			getrusage(RUSAGE_SELF, &after);
			wall[at] += ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9;
			processor[at] += seconds(&after.ru_utime) + seconds(&after.ru_stime) - seconds(&before.ru_utime) - seconds(&before.ru_stime);
			if (at == MAKE)
				memcpy(fds, answers, sizeof fds);
		}
		for (int at = 0; at < BATCH; at++)
			close(answers[at]);
	}
	printf("%s", by_ring ? "io_uring" : "calls");
	for (enum phase at = MAKE; at < PHASES; at++)
		printf("  %s %.0f (%.0f)", words[at], wall[at] / FILES * 1e9, processor[at] / FILES * 1e9);
	printf("\n");
}

int main(int count, char **words)
{
	int dir = count == 2 ? open(words[1], O_RDONLY | O_DIRECTORY) : -1;

	if (dir < 0)
		err(1, "ring DIRECTORY");
	set_up();
	measure(0, dir);
	measure(1, dir);
	return 0;
}
