/* Before Linux 5.12 sendfile(2) from a file into a pipe copies, and into a socket shares the file's pages. So whether a later
 * write to the file shows in bytes that were sent depends on the target.
 *
 * Exit status: 0 the write shows in the socket alone, 1 in both or neither, 2 a call is refused. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/* Does the write show in what `reader` gets of a byte sent into `writer`? */
static int shows(int file, int reader, int writer)
{
	off_t at = 0;
	char byte = 0;

	if (pwrite(file, "a", 1, 0) != 1 || sendfile(writer, file, &at, 1) != 1) {
		perror("sendfile");
		return -1;
	}
	if (pwrite(file, "b", 1, 0) != 1 || read(reader, &byte, 1) != 1)
		return -1;
	return byte == 'b';
}

int main(void)
{
	int file = memfd_create("file", 0), ends[2], sockets[2], in_pipe, in_socket;

	if (file < 0 || pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) {
		perror("setup");
		return 2;
	}
	in_pipe = shows(file, ends[0], ends[1]);
	in_socket = shows(file, sockets[0], sockets[1]);
	if (in_pipe < 0 || in_socket < 0)
		return 2;
	printf("a later write %s in the pipe, and %s in the socket\n", in_pipe ? "shows" : "does not show",
	       in_socket ? "shows" : "does not show");
	return !(in_socket && !in_pipe);
}
