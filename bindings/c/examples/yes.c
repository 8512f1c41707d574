/* Prints "y" COUNT times without copying it: yes COUNT | reader */
#include <gush.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    size_t left = 2 * (size_t)(argc > 1 ? strtoull(argv[1], NULL, 10) : 10);
    struct gush_error error;
    struct gush_reservoir *reservoir;

    if (gush_reservoir_new("y\n", 2, 65536, &reservoir, &error) != GUSH_STATUS_OK) {
        fprintf(stderr, "yes: %s\n", error.message);
        return 1;
    }
    while (left > 0) {
        size_t poured;

        if (gush_reservoir_pour(reservoir, 1, left, &poured, &error) != GUSH_STATUS_OK) {
            fprintf(stderr, "yes: %s\n", error.message);
            gush_reservoir_free(reservoir);
            return 1;
        }
        left -= poured;
    }
    gush_reservoir_free(reservoir);
    return 0;
}
