/* A store after vmsplice(2) shows through the pipe: the pipe refers to the caller's page, and nothing informs the caller
 * when the last reference is gone. (vmsplice(2); iter_to_pipe of fs/splice.c)
 * Exit status: 0 the later store shows, 1 vmsplice copied, 2 vmsplice is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
	int ends[2];
	char got, *page = aligned_alloc(4096, 4096);
	struct iovec piece = { .iov_base = page, .iov_len = 4096 };

	memset(page, 'a', 4096);
	if (pipe(ends) || vmsplice(ends[1], &piece, 1, 0) != 4096) {
		perror("vmsplice");
		return 2;
	}
	memset(page, 'b', 4096);
	if (read(ends[0], &got, 1) != 1)
		return 2;
	printf("written 'a', then stored 'b': read '%c'\n", got);
	return got == 'b' ? 0 : 1;
}
