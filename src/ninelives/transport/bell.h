/* Doorbells between processes: shared 32-bit words to look at, an eventfd (or pipe) to sleep on.
 *
 * Shared by transport/_exchange.c and worker/_loop.c; in pure Python: exchange.py (parent) and worker/loop.py (worker).
 *
 * The pattern is the same on both sides and never loses a wake-up:
 *
 *     sleeper                                   ringer
 *     asleep = 1                (seq_cst)       publish the work      (seq_cst)
 *     look once more for work   (seq_cst)       if asleep: write(fd)  (seq_cst)
 *     none: poll(fd)
 *
 * Either the sleeper's last look sees the work, or the ringer sees asleep = 1. Sequential consistency on both words is
 * what makes "neither" impossible; weaker orders would allow it, even on x86.
 */
#ifndef NINELIVES_BELL_H
#define NINELIVES_BELL_H

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define LOAD(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)

/* Words of one 64-byte line (16 x u32); transport/control.py names the same columns. */
enum { PARENT_ASLEEP = 0, PARENT_WAKE_AT = 1, PARENT_COMPLETED = 2 };           /* parent: written by the parent,   */
                                                                                /* COMPLETED by workers (atomic add) */
enum { TO_STOP = 0 };                                                           /* to_worker: written by the parent */
enum { FROM_ASLEEP = 0, FROM_PHASE = 1, FROM_SLOT = 2 };                        /* from_worker: by that worker only */
enum { GROUP_SENT = 0, GROUP_DONE = 1, GROUP_ATTENTION = 2 };                   /* group: SENT by the parent, rest  */
                                                                                /* by the group's worker            */
#define WORDS 16

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static inline uint64_t monotonic_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Eight bytes suit an eventfd and, where there is none, a non-blocking pipe: a full pipe already means "ring". */
static inline void ring(int fd) {
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

static inline void drain(int fd) {
    char bytes[512];
    ssize_t ignored = read(fd, bytes, sizeof bytes);
    (void)ignored;
}

#endif
