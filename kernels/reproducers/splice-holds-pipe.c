/* A splice(2) that waits for an idle terminal holds the lock of the pipe it will fill: another process's non-blocking
 * read(2) of that pipe hangs meanwhile, and no signal ends the wait. (splice_file_to_pipe of fs/splice.c takes pipe_lock first)
 * Exit status: 0 the reader hangs, 1 it does not, 2 a call is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

int main(void)
{
	int ends[2], master = posix_openpt(O_RDWR | O_NOCTTY), slave, status, hangs;
	pid_t splicer, reader;
	char byte;

	if (master < 0 || grantpt(master) || unlockpt(master) || pipe2(ends, O_NONBLOCK))
		return 2;
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	splicer = fork();
	if (splicer == 0) {
		/* The pipe's own flag concerns its end only; the terminal is waited for. */
		fcntl(ends[1], F_SETFL, 0);
		_exit(splice(slave, NULL, ends[1], NULL, 4096, 0) < 0 ? 2 : 0);
	}
	usleep(300000);
	if (waitpid(splicer, &status, WNOHANG) == splicer) {
		printf("the splice ended at once\n");
		return 2;
	}
	reader = fork();
	if (reader == 0)
		_exit(read(ends[0], &byte, 1) < 0 ? 0 : 3);
	usleep(1000000);
	hangs = waitpid(reader, &status, WNOHANG) == 0;
	printf("the non-blocking reader %s\n", hangs ? "hangs" : "has its answer");
	/* A line typed at the terminal ends both. */
	if (write(master, "x\n", 2) != 2)
		return 2;
	waitpid(splicer, &status, 0);
	if (hangs)
		waitpid(reader, &status, 0);
	return hangs ? 0 : 1;
}
