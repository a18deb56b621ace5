/* A wall clock that is set back and forth: each look at it is up to ten years off. Preloaded by clocks.py. The
   monotonic clock stays as it is, as when a machine's clock is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
  static unsigned long state = 88172645463325252UL;
  unsigned long x = state;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  state = x;
  return (long)(x % 630720001UL) - 315360000L;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec *to) {
  int found = REAL(clock_gettime)(clock, to);
  if (!found && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) to->tv_sec += shift();
  return found;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
  int found = REAL(gettimeofday)(to, zone);
  if (!found) to->tv_sec += shift();
  return found;
}

time_t time(time_t *to) {
  time_t found = REAL(time)(NULL) + shift();
  if (to) *to = found;
  return found;
}
