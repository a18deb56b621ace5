/* A faulty file system for one process tree, preloaded: the n-th call on a file below a folder fails, and maybe all
   after it. Set by DISK_ROOT and by disk_fault(kinds, after, code, lasting, done); tools/reliability/disk.py drives it.
   Kinds: 1 write, 2 fsync, 4 rename, 8 flock. `done`: the call is made, and fails all the same, as NFS does when its
   answer was lost. A code of 0 is no failure: the write takes half of what it is given, as POSIX allows. The count is
   shared by the children of the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct state { int kinds, after, code, lasting, done, count; };
static struct state *now;

static struct state *state(void) {
  if (!now) now = mmap(0, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return now;
}

void disk_fault(int kinds, int after, int code, int lasting, int done) {
  struct state set = {kinds, after, code, lasting, done, 0};
  *state() = set;
}

int disk_count(void) { return state()->count; }

static int below(const char *path) {
  const char *root = getenv("DISK_ROOT");
  return root && !strncmp(path, root, strlen(root));
}

static int fails(int kind) {
  struct state *s = state();
  if (!(s->kinds & kind)) return 0;
  int number = __sync_add_and_fetch(&s->count, 1);
  if (number != s->after + 1 && !(s->lasting && number > s->after)) return 0;
  errno = s->code;
  return 1;
}

static int fails_on(int descriptor, int kind) {
  char link[64], path[PATH_MAX];
  if (!(state()->kinds & kind)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return below(path) && fails(kind);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *data, size_t size) {
  if (!fails_on(descriptor, 1)) return REAL(write)(descriptor, data, size);
  return state()->code ? -1 : REAL(write)(descriptor, data, size > 1 ? size / 2 : size);
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
  return state()->code && fails_on(fileno(file), 1) ? 0 : REAL(fwrite)(data, size, count, file);
}

int fsync(int descriptor) { return fails_on(descriptor, 2) ? -1 : REAL(fsync)(descriptor); }

int rename(const char *from, const char *to) {
  if (!below(to) || !fails(4)) return REAL(rename)(from, to);
  int code = errno;
  if (state()->done) REAL(rename)(from, to);
  errno = code;
  return -1;
}

int flock(int descriptor, int operation);
int flock(int descriptor, int operation) {
  return fails_on(descriptor, 8) ? -1 : REAL(flock)(descriptor, operation);
}
