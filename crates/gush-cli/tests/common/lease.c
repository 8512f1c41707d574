/*
 * lease read|write FILE [TEXT]: takes a lease on FILE, as a file server does for a client that caches, and says "held". When another process
 * opens FILE against the lease, says "broken", writes TEXT over the start of FILE, as a client does that gives back what it has cached, and
 * returns the lease.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	sigset_t broken;
	if (argc < 3)
		return 125;
	int is_read = !strcmp(argv[1], "read");
	int fd = open(argv[2], is_read ? O_RDONLY : O_RDWR);
	sigemptyset(&broken);
	sigaddset(&broken, SIGIO);
	sigprocmask(SIG_BLOCK, &broken, NULL);
	/* A process that a test beside this one starts may hold the file until its exec. */
	for (int tries = 0; fd < 0 || fcntl(fd, F_SETLEASE, is_read ? F_RDLCK : F_WRLCK); tries++) {
		if (fd < 0 || errno != EAGAIN || tries == 6000) {
			perror("lease");
			return 125;
		}
		usleep(10000);
	}
	puts("held");
	fflush(stdout);
	sigwaitinfo(&broken, NULL);
	puts("broken");
	fflush(stdout);
	/* An open that does not wait fails meanwhile, however often it is tried. */
	usleep(200000);
	if (argc > 3 && pwrite(fd, argv[3], strlen(argv[3]), 0) < 0)
		perror("lease");
	return fcntl(fd, F_SETLEASE, F_UNLCK) ? 1 : 0;
}
