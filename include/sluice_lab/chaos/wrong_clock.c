/* Tells a process another time of day. The clocks by which it waits stay right. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead; /* seconds */

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("SLUICE_CHAOS_CLOCK");
    ahead = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead;
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    long failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed) now->tv_sec += ahead;
    return (int)failed;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

/* Who waits until a time of day computed it by the wrong clock. glibc marks a condition that has the other
 * clock (pthread_condattr_setclock) by this bit. */
#define WAITS_BY_MONOTONIC 2

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec right = *until;
    if (!(condition->__data.__wrefs & WAITS_BY_MONOTONIC)) right.tv_sec -= ahead;
    return real(condition, mutex, &right);
}
