/* A long line between ssh(1) and sshd(8), for bench/wire.py, without tc-netem(8):
 *
 *     line RTT_MS BYTES_A_SECOND WINDOW_BYTES LOSS SOCKET COUNTS COMMAND [ARGUMENT]...
 *     line SOCKET                          the ProxyCommand of ssh, with ProxyUseFdpass
 *
 * Joins each connection to SOCKET with a COMMAND of its own (sshd -i). All connections share the rate and one queue of a bandwidth-delay
 * product, 1 MiB at least, in each direction; what finds it full is lost, and so are segments at random, with probability LOSS. Each
 * connection has a congestion window as CUBIC with SACK has it (RFC 9438: slow start from 10 segments up to the first delay as in HyStart,
 * 0.7 after a loss, halved for each timeout that it idles), of WINDOW_BYTES at most. A lost segment comes one round trip later, and those
 * after it wait for it. Not modelled: headers, acknowledgements that are lost or take room, timeouts. The file COUNTS has four numbers of 8
 * bytes: what ssh sent, what it was sent, what was sent again, connections. Build: cc -O2 line.c -lm */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SEGMENT = 1448, MOST_CHUNK = 45 * SEGMENT, FIRST_WINDOW = 10 * SEGMENT, IDLE_NS = 200000000 };

static double rtt_ns, bytes_ns, window_bytes, queue_bytes, loss;
static uint64_t *counts;

struct chunk {
	struct chunk *next;
	int64_t due_ns;
	size_t bytes, at;
	char data[];
};

/* One direction of a connection. */
struct way {
	int from, to, direction;
	bool can_read, can_write, ended, closed;
	struct way *back;
	struct chunk *first, **last;
	int64_t due_ns, sent_ns, reduced_ns, epoch_ns;
	double flying, untaken, window, threshold, most, reno;
};

enum kind { ARRIVED, ANSWERED, MISSED };

struct event {
	int64_t at_ns, sent_ns;
	struct way *way;
	uint32_t bytes;
	enum kind kind;
	bool is_full;
};

static struct event *heap;
static size_t events, room;
static int64_t free_ns[2];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void push(struct event event)
{
	size_t at = events++;

	if (events > room && !(heap = realloc(heap, (room = 2 * events) * sizeof *heap)))
		err(1, "realloc");
	for (; at && heap[(at - 1) / 2].at_ns > event.at_ns; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = event;
}

static struct event pop(void)
{
	struct event top = heap[0], last = heap[--events];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < events) {
		child += child + 1 < events && heap[child + 1].at_ns < heap[child].at_ns;
		if (heap[child].at_ns >= last.at_ns)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return top;
}

static void begin_epoch(struct way *way, int64_t now)
{
	way->epoch_ns = now;
	way->threshold = way->reno = way->window;
}

static void answered(struct way *way, const struct event *event)
{
	double delay = event->at_ns - event->sent_ns - rtt_ns, slack = fmin(fmax(rtt_ns / 8, 4e6), 16e6), target, since;

	way->flying -= event->bytes;
	if (!event->is_full)
		return;
	if (way->window < way->threshold) {
		way->window += event->bytes;
		if (delay > slack) {
			way->most = way->window;
			begin_epoch(way, event->at_ns);
		}
	} else {
		since = (event->at_ns - way->epoch_ns + rtt_ns) / 1e9 - cbrt(fmax(way->most - way->threshold, 0) / SEGMENT / 0.4);
		way->reno += 0.53 * SEGMENT * event->bytes / way->window;
		target = fmin(fmax(way->most + 0.4 * SEGMENT * since * since * since, way->reno), 1.5 * way->window);
		way->window += fmax(target - way->window, 0) * event->bytes / way->window;
	}
	way->window = fmin(way->window, window_bytes);
}

/* Once for all that was sent before the window became smaller. */
static void missed(struct way *way, const struct event *event)
{
	if (event->sent_ns <= way->reduced_ns)
		return;
	way->reduced_ns = event->at_ns;
	way->most = way->window;
	way->window = fmax(0.7 * way->window, 2 * SEGMENT);
	begin_epoch(way, event->at_ns);
}

static void transmit(struct way *way, struct chunk *chunk, int64_t now)
{
	int64_t *line = &free_ns[way->direction], start = *line > now ? *line : now, arrives;
	bool is_full, is_lost = (start - now) * bytes_ns > queue_bytes;

	way->flying += chunk->bytes;
	way->untaken += chunk->bytes;
	is_full = 2 * way->flying >= way->window;
	arrives = (is_lost ? start : (*line = start + chunk->bytes / bytes_ns)) + rtt_ns / 2;
	while (is_lost || drand48() < loss) {
		push((struct event){ arrives + rtt_ns / 2, now, way, 0, MISSED, false });
		*line += chunk->bytes / bytes_ns;
		arrives += rtt_ns;
		counts[2] += chunk->bytes;
		is_lost = false;
	}
	push((struct event){ arrives + rtt_ns / 2, now, way, chunk->bytes, ANSWERED, is_full });
	way->due_ns = chunk->due_ns = arrives > way->due_ns ? arrives : way->due_ns;
	push((struct event){ chunk->due_ns, now, way, 0, ARRIVED, false });
	way->sent_ns = now;
}

static void take(struct way *way)
{
	int64_t now = now_ns();

	for (int64_t idle = now - way->sent_ns; !way->flying && (idle -= IDLE_NS + rtt_ns) > 0 && way->window > FIRST_WINDOW;)
		way->window = fmax(way->window / 2, FIRST_WINDOW);
	while (way->can_read && !way->ended) {
		double space = fmin(way->window - way->flying, window_bytes - way->untaken);
		size_t most = loss ? SEGMENT : fmax(floor(fmin(way->window / 16, MOST_CHUNK) / SEGMENT), 1) * SEGMENT;
		struct chunk *chunk;
		ssize_t got;

		if (space < most)
			return;
		if (!(chunk = malloc(sizeof *chunk + most)))
			err(1, "malloc");
		got = read(way->from, chunk->data, most);
		if (got <= 0) {
			free(chunk);
			way->can_read = false;
			way->ended = got == 0 || errno != EAGAIN;
			return;
		}
		counts[way->direction] += got;
		*chunk = (struct chunk){ .bytes = got };
		*way->last = chunk;
		way->last = &chunk->next;
		transmit(way, chunk, now);
	}
}

static void deliver(struct way *way)
{
	int64_t now = now_ns();
	struct chunk *chunk;

	while ((chunk = way->first) && chunk->due_ns <= now && way->can_write && !way->closed) {
		ssize_t put = write(way->to, chunk->data + chunk->at, chunk->bytes - chunk->at);

		if (put < 0) {
			way->can_write = false;
			/* The other side is gone: nothing more is delivered to it, or taken from here. */
			way->ended = way->closed = errno != EAGAIN;
			break;
		}
		way->untaken -= put;
		if ((chunk->at += put) < chunk->bytes)
			continue;
		if (!(way->first = chunk->next))
			way->last = &way->first;
		free(chunk);
	}
}

/* Does all that can be done, and closes what is at its end. */
static void serve(struct way *way)
{
	deliver(way);
	take(way);
	if (way->ended && !way->closed && !way->first) {
		way->closed = true;
		shutdown(way->to, SHUT_WR);
	}
	if (way->closed && way->back->closed && way->to >= 0) {
		close(way->to);
		close(way->from);
		way->to = way->from = way->back->to = way->back->from = -1;
	}
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un address = { AF_UNIX, "" };

	if (strlen(path) >= sizeof address.sun_path)
		errx(1, "%s: too long for a socket", path);
	strcpy(address.sun_path, path);
	return address;
}

/* Passes a connection to ssh, which waits for it on standard output. */
static int join(const char *path)
{
	struct sockaddr_un to = address(path);
	union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	struct iovec byte = { "", 1 };
	struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	control.header = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	if (fd < 0 || connect(fd, (void *)&to, sizeof to) || sendmsg(1, &message, 0) < 0)
		err(1, "%s", path);
	return 0;
}

static void watch(int poll, int fd, struct way *way)
{
	struct epoll_event event = { EPOLLIN | EPOLLOUT | EPOLLET, { .ptr = way } };

	if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

static void connected(int poll, int fd, char **command)
{
	struct way *ways = calloc(2, sizeof *ways);
	int pair[2];

	if (!ways || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		err(1, "a connection");
	switch (fork()) {
	case -1:
		err(1, "fork");
	case 0:
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		execv(command[0], command);
		err(1, "%s", command[0]);
	}
	close(pair[1]);
	counts[3]++;
	for (int i = 0; i < 2; i++)
		ways[i] = (struct way){ .from = i ? pair[0] : fd, .to = i ? fd : pair[0], .direction = i, .back = &ways[!i],
					.last = &ways[i].first, .window = FIRST_WINDOW, .threshold = INFINITY };
	watch(poll, fd, &ways[0]);
	watch(poll, pair[0], &ways[1]);
}

int main(int argc, char **argv)
{
	struct sockaddr_un here;
	int poll = epoll_create1(EPOLL_CLOEXEC), listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), file;
	struct epoll_event listening = { EPOLLIN, { .ptr = NULL } };

	if (argc == 2)
		return join(argv[1]);
	if (argc < 8)
		errx(2, "line RTT_MS BYTES_A_SECOND WINDOW_BYTES LOSS SOCKET COUNTS COMMAND [ARGUMENT]...");
	prctl(PR_SET_PDEATHSIG, 9);
	prctl(PR_SET_TIMERSLACK, 1);
	rtt_ns = atof(argv[1]) * 1e6;
	bytes_ns = atof(argv[2]) / 1e9;
	window_bytes = atof(argv[3]);
	loss = atof(argv[4]);
	queue_bytes = fmax(rtt_ns * bytes_ns, 1 << 20);
	here = address(argv[5]);
	file = open(argv[6], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, 32))
		err(1, "%s", argv[6]);
	counts = mmap(NULL, 32, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (counts == MAP_FAILED || bind(listener, (void *)&here, sizeof here) || listen(listener, 64))
		err(1, "%s", argv[5]);
	epoll_ctl(poll, EPOLL_CTL_ADD, listener, &listening);
	for (;;) {
		struct epoll_event ready[64];
		int64_t now = now_ns(), wait = events ? heap[0].at_ns - now : -1;
		struct timespec timeout = { wait / 1000000000, wait % 1000000000 };
		int got;

		if (events && wait < 0)
			timeout = (struct timespec){ 0 };
		got = epoll_pwait2(poll, ready, 64, events ? &timeout : NULL, NULL);
		if (got < 0 && errno != EINTR)
			err(1, "epoll_pwait2");
		for (int i = 0; i < got; i++) {
			struct way *way = ready[i].data.ptr;

			if (!way) {
				connected(poll, accept4(listener, NULL, NULL, SOCK_CLOEXEC), argv + 7);
				continue;
			}
			/* Of the descriptor that `way` reads from and the other one writes to. */
			if (ready[i].events & ~EPOLLOUT)
				way->can_read = true;
			if (ready[i].events & ~EPOLLIN)
				way->back->can_write = true;
			serve(way);
			serve(way->back);
		}
		for (now = now_ns(); events && heap[0].at_ns <= now;) {
			struct event event = pop();

			if (event.kind == ANSWERED)
				answered(event.way, &event);
			else if (event.kind == MISSED)
				missed(event.way, &event);
			serve(event.way);
		}
	}
}
