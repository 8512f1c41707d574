/* A file into a pipe, a local socket and TCP over loopback: read and write next to splice and sendfile, where a splice from a file shares
 * the file's pages and where it copies (copy_splice_read of fs/splice.c). A kernel that copies is not needed: a file of tmpfs
 * that is open with O_DIRECT is spliced by that function since Linux 6.6, and read from the page cache all the same.
 *
 *     cc -O2 -o copying-splice bench/copying-splice.c && ./copying-splice /dev/shm/file 9
 *
 * Rounds are interleaved; the output has the median GiB/s, and the median processor milliseconds a GiB of both processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 256 << 20, MOST_ROUNDS = 99 };
enum how { READ_WRITE, DIRECT, OWN_PIPE, SENDFILE };

static const struct {
	const char *name;
	enum how how;
	size_t bytes;
} ways[] = {
	{ "read and write, 128 KiB", READ_WRITE, 128 << 10 },
	{ "read and write, 256 KiB", READ_WRITE, 256 << 10 },
	{ "splice into the pipe", DIRECT, 1 << 20 },
	{ "splice by a pipe of 256 KiB", OWN_PIPE, 256 << 10 },
	{ "splice by a pipe of 512 KiB", OWN_PIPE, 512 << 10 },
	{ "sendfile", SENDFILE, 1 << 20 },
};
enum { WAYS = sizeof ways / sizeof *ways };
static const char *const targets[] = { "pipe", "local socket", "TCP" };

static char memory[1 << 20] __attribute__((aligned(4096)));

static void check(long answer, const char *what)
{
	if (answer <= 0) {
		perror(what);
		exit(2);
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static double processor_seconds(void)
{
	double sum = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
		struct rusage used;

		getrusage(who, &used);
		sum += used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
	}
	return sum;
}

/* The end for reading, and the end for writing. */
static void connected(int target, int ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int listener;

	if (target == 0) {
		check(pipe(ends) + 1, "pipe");
		fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	} else if (target == 1) {
		check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) + 1, "socketpair");
	} else {
		listener = socket(AF_INET, SOCK_STREAM, 0);
		check(bind(listener, (struct sockaddr *)&at, len) + 1, "bind");
		listen(listener, 1);
		getsockname(listener, (struct sockaddr *)&at, &len);
		ends[1] = socket(AF_INET, SOCK_STREAM, 0);
		check(connect(ends[1], (struct sockaddr *)&at, len) + 1, "connect");
		ends[0] = accept(listener, NULL, NULL);
		close(listener);
	}
}

static void send_all(int file, int to, enum how how, size_t bytes)
{
	int own[2] = { -1, -1 };

	if (how == OWN_PIPE) {
		check(pipe(own) + 1, "pipe");
		fcntl(own[1], F_SETPIPE_SZ, bytes);
	}
	for (long left = FILE_BYTES; left > 0;) {
		ssize_t got = 0, put;

		switch (how) {
		case READ_WRITE:
			check(got = read(file, memory, bytes), "read");
			for (ssize_t at = 0; at < got; at += put)
				check(put = write(to, memory + at, got - at), "write");
			break;
		case DIRECT:
			check(got = splice(file, NULL, to, NULL, bytes, 0), "splice");
			break;
		case OWN_PIPE:
			check(got = splice(file, NULL, own[1], NULL, bytes, 0), "splice");
			for (ssize_t rest = got; rest > 0; rest -= put)
				check(put = splice(own[0], NULL, to, NULL, rest, 0), "splice");
			break;
		case SENDFILE:
			check(got = sendfile(to, file, NULL, bytes), "sendfile");
			break;
		}
		left -= got;
	}
	close(own[0]);
	close(own[1]);
}

static void round_of(int file, int target, int way, double *took, double *used)
{
	double processor = processor_seconds(), begun = seconds();
	int ends[2];
	pid_t reader;

	connected(target, ends);
	lseek(file, 0, SEEK_SET);
	reader = fork();
	if (reader == 0) {
		close(ends[1]);
		while (read(ends[0], memory, 256 << 10) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	send_all(file, ends[1], ways[way].how, ways[way].bytes);
	close(ends[1]);
	waitpid(reader, NULL, 0);
	*took = seconds() - begun;
	*used = processor_seconds() - processor;
}

static int by_size(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static double median(double *values, int rounds)
{
	qsort(values, rounds, sizeof *values, by_size);
	return values[rounds / 2];
}

/* Does a later write to the file show in a pipe that the file was spliced into? */
static const char *behaviour(int file, int writable)
{
	loff_t at = 0;
	int ends[2];
	char got;

	check(pipe(ends) + 1, "pipe");
	check(splice(file, &at, ends[1], NULL, 1, 0), "splice");
	check(pwrite(writable, "z", 1, 0), "write");
	check(read(ends[0], &got, 1), "read");
	check(pwrite(writable, "a", 1, 0), "write");
	close(ends[0]);
	close(ends[1]);
	return got == 'z' ? "shares" : "copies";
}

int main(int count, char **words)
{
	static double took[2][WAYS][MOST_ROUNDS], used[2][WAYS][MOST_ROUNDS];
	int writable, files[2], rounds;
	const double gib = (double)FILE_BYTES / (1 << 30);

	if (count != 3 || (rounds = atoi(words[2])) < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: copying-splice FILE-ON-TMPFS ROUNDS\n");
		return 2;
	}
	writable = open(words[1], O_RDWR | O_CREAT | O_EXCL, 0600);
	check(writable + 1, words[1]);
	memset(memory, 'a', sizeof memory);
	for (long at = 0; at < FILE_BYTES; at += sizeof memory)
		check(write(writable, memory, sizeof memory), "write");
	files[0] = open(words[1], O_RDONLY);
	files[1] = open(words[1], O_RDONLY | O_DIRECT);
	unlink(words[1]);
	for (int file = 0; file < 2; file++) {
		check(files[file] + 1, "open");
		printf("file %d: a splice %s\n", file, behaviour(files[file], writable));
	}
	for (int target = 0; target < 3; target++) {
		for (int round = 0; round < rounds; round++)
			for (int way = 0; way < WAYS; way++)
				for (int file = 0; file < 2; file++)
					if (target == 0 || ways[way].how != DIRECT)
						round_of(files[file], target, way, &took[file][way][round], &used[file][way][round]);
		for (int way = 0; way < WAYS; way++)
			for (int file = 0; file < 2 && (target == 0 || ways[way].how != DIRECT); file++)
				printf("%-13s %-28s file %d: %.2f GiB/s, %.0f ms a GiB\n", targets[target], ways[way].name, file,
				       gib / median(took[file][way], rounds), 1000 * median(used[file][way], rounds) / gib);
		fflush(stdout);
	}
	return 0;
}
