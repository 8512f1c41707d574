/* A file into TCP over loopback: read and write next to sendfile, and the parts that the wakeups of the reader have.
 *
 *     cc -O2 -o loopback bench/loopback.c && ./loopback /dev/shm/file 9
 *
 * As it is; with both processes on one processor, so that no wakeup crosses; and with a reader that is woken for 256 KiB at least
 * (SO_RCVLOWAT). Rounds are interleaved; the output has the medians of wall milliseconds, processor milliseconds of both processes and of
 * the sender alone, and switches of context, each for one GiB. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 256 << 20, MOST_ROUNDS = 99, LOW_WATER_BYTES = 256 << 10 };
enum place { AS_IT_IS, ONE_PROCESSOR, LOW_WATER, PLACES };
static const char *const places[] = { "as it is", "one processor", "woken for 256 KiB" };

static const struct {
	const char *name;
	int is_sendfile;
	size_t bytes;
} ways[] = {
	{ "read and write, 64 KiB", 0, 64 << 10 },
	{ "read and write, 128 KiB", 0, 128 << 10 },
	{ "read and write, 256 KiB", 0, 256 << 10 },
	{ "sendfile, 1 MiB", 1, 1 << 20 },
};
enum { WAYS = sizeof ways / sizeof *ways };
enum { WALL, PROCESSOR, SENDER, SWITCHES, FIGURES };

static char memory[1 << 20] __attribute__((aligned(4096)));

static void check(long answer, const char *what)
{
	if (answer <= 0) {
		perror(what);
		exit(2);
	}
}

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static double processor_ms(const struct rusage *used)
{
	return (used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1e3 + (used->ru_utime.tv_usec + used->ru_stime.tv_usec) * 1e-3;
}

/* The end for reading, and the end for writing. */
static void connected(int ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	check(bind(listener, (struct sockaddr *)&at, len) + 1, "bind");
	listen(listener, 1);
	getsockname(listener, (struct sockaddr *)&at, &len);
	ends[1] = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(ends[1], (struct sockaddr *)&at, len) + 1, "connect");
	ends[0] = accept(listener, NULL, NULL);
	close(listener);
}

static void send_all(int file, int to, int way)
{
	for (long left = FILE_BYTES; left > 0;) {
		ssize_t got, put;

		if (ways[way].is_sendfile) {
			check(got = sendfile(to, file, NULL, ways[way].bytes), "sendfile");
		} else {
			check(got = read(file, memory, ways[way].bytes), "read");
			for (ssize_t at = 0; at < got; at += put)
				check(put = write(to, memory + at, got - at), "write");
		}
		left -= got;
	}
}

static void round_of(int file, int place, int way, double *figures)
{
	struct rusage before[2], after[2];
	double begun;
	int ends[2], low = LOW_WATER_BYTES;
	pid_t reader;
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof all, &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (place == ONE_PROCESSOR)
		sched_setaffinity(0, sizeof one, &one);
	connected(ends);
	if (place == LOW_WATER)
		setsockopt(ends[0], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
	lseek(file, 0, SEEK_SET);
	getrusage(RUSAGE_SELF, &before[0]);
	getrusage(RUSAGE_CHILDREN, &before[1]);
	begun = milliseconds();
	reader = fork();
	if (reader == 0) {
		close(ends[1]);
		while (read(ends[0], memory, 256 << 10) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	send_all(file, ends[1], way);
	close(ends[1]);
	waitpid(reader, NULL, 0);
	figures[WALL] = milliseconds() - begun;
	getrusage(RUSAGE_SELF, &after[0]);
	getrusage(RUSAGE_CHILDREN, &after[1]);
	figures[SENDER] = processor_ms(&after[0]) - processor_ms(&before[0]);
	figures[PROCESSOR] = figures[SENDER] + processor_ms(&after[1]) - processor_ms(&before[1]);
	figures[SWITCHES] = 0;
	for (int who = 0; who < 2; who++)
		figures[SWITCHES] += after[who].ru_nvcsw + after[who].ru_nivcsw - before[who].ru_nvcsw - before[who].ru_nivcsw;
	for (int figure = 0; figure < FIGURES; figure++)
		figures[figure] *= (double)(1 << 30) / FILE_BYTES;
	sched_setaffinity(0, sizeof all, &all);
}

static int by_size(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

int main(int count, char **words)
{
	static double all[PLACES][WAYS][FIGURES][MOST_ROUNDS];
	double figures[FIGURES];
	int file, rounds;

	if (count != 3 || (rounds = atoi(words[2])) < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: loopback NEW-FILE ROUNDS\n");
		return 2;
	}
	file = open(words[1], O_RDWR | O_CREAT | O_EXCL, 0600);
	check(file + 1, words[1]);
	memset(memory, 'a', sizeof memory);
	for (long at = 0; at < FILE_BYTES; at += sizeof memory)
		check(write(file, memory, sizeof memory), "write");
	unlink(words[1]);
	for (int round = 0; round < rounds; round++)
		for (int place = 0; place < PLACES; place++)
			for (int way = 0; way < WAYS; way++) {
				round_of(file, place, way, figures);
				for (int figure = 0; figure < FIGURES; figure++)
					all[place][way][figure][round] = figures[figure];
			}
	for (int place = 0; place < PLACES; place++)
		for (int way = 0; way < WAYS; way++) {
			for (int figure = 0; figure < FIGURES; figure++) {
				qsort(all[place][way][figure], rounds, sizeof(double), by_size);
				figures[figure] = all[place][way][figure][rounds / 2];
			}
			printf("%-18s %-24s wall %5.0f, processor %5.0f, sender %5.0f, switches %6.0f\n", places[place], ways[way].name,
			       figures[WALL], figures[PROCESSOR], figures[SENDER], figures[SWITCHES]);
		}
	return 0;
}
