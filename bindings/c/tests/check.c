/* Everything the header promises, and every wrong argument. Ends with 0 and "checked", or names the line that is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gush.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(holds)                                                                                    \
    do {                                                                                                \
        if (!(holds)) {                                                                                 \
            fprintf(stderr, "check.c:%d: %s\n", __LINE__, #holds);                                      \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

static int file_of(const char *text)
{
    char name[] = "/tmp/gush-check-XXXXXX";
    int fd = mkstemp(name);

    CHECK(fd >= 0 && unlink(name) == 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text) && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void holds(int fd, const char *text)
{
    char room[256] = {0};

    CHECK(pread(fd, room, sizeof room - 1, 0) == (ssize_t)strlen(text) && strcmp(room, text) == 0);
}

static bool end_it(void *context, const struct gush_progress *progress)
{
    *(uint64_t *)context = progress->bytes;
    return false;
}

static bool count_it(void *context, const struct gush_progress *progress)
{
    *(uint64_t *)context = progress->bytes;
    return true;
}

static void copies(void)
{
    int source = file_of("hello, world"), target = file_of("");
    uint64_t from = 7, length = 5, seen = 0, none = 0;
    struct gush_options options = {0};
    struct gush_report report;

    CHECK(gush_copy(source, target, NULL, NULL) == GUSH_STATUS_OK);
    holds(target, "hello, world");
    CHECK(lseek(source, 0, SEEK_CUR) == 12 && lseek(target, 0, SEEK_CUR) == 12);

    /* Offsets leave the positions alone. */
    options.source_offset_bytes = &from;
    options.target_offset_bytes = &none;
    options.length_bytes = &length;
    options.replace = true;
    options.method = "read-write";
    options.on_progress = count_it;
    options.context = &seen;
    CHECK(gush_copy(source, target, &options, &report) == GUSH_STATUS_OK);
    holds(target, "world");
    CHECK(report.bytes == 5 && report.hole_bytes == 0 && seen == 5 && report.elapsed_ns > 0);
    CHECK(strcmp(report.method, "read-write") == 0 && report.error.status == GUSH_STATUS_OK);
    CHECK(report.error.os_errno == 0 && report.error.message[0] == 0);
    CHECK(lseek(source, 0, SEEK_CUR) == 12 && lseek(target, 0, SEEK_CUR) == 12);
    close(source);
    close(target);
}

static void failures_of_a_copy(void)
{
    int file = file_of("abc"), full = open("/dev/full", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
    int null = open("/dev/null", O_WRONLY), ends[2];
    uint64_t offset = 1, length = 10, seen = 0;
    struct gush_options options = {0};
    struct gush_report report;

    CHECK(full >= 0 && zero >= 0 && null >= 0 && pipe(ends) == 0);
    CHECK(gush_copy(file, full, NULL, &report) == GUSH_STATUS_FAILED);
    CHECK(report.error.os_errno == ENOSPC && report.error.side == GUSH_SIDE_TARGET);
    CHECK(strcmp(report.error.operation, "write") == 0 && report.error.delivered_bytes == 0);
    CHECK(strcmp(report.error.message, "write failed on the target: ENOSPC") == 0);

    /* What was taken from a pipe and not delivered is counted. */
    CHECK(write(ends[1], "taken", 5) == 5 && close(ends[1]) == 0);
    CHECK(gush_copy(ends[0], full, NULL, &report) == GUSH_STATUS_FAILED);
    CHECK(report.error.in_flight_bytes == 5 && report.bytes == 0);
    close(ends[0]);

    CHECK(gush_copy(null, full, NULL, &report) == GUSH_STATUS_FAILED);
    CHECK(report.error.os_errno == EBADF && report.error.side == GUSH_SIDE_SOURCE);
    CHECK(gush_copy(-1, null, NULL, &report) == GUSH_STATUS_INVALID);
    CHECK(strstr(report.error.message, "source") != NULL && report.error.os_errno == 0);
    CHECK(gush_copy(zero, -7, NULL, NULL) == GUSH_STATUS_INVALID);
    CHECK(gush_copy(zero, 1000000, NULL, &report) == GUSH_STATUS_FAILED);
    CHECK(report.error.os_errno == EBADF && report.error.side == GUSH_SIDE_TARGET);

    options.method = "teleport";
    CHECK(gush_copy(file, null, &options, &report) == GUSH_STATUS_INVALID);
    CHECK(strstr(report.error.message, "teleport") != NULL);
    options.method = "reflink";
    CHECK(gush_copy(file, null, &options, &report) == GUSH_STATUS_REFUSED);
    options.method = NULL;
    options.holes = 3;
    CHECK(gush_copy(file, null, &options, &report) == GUSH_STATUS_INVALID);
    options.holes = GUSH_HOLES_FILL;
    options.reserved[7] = 1;
    CHECK(gush_copy(file, null, &options, &report) == GUSH_STATUS_INVALID);
    options.reserved[7] = 0;

    /* An offset where there is none, and a file onto itself. */
    CHECK(pipe(ends) == 0);
    options.target_offset_bytes = &offset;
    CHECK(gush_copy(file, ends[1], &options, &report) == GUSH_STATUS_INVALID);
    CHECK(report.error.side == GUSH_SIDE_TARGET);
    options.source_offset_bytes = &seen;
    CHECK(gush_copy(file, file, &options, &report) == GUSH_STATUS_INVALID);
    options.target_offset_bytes = options.source_offset_bytes = NULL;

    options.on_progress = end_it;
    options.context = &seen;
    CHECK(gush_copy(zero, null, &options, &report) == GUSH_STATUS_STOPPED);
    CHECK(seen > 0 && report.bytes == report.error.delivered_bytes && report.bytes >= seen);

    options.on_progress = NULL;
    options.length_bytes = &length;
    CHECK(gush_copy(zero, null, &options, &report) == GUSH_STATUS_OK && report.bytes == 10);
    close(ends[0]);
    close(ends[1]);
    close(file);
    close(full);
    close(zero);
    close(null);
}

static void writers(void)
{
    int ends[2];
    char got[16] = {0};
    void *memory = NULL, *again = NULL;
    size_t room_bytes = 0;
    struct gush_writer *writer = NULL;
    struct gush_error error;

    CHECK(pipe(ends) == 0);
    CHECK(gush_writer_new(ends[1], &writer, &error) == GUSH_STATUS_OK && writer != NULL);
    CHECK(gush_writer_write(writer, "abc", 3, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_buffer(writer, &memory, &room_bytes, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_buffer(writer, &again, &room_bytes, NULL) == GUSH_STATUS_OK && again == memory);
    CHECK(room_bytes >= 4096);
    CHECK(gush_writer_commit(writer, room_bytes + 1, &error) == GUSH_STATUS_INVALID);
    memcpy(memory, "def", 3);
    CHECK(gush_writer_commit(writer, 3, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_commit(writer, 1, &error) == GUSH_STATUS_INVALID);
    CHECK(gush_writer_write(writer, "ghi", 3, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_write(writer, NULL, 0, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_write(writer, NULL, 1, &error) == GUSH_STATUS_INVALID);
    CHECK(gush_writer_flush(writer, &error) == GUSH_STATUS_OK);
    CHECK(read(ends[0], got, sizeof got) == 9 && strcmp(got, "abcdefghi") == 0);

    close(ends[0]);
    CHECK(gush_writer_write(writer, "lost", 4, &error) == GUSH_STATUS_OK);
    CHECK(gush_writer_flush(writer, &error) == GUSH_STATUS_FAILED && error.os_errno == EPIPE);
    CHECK(strcmp(error.operation, "write") == 0 && error.side == GUSH_SIDE_TARGET);
    CHECK(strncmp(error.message, "write failed on the target: Broken pipe", 39) == 0);
    CHECK(gush_writer_write(writer, "late", 4, &error) == GUSH_STATUS_FAILED);
    CHECK(error.os_errno == EIO && strstr(error.message, "after the failed write") != NULL);
    gush_writer_free(writer);
    close(ends[1]);

    CHECK(pipe(ends) == 0);
    CHECK(gush_writer_new(ends[0], &writer, &error) == GUSH_STATUS_FAILED && writer == NULL);
    CHECK(error.os_errno == EBADF && strcmp(error.operation, "write") == 0);
    close(ends[0]);
    close(ends[1]);

    CHECK(gush_writer_new(-1, &writer, &error) == GUSH_STATUS_INVALID && writer == NULL);
    CHECK(gush_writer_new(1, NULL, &error) == GUSH_STATUS_INVALID);
    CHECK(gush_writer_write(NULL, "x", 1, &error) == GUSH_STATUS_INVALID);
    CHECK(gush_writer_flush(NULL, NULL) == GUSH_STATUS_INVALID);
    CHECK(gush_writer_commit(NULL, 1, &error) == GUSH_STATUS_INVALID);
    gush_writer_free(NULL);
}

static void reservoirs(void)
{
    int ends[2], file = file_of("");
    char got[16] = {0};
    size_t poured = 99;
    struct gush_reservoir *reservoir = NULL;
    struct gush_error error;
    struct rlimit before, none;

    CHECK(pipe(ends) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(gush_reservoir_new("abc", 3, 65536, &reservoir, &error) == GUSH_STATUS_FAILED);
    CHECK(error.os_errno == EMFILE && strstr(error.message, "the pipe of the reservoir: ") != NULL);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(gush_reservoir_new("abc", 3, 65536, &reservoir, &error) == GUSH_STATUS_OK);
    CHECK(gush_reservoir_held_bytes(reservoir) >= 3 && gush_reservoir_held_bytes(NULL) == 0);
    CHECK(gush_reservoir_pour(reservoir, ends[1], 4, &poured, &error) == GUSH_STATUS_OK && poured == 4);
    CHECK(gush_reservoir_try_pour(reservoir, ends[1], 2, &poured, &error) == GUSH_STATUS_OK && poured == 2);
    CHECK(read(ends[0], got, sizeof got) == 6 && strcmp(got, "abcabc") == 0);
    while (gush_reservoir_try_pour(reservoir, ends[1], 1 << 20, &poured, &error) == GUSH_STATUS_OK)
        ;
    CHECK(error.os_errno == EAGAIN && poured == 0);
    CHECK(strcmp(error.operation, "tee") == 0 || strcmp(error.operation, "write") == 0);
    CHECK(gush_reservoir_pour(reservoir, file, 4, &poured, &error) == GUSH_STATUS_FAILED);
    CHECK(gush_reservoir_pour(reservoir, ends[1], 4, NULL, &error) == GUSH_STATUS_INVALID);
    CHECK(gush_reservoir_pour(NULL, ends[1], 4, &poured, &error) == GUSH_STATUS_INVALID);
    gush_reservoir_free(reservoir);
    gush_reservoir_free(NULL);
    CHECK(gush_reservoir_new("", 0, 65536, &reservoir, &error) == GUSH_STATUS_INVALID && reservoir == NULL);
    close(ends[0]);
    close(ends[1]);
    close(file);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    CHECK(strchr(gush_version(), '.') != NULL);
    copies();
    failures_of_a_copy();
    writers();
    reservoirs();
    puts("checked");
    return 0;
}
