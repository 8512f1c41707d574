/* A file spliced into a pipe is shared with the page cache: bytes "sent" change when the file does.
 * (filemap_splice_read of mm/filemap.c)
 * Exit status: 0 the later write shows, 1 the kernel copied, 2 a call is refused. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	char name[] = "/tmp/reproduce-XXXXXX", got;
	int ends[2], file = mkstemp(name);
	loff_t at = 0;

	unlink(name);
	if (file < 0 || pwrite(file, "aaaa", 4, 0) != 4 || pipe(ends) ||
	    splice(file, &at, ends[1], NULL, 4, 0) != 4) {
		perror("splice");
		return 2;
	}
	if (pwrite(file, "b", 1, 0) != 1 || read(ends[0], &got, 1) != 1)
		return 2;
	printf("spliced 'a', then wrote 'b' to the file: read '%c'\n", got);
	return got == 'b' ? 0 : 1;
}
