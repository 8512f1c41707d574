/* The least that splice(2) asks of a program: what gush cat and gush link are measured against.
 *
 *     bare cat [FILE]            FILE or standard input to standard output, of which one is a pipe
 *     bare cat-quarters [FILE]   the same in calls of a quarter of the pipe
 *     bare cat-polling [FILE]    as cat, with SPLICE_F_NONBLOCK, waiting in poll(2)
 *     bare cat-private [FILE]    as cat, through a pipe of its own
 *     bare cat-bytes NUMBER      standard input to standard output, so many bytes
 *     bare relay LISTEN CONNECT  between the TCP ports of 127.0.0.1, a process for each connection
 *     bare crowd LISTEN CONNECT  the same for many connections: two processes with epoll(7), recv and send
 *     bare careful LISTEN CONNECT  a crowd that passes each end on, and asks each socket whether all was acknowledged before the close
 *     bare formal LISTEN CONNECT   a careful crowd that also makes the calls of tokio: a second connect(2), and EPOLL_CTL_DEL before a close
 *
 * Pipes are made as large as gush makes them. There is no handling of what splice refuses, of urgent data,
 * of signals or of errors beyond saying so: such a loop is no tool.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, CALL_BYTES = 1 << 30 };

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void wait_for(int fd, short events)
{
    struct pollfd ask = {.fd = fd, .events = events};
    if (poll(&ask, 1, -1) < 0 && errno != EINTR)
        die("poll");
}

static void cat(int source, size_t call_bytes)
{
    ssize_t moved;
    while ((moved = splice(source, NULL, 1, NULL, call_bytes, 0)) > 0) {
    }
    if (moved < 0)
        die("splice");
}

static void cat_bytes(size_t left)
{
    ssize_t moved;
    while (left > 0 && (moved = splice(0, NULL, 1, NULL, left < CALL_BYTES ? left : CALL_BYTES, 0)) > 0)
        left -= (size_t)moved;
}

static void cat_polling(int source, int source_is_pipe)
{
    for (;;) {
        ssize_t moved = splice(source, NULL, 1, NULL, CALL_BYTES, SPLICE_F_NONBLOCK);
        if (moved == 0)
            return;
        if (moved > 0)
            continue;
        if (errno != EAGAIN)
            die("splice");
        if (source_is_pipe)
            wait_for(source, POLLIN);
        else
            wait_for(1, POLLOUT);
    }
}

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe2");
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
}

static void cat_private(int source)
{
    int ends[2];
    make_pipe(ends);
    for (;;) {
        ssize_t held = splice(source, NULL, ends[1], NULL, PIPE_BYTES, 0);
        if (held == 0)
            return;
        if (held < 0)
            die("splice in");
        while (held > 0) {
            ssize_t moved = splice(ends[0], NULL, 1, NULL, (size_t)held, 0);
            if (moved < 0)
                die("splice out");
            held -= moved;
        }
    }
}

static void run_cat(const char *shape, const char *path)
{
    int source = path ? open(path, O_RDONLY) : 0;
    if (source < 0)
        die(path);
    int source_is_pipe = fcntl(source, F_SETPIPE_SZ, PIPE_BYTES) > 0;
    fcntl(1, F_SETPIPE_SZ, PIPE_BYTES);
    if (strcmp(shape, "cat-polling") == 0)
        cat_polling(source, source_is_pipe);
    else if (strcmp(shape, "cat-private") == 0)
        cat_private(source);
    else if (strcmp(shape, "cat-quarters") == 0)
        cat(source, PIPE_BYTES / 4);
    else
        cat(source, CALL_BYTES);
}

/* One direction of a relayed connection. */
struct way {
    int from, to, ends[2];
    size_t held;
    int ended;
};

/* Moves until one of the two sockets would have to be waited for; which, is in `wants_from` and `held`. */
static int goes_on(struct way *way)
{
    for (;;) {
        if (way->held == 0) {
            ssize_t got = splice(way->from, NULL, way->ends[1], NULL, PIPE_BYTES, SPLICE_F_NONBLOCK);
            if (got == 0) {
                shutdown(way->to, SHUT_WR);
                way->ended = 1;
                return 1;
            }
            if (got < 0)
                return errno == EAGAIN;
            way->held = (size_t)got;
        }
        ssize_t put = splice(way->ends[0], NULL, way->to, NULL, way->held, SPLICE_F_NONBLOCK);
        if (put < 0)
            return errno == EAGAIN;
        way->held -= (size_t)put;
    }
}

static void relay_one(int client, const struct sockaddr_in *server)
{
    int yes = 1, upstream = socket(AF_INET, SOCK_STREAM, 0);
    if (upstream < 0 || connect(upstream, (const struct sockaddr *)server, sizeof *server) < 0)
        die("connect");
    int sockets[2] = {client, upstream};
    for (int i = 0; i < 2; i++) {
        setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        fcntl(sockets[i], F_SETFL, O_NONBLOCK);
    }
    struct way ways[2] = {{.from = client, .to = upstream}, {.from = upstream, .to = client}};
    make_pipe(ways[0].ends);
    make_pipe(ways[1].ends);
    while (!ways[0].ended || !ways[1].ended) {
        struct pollfd asks[2] = {{.fd = -1}, {.fd = -1}};
        for (int i = 0; i < 2; i++) {
            if (ways[i].ended)
                continue;
            if (!goes_on(&ways[i]))
                exit(0);
            if (ways[i].ended)
                continue;
            asks[i].fd = ways[i].held ? ways[i].to : ways[i].from;
            asks[i].events = ways[i].held ? POLLOUT : POLLIN;
        }
        if (asks[0].fd < 0 && asks[1].fd < 0)
            continue;
        if (poll(asks, 2, -1) < 0 && errno != EINTR)
            die("poll");
    }
    exit(0);
}

/* One of the two sockets of a connection of a crowd. */
struct end {
    int fd, has_ended;
    struct end *peer;
    char *kept; /* bytes for this socket that found no room */
    size_t kept_bytes, kept_at;
    struct end *next_closed;
};

static char piece[64 << 10];

/* Sends the kept bytes; true if none are left. */
static int sent_kept(struct end *to)
{
    while (to->kept) {
        ssize_t put = send(to->fd, to->kept + to->kept_at, to->kept_bytes - to->kept_at, MSG_NOSIGNAL);
        if (put < 0)
            return 0;
        to->kept_at += (size_t)put;
        if (to->kept_at == to->kept_bytes) {
            free(to->kept);
            to->kept = NULL;
        }
    }
    return 1;
}

/* Does the crowd make the calls without which an ending cannot be told from a cut? */
static int is_careful;
/* And those of tokio's registrations, of which nothing is asked here? */
static int is_formal;

/* Has everything arrived that was sent, and the end behind it? Whoever asks again makes a timer of it; here a short sleep does. */
static void see_off(int fd)
{
    int unsent = 0;
    while (ioctl(fd, TIOCOUTQ, &unsent) == 0 && unsent > 1)
        usleep(1000);
}

/* Copies until one of the two sockets would have to be waited for; `events` are those of `from`. False: an error. */
static int copies(struct end *from, struct end *to, unsigned events)
{
    while (!from->has_ended && sent_kept(to)) {
        ssize_t got = recv(from->fd, piece, sizeof piece, 0);
        if (got < 0)
            return errno == EAGAIN;
        if (got == 0) {
            from->has_ended = 1;
            /* Where both have ended, closing sends the FIN. */
            if (is_careful || !to->has_ended)
                shutdown(to->fd, SHUT_WR);
            return 1;
        }
        ssize_t put = send(to->fd, piece, (size_t)got, MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN)
            return 0;
        if (put < got) {
            to->kept_at = 0;
            to->kept_bytes = (size_t)(got - (put < 0 ? 0 : put));
            to->kept = malloc(to->kept_bytes);
            memcpy(to->kept, piece + (got - (ssize_t)to->kept_bytes), to->kept_bytes);
        }
        /* A short piece was all there was, and an edge tells of more: epoll(7), question 9. */
        if (got < (ssize_t)sizeof piece && !(events & EPOLLRDHUP))
            return 1;
    }
    return 1;
}

static void watch(int epoll, struct end *end)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = end};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, end->fd, &event) < 0)
        die("epoll_ctl");
}

static void relay_crowd(int listener, const struct sockaddr_in *server)
{
    int yes = 1, epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE}, events[200];
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
        die("epoll_ctl");
    for (;;) {
        struct end *closed = NULL;
        int count = epoll_wait(epoll, events, 200, -1), client;
        for (int i = 0; i < count; i++) {
            struct end *end = events[i].data.ptr, *peer;
            if (!end) {
                while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    struct end *pair = calloc(2, sizeof *pair);
                    pair[0] = (struct end){.fd = client, .peer = &pair[1]};
                    pair[1] = (struct end){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .peer = &pair[0]};
                    for (int j = 0; j < 2; j++)
                        setsockopt(pair[j].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                    if (connect(pair[1].fd, (const struct sockaddr *)server, sizeof *server) < 0 && errno != EINPROGRESS)
                        die("connect");
                    if (is_formal)
                        connect(pair[1].fd, (const struct sockaddr *)server, sizeof *server);
                    watch(epoll, &pair[0]);
                    watch(epoll, &pair[1]);
                }
                continue;
            }
            peer = end->peer;
            if (end->fd < 0)
                continue;
            int right = !(events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) || copies(end, peer, events[i].events);
            /* What was kept for lack of room may hide more, and the end. */
            if (right && (events[i].events & EPOLLOUT) && end->kept)
                right = copies(peer, end, EPOLLRDHUP);
            if (right && !(end->has_ended && peer->has_ended && !end->kept && !peer->kept))
                continue;
            if (is_careful) {
                see_off(end->fd);
                see_off(peer->fd);
            }
            if (is_formal) {
                epoll_ctl(epoll, EPOLL_CTL_DEL, end->fd, NULL);
                epoll_ctl(epoll, EPOLL_CTL_DEL, peer->fd, NULL);
            }
            close(end->fd);
            close(peer->fd);
            end->fd = peer->fd = -1;
            end->next_closed = closed;
            closed = end;
        }
        while (closed) {
            struct end *end = closed, *first = end < end->peer ? end : end->peer;
            closed = end->next_closed;
            free(first[0].kept);
            free(first[1].kept);
            free(first);
        }
    }
}

static void run_relay(int listen_port, int connect_port, int is_crowd)
{
    struct sockaddr_in near = {.sin_family = AF_INET, .sin_port = htons((uint16_t)listen_port)};
    near.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in far = near;
    far.sin_port = htons((uint16_t)connect_port);
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&near, sizeof near) < 0 || listen(listener, 4096) < 0)
        die("listen");
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (is_crowd) {
        fcntl(listener, F_SETFL, O_NONBLOCK);
        pid_t other = fork();
        if (other < 0)
            die("fork");
        /* Whoever ends the first process ends both. */
        if (other == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        relay_crowd(listener, &far);
    }
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0)
            continue;
        pid_t child = fork();
        if (child == 0) {
            close(listener);
            relay_one(client, &far);
        }
        if (child < 0)
            die("fork");
        close(client);
    }
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "cat-bytes") == 0)
        cat_bytes(strtoull(words[2], NULL, 10));
    else if (count >= 2 && strncmp(words[1], "cat", 3) == 0)
        run_cat(words[1], count > 2 ? words[2] : NULL);
    else if (count == 4 && strcmp(words[1], "relay") == 0)
        run_relay(atoi(words[2]), atoi(words[3]), 0);
    else if (count == 4 && strcmp(words[1], "crowd") == 0)
        run_relay(atoi(words[2]), atoi(words[3]), 1);
    else if (count == 4 && strcmp(words[1], "careful") == 0)
        run_relay(atoi(words[2]), atoi(words[3]), is_careful = 1);
    else if (count == 4 && strcmp(words[1], "formal") == 0)
        run_relay(atoi(words[2]), atoi(words[3]), is_formal = is_careful = 1);
    else
        return 2;
    return 0;
}
