/* splice(2) into a file opened with O_APPEND is EINVAL, of a pipe or through sendfile(2); write(2) works.
 * (vfs_splice_from's callers check O_APPEND in fs/splice.c; splice(2))
 * Exit status: 0 EINVAL, 1 something else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	char name[] = "/tmp/reproduce-XXXXXX";
	int ends[2], file = mkstemp(name), appending = open(name, O_WRONLY | O_APPEND);
	ssize_t moved;

	unlink(name);
	if (file < 0 || appending < 0 || pipe(ends) || write(ends[1], "x", 1) != 1)
		return 2;
	moved = splice(ends[0], NULL, appending, NULL, 1, 0);
	printf("splice: %zd (%s)\n", moved, moved < 0 ? strerror(errno) : "no error");
	if (moved < 0 && (errno == ENOSYS || errno == EPERM))
		return 2;
	return moved < 0 && errno == EINVAL ? 0 : 1;
}
