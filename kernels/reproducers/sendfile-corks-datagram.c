/* On Linux 5.10 a datagram that sendfile(2) takes from a file is never sent, with success, if more bytes were asked for than the
 * file holds: the socket waits for the rest (SPLICE_F_MORE of splice_direct_to_actor in fs/splice.c, MSG_MORE of udp(7)), and the
 * end of the file gives it no sign. Linux 6.1.192 sends it; mainline has splice_eof for this since 6.5.
 * Exit status: 0 the datagram does not arrive, 1 it arrives, 2 a call is refused. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int main(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval second = { .tv_sec = 1 };
	char name[] = "/tmp/reproduce-XXXXXX", got[64];
	int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0), file = mkstemp(name);
	socklen_t len = sizeof at;
	ssize_t sent, arrived;

	unlink(name);
	if (file < 0 || bind(to, (struct sockaddr *)&at, len) || getsockname(to, (struct sockaddr *)&at, &len) ||
	    connect(from, (struct sockaddr *)&at, len) || pwrite(file, "hello", 5, 0) != 5)
		return 2;
	setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
	sent = sendfile(from, file, NULL, 4096);
	if (sent != 5) {
		perror("sendfile");
		return 2;
	}
	arrived = recv(to, got, sizeof got, 0);
	printf("sendfile of 4096 bytes from a file of 5 answered %zd; the receiver got %zd\n", sent, arrived);
	return arrived == 5 ? 1 : 0;
}
