/* Copies standard input to standard output, and says how: copy <FILE >TARGET */
#include <errno.h>
#include <gush.h>
#include <stdio.h>

static bool show(void *context, const struct gush_progress *progress)
{
    fprintf(stderr, "%s: %llu bytes\n", (const char *)context, (unsigned long long)progress->bytes);
    return true; /* false would end the copy */
}

int main(void)
{
    struct gush_options options = {0};
    struct gush_report report;

    options.on_progress = show;
    options.context = "copy";
    if (gush_copy(0, 1, &options, &report) != GUSH_STATUS_OK) {
        fprintf(stderr, "copy: %s\n", report.error.message);
        return 1;
    }
    fprintf(stderr, "copy: moved %llu bytes by %s\n", (unsigned long long)report.bytes, report.method);
    return 0;
}
