/* Before Linux 5.12 sendfile(2) from a file into a pipe holds its caller until the pipe has taken all bytes: a reader that is slow,
 * or stopped, holds the sender, who learns of no progress. Since then the call ends where the pipe is full, as splice(2)
 * does. (do_sendfile of fs/read_write.c; splice_file_to_pipe since "do_sendfile: use splice_file_to_pipe for pipes")
 * Exit status: 0 the caller is held, 1 a part is sent, 2 a call is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	char name[] = "/tmp/reproduce-XXXXXX";
	int ends[2], file = mkstemp(name), status, room;
	pid_t sender;

	unlink(name);
	if (file < 0 || pipe(ends) || (room = fcntl(ends[1], F_GETPIPE_SZ)) < 0 || ftruncate(file, 4L * room))
		return 2;
	sender = fork();
	if (sender == 0) {
		ssize_t sent = sendfile(ends[1], file, NULL, 4 * room);

		_exit(sent < 0 ? 2 : sent == room ? 1 : 3);
	}
	usleep(1000000);
	if (waitpid(sender, &status, WNOHANG) == sender) {
		printf("sendfile ended, and nobody had read: status %d\n", WEXITSTATUS(status));
		return WEXITSTATUS(status);
	}
	printf("sendfile is held by a pipe of %d bytes that nobody reads\n", room);
	kill(sender, SIGKILL);
	waitpid(sender, &status, 0);
	return 0;
}
