/* Prints numbered lines as fast as the reader of standard output takes them: lines COUNT */
#include <gush.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const struct gush_error *error)
{
    fprintf(stderr, "lines: %s\n", error->message);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned long long count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10, line = 1;
    struct gush_error error;
    struct gush_writer *writer;

    if (gush_writer_new(1, &writer, &error) != GUSH_STATUS_OK)
        return fail(&error);
    while (line <= count) {
        void *memory;
        size_t room_bytes, used_bytes = 0;

        if (gush_writer_buffer(writer, &memory, &room_bytes, &error) != GUSH_STATUS_OK)
            return fail(&error);
        for (; line <= count && room_bytes - used_bytes > 32; line++)
            used_bytes += (size_t)sprintf((char *)memory + used_bytes, "%llu\n", line);
        if (gush_writer_commit(writer, used_bytes, &error) != GUSH_STATUS_OK)
            return fail(&error);
    }
    if (gush_writer_flush(writer, &error) != GUSH_STATUS_OK)
        return fail(&error);
    gush_writer_free(writer);
    return 0;
}
