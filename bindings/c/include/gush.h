/* gush: moves bytes between file descriptors by the fastest sound way. Linux only.
 * Made from the comments in bindings/c/src: do not edit. */

#ifndef GUSH_H
#define GUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The outcome of a call.
 */
typedef enum gush_status {
  /**
   * All went well.
   */
  GUSH_STATUS_OK = 0,
  /**
   * A system call failed: `os_errno` and `operation` say which and why.
   */
  GUSH_STATUS_FAILED = 1,
  /**
   * The method asked for by name cannot serve these descriptors. Nothing has moved.
   */
  GUSH_STATUS_REFUSED = 2,
  /**
   * `on_progress` answered false.
   */
  GUSH_STATUS_STOPPED = 3,
  /**
   * An argument is wrong: a null pointer, a negative descriptor, an unknown method, overlapping ranges of one file, an
   * offset in a pipe. Nothing has moved.
   */
  GUSH_STATUS_INVALID = 4,
  /**
   * A fault of gush itself. Free the handle, and report the fault.
   */
  GUSH_STATUS_PANICKED = 5,
} gush_status;

/**
 * The side of a move that an error is about.
 */
typedef enum gush_side {
  /**
   * Neither, or both.
   */
  GUSH_SIDE_NONE = 0,
  /**
   * The descriptor that is read.
   */
  GUSH_SIDE_SOURCE = 1,
  /**
   * The descriptor that is written.
   */
  GUSH_SIDE_TARGET = 2,
} gush_side;

/**
 * What becomes of holes in a file that is copied to a file.
 */
typedef enum gush_holes {
  /**
   * Holes stay holes.
   */
  GUSH_HOLES_KEEP = 0,
  /**
   * Each block of zeros becomes a hole.
   */
  GUSH_HOLES_MAKE = 1,
  /**
   * Every byte is written.
   */
  GUSH_HOLES_FILL = 2,
} gush_holes;

/**
 * One pattern, written into pipes again and again without a copy.
 */
typedef struct gush_reservoir gush_reservoir;

/**
 * Writes into a pipe faster than write, and into anything else by write. The reader sees the bytes as they were
 * when they were written, however long it keeps them.
 */
typedef struct gush_writer gush_writer;

/**
 * A moment of a move.
 */
typedef struct gush_progress {
  /**
   * The bytes that have arrived so far.
   */
  uint64_t bytes;
  /**
   * The bytes expected in all, 0 if unknown.
   */
  uint64_t expected_bytes;
  /**
   * Nanoseconds since the move began.
   */
  uint64_t elapsed_ns;
} gush_progress;

/**
 * The options of a move. All zeros are the defaults: `struct gush_options options = {0};`
 */
typedef struct gush_options {
  /**
   * The method to use or to refuse, such as "splice"; null lets gush choose.
   */
  const char *method;
  /**
   * The most bytes to move; null means all, up to the end of the source.
   */
  const uint64_t *length_bytes;
  /**
   * The offset to read from; null means the source's position, which then moves.
   */
  const uint64_t *source_offset_bytes;
  /**
   * The offset to write to; null means the target's position, which then moves.
   */
  const uint64_t *target_offset_bytes;
  /**
   * The most bytes a second; 0 means no limit.
   */
  uint64_t rate_bytes_per_second;
  /**
   * Threads for one large file; 0 lets gush choose.
   */
  uint32_t threads;
  /**
   * One of `enum gush_holes`.
   */
  uint32_t holes;
  /**
   * Never let a later write to the source file show in bytes already sent to a pipe or socket.
   */
  bool isolated;
  /**
   * The target, a file, ends where the move ends.
   */
  bool replace;
  /**
   * Called at least ten times a second, on the thread that called `gush_copy`; false ends the move. Null if nobody wants
   * to know. No exception and no longjmp may leave this function.
   */
  bool (*on_progress)(void *context, const struct gush_progress *progress);
  /**
   * Handed to `on_progress`.
   */
  void *context;
  /**
   * For later versions: zeros.
   */
  uint64_t reserved[8];
} gush_options;

/**
 * Why a call failed.
 */
typedef struct gush_error {
  /**
   * The same value that the function returned.
   */
  enum gush_status status;
  /**
   * The errno of the failed system call, 0 if none failed.
   */
  int os_errno;
  /**
   * The side that the error is about.
   */
  enum gush_side side;
  /**
   * The bytes that had arrived at the target.
   */
  uint64_t delivered_bytes;
  /**
   * The bytes that were taken from a pipe or socket, and are lost because the target took no more.
   */
  uint64_t in_flight_bytes;
  /**
   * The name of the failed system call, "" if there is none. Ends with a null byte.
   */
  char operation[32];
  /**
   * One sentence for the user, in English. Ends with a null byte.
   */
  char message[256];
} gush_error;

/**
 * The account of a move.
 */
typedef struct gush_report {
  /**
   * The bytes that the target gained, holes included.
   */
  uint64_t bytes;
  /**
   * The holes among them.
   */
  uint64_t hole_bytes;
  /**
   * The time that the move took, in nanoseconds.
   */
  uint64_t elapsed_ns;
  /**
   * The method that moved most of the bytes, "" if there were none. Ends with a null byte.
   */
  char method[32];
  /**
   * Why the move ended early; its status is `GUSH_STATUS_OK` if the move did not.
   */
  struct gush_error error;
} gush_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0".
 */
const char *gush_version(void);

/**
 * Moves bytes from one descriptor to another, up to the end of the source, waiting as needed.
 *
 * `options` may be null for the defaults, and `report` may be null if nobody wants to know. Without offsets the
 * descriptors' positions move, as with read and write. Descriptors stay open.
 *
 * A pipe whose reader has left raises SIGPIPE, as write does, and so does a socket where splice or sendfile is used; with the
 * signal ignored the error is EPIPE.
 *
 * # Safety
 * Both descriptors stay open until the function returns. Each pointer is null or valid.
 */
enum gush_status gush_copy(int source_fd,
                           int target_fd,
                           const struct gush_options *options,
                           struct gush_report *report);

/**
 * A reservoir of a pattern, in `*reservoir`. The pattern is copied. `pipe_bytes` is the size of its private pipe, such
 * as 65536; the pattern has to fit in.
 *
 * # Safety
 * So many bytes of the pattern may be read. `reservoir` and `error` are null or may be written.
 */
enum gush_status gush_reservoir_new(const void *pattern,
                                    uintptr_t pattern_bytes,
                                    uintptr_t pipe_bytes,
                                    struct gush_reservoir **reservoir,
                                    struct gush_error *error);

/**
 * How many bytes one call pours at most; 0 for null.
 *
 * # Safety
 * `reservoir` is null or a reservoir.
 */
uint64_t gush_reservoir_held_bytes(const struct gush_reservoir *reservoir);

/**
 * Pours at most `most_bytes` into the pipe `fd`, waiting for room. `*poured_bytes` is how many, and may be fewer; the pattern goes
 * on there with the next call.
 *
 * # Safety
 * `reservoir` is a reservoir that no other thread uses now. The descriptor stays open meanwhile, and the places may be
 * written.
 */
enum gush_status gush_reservoir_pour(struct gush_reservoir *reservoir,
                                     int fd,
                                     uintptr_t most_bytes,
                                     uintptr_t *poured_bytes,
                                     struct gush_error *error);

/**
 * As `gush_reservoir_pour`, but fails with EAGAIN in `os_errno` where the pipe is full.
 *
 * # Safety
 * As `gush_reservoir_pour`.
 */
enum gush_status gush_reservoir_try_pour(struct gush_reservoir *reservoir,
                                         int fd,
                                         uintptr_t most_bytes,
                                         uintptr_t *poured_bytes,
                                         struct gush_error *error);

/**
 * Frees a reservoir, or nothing if it is null.
 *
 * # Safety
 * `reservoir` is null or a reservoir, and never used again.
 */
void gush_reservoir_free(struct gush_reservoir *reservoir);

/**
 * A writer into `fd`, in `*writer`. The descriptor is borrowed, and stays open.
 *
 * # Safety
 * The descriptor stays open until the writer is freed. `error` is null or may be written.
 */
enum gush_status gush_writer_new(int fd, struct gush_writer **writer, struct gush_error *error);

/**
 * Writes all bytes. Small pieces are collected: `gush_writer_flush` sends them. After an error the stream is cut.
 *
 * # Safety
 * `writer` is a writer that no other thread uses now. So many bytes may be read.
 */
enum gush_status gush_writer_write(struct gush_writer *writer,
                                   const void *data,
                                   uintptr_t len_bytes,
                                   struct gush_error *error);

/**
 * Sends the pieces that were collected.
 *
 * # Safety
 * `writer` is a writer that no other thread uses now.
 */
enum gush_status gush_writer_flush(struct gush_writer *writer, struct gush_error *error);

/**
 * Memory to fill in place, in `*memory` and `*len_bytes`: `gush_writer_commit` sends it without a copy. The memory belongs to
 * the writer, its content is undefined, and it is valid until the commit. Asked again before, the function gives
 * the same memory.
 *
 * # Safety
 * `writer` is a writer that no other thread uses now. Both places may be written.
 */
enum gush_status gush_writer_buffer(struct gush_writer *writer,
                                    void **memory,
                                    uintptr_t *len_bytes,
                                    struct gush_error *error);

/**
 * Sends the first bytes of the memory that `gush_writer_buffer` gave, after the pieces that were collected. The memory must not
 * be touched again.
 *
 * # Safety
 * `writer` is a writer that no other thread uses now.
 */
enum gush_status gush_writer_commit(struct gush_writer *writer,
                                    uintptr_t len_bytes,
                                    struct gush_error *error);

/**
 * Frees a writer, or nothing if it is null. Pieces that were not flushed are lost.
 *
 * # Safety
 * `writer` is null or a writer, and never used again.
 */
void gush_writer_free(struct gush_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GUSH_H */
