/* EAGAIN of a splice from a socket into a pipe says that the socket is empty, or that the pipe is full: a caller that waits
 * for the socket after the second spins or hangs. (splice(2); wait_for_space of fs/splice.c)
 * Exit status: 0 both say EAGAIN, 1 one does not, 2 a call is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
	static char zeros[65536];
	int sockets[2], ends[2], empty, full;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe(ends))
		return 2;
	splice(sockets[0], NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK);
	empty = errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], zeros, sizeof zeros) > 0)
		;
	if (write(sockets[1], "x", 1) != 1)
		return 2;
	errno = 0;
	splice(sockets[0], NULL, ends[1], NULL, 4096, SPLICE_F_NONBLOCK);
	full = errno;
	printf("socket empty: %s; pipe full: %s\n", strerror(empty), strerror(full));
	if (empty == ENOSYS || empty == EPERM)
		return 2;
	return empty == EAGAIN && full == EAGAIN ? 0 : 1;
}
