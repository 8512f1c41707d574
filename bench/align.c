/* How fast the kernel fills a buffer that begins so many bytes after a page boundary: align FILE
 *
 * read(2) copies by `rep movsb` where the processor has fsrm (copy_user_generic of arch/x86/lib/copy_user_64.S), which AMD's
 * processors do at full speed only to an address that is a multiple of 32. malloc(3) returns large blocks 16 bytes after a page boundary. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static const int offsets[] = {0, 1, 16, 32, 64, 128};
	const size_t most = 128 << 10;
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	char *pages = mmap(NULL, 2 * most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (file < 0 || pages == MAP_FAILED) {
		fprintf(stderr, "usage: align FILE (of a gibibyte, on tmpfs)\n");
		return 1;
	}
	for (int round = 0; round < 5; round++) {
		for (unsigned at = 0; at < sizeof offsets / sizeof *offsets; at++) {
			double begun = now_s();
			off_t done = 0;
			ssize_t got;

			while ((got = pread(file, pages + offsets[at], most, done)) > 0)
				done += got;
			printf("%d bytes after a page boundary: %.2f GiB/s\n", offsets[at], done / (now_s() - begun) / (1 << 30));
		}
	}
	return 0;
}
