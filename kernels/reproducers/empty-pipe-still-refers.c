/* A pipe that has been emptied by splice(2) into another pipe says so (FIONREAD 0), and the page still belongs to a
 * reader: a store after that is data corruption. No call reports when the page is free. (splice_pipe_to_pipe of fs/splice.c)
 * Exit status: 0 the store shows in the second pipe, 1 it does not, 2 a call is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
	int first[2], second[2], left = -1;
	char got, *page = aligned_alloc(4096, 4096);
	struct iovec piece = { .iov_base = page, .iov_len = 4096 };

	memset(page, 'a', 4096);
	if (pipe(first) || pipe(second) || vmsplice(first[1], &piece, 1, 0) != 4096 ||
	    splice(first[0], NULL, second[1], NULL, 4096, 0) != 4096) {
		perror("vmsplice, splice");
		return 2;
	}
	ioctl(first[1], FIONREAD, &left);
	memset(page, 'b', 4096);
	if (read(second[0], &got, 1) != 1)
		return 2;
	printf("first pipe holds %d bytes; then stored 'b': the second pipe's reader gets '%c'\n", left, got);
	return left == 0 && got == 'b' ? 0 : 1;
}
