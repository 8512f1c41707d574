/* copy_file_range(2) of a file in procfs moves nothing and answers 0, as at the end of a file, although read(2) gives
 * bytes: only a read that answers 0 proves an end. (generic_copy_file_checks of fs/read_write.c: the size is 0)
 * Exit status: 0 it answers 0, 1 it does not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>

int main(void)
{
	char byte;
	int source = open("/proc/version", O_RDONLY), other = open("/proc/self/comm", O_RDWR);
	ssize_t copied, got;

	copied = copy_file_range(source, NULL, other, NULL, 4096, 0);
	got = read(source, &byte, 1);
	printf("copy_file_range: %zd (%s); read: %zd\n", copied, copied < 0 ? strerror(errno) : "no error", got);
	return copied == 0 && got == 1 ? 0 : 1;
}
