// Preloaded: kills the process just before the KILL_AT-th change of a name below the folder KILL_BELOW (a rename, or
// the removal of a file), counted from its first rename on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int changes;

static void before_change(const char* path, int is_rename) {
  const char* below = getenv("KILL_BELOW");
  if (below == NULL || strncmp(path, below, strlen(below)) != 0) return;
  if (!is_rename && atomic_load(&changes) == 0) return;
  if (atomic_fetch_add(&changes, 1) + 1 == atoi(getenv("KILL_AT"))) kill(getpid(), SIGKILL);
}

int rename(const char* from, const char* to) {
  static int (*next)(const char*, const char*);
  if (next == NULL) next = dlsym(RTLD_NEXT, "rename");
  before_change(to, 1);
  return next(from, to);
}

int unlinkat(int folder, const char* name, int flags) {
  static int (*next)(int, const char*, int);
  if (next == NULL) next = dlsym(RTLD_NEXT, "unlinkat");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t size = folder == AT_FDCWD ? -1 : readlink(link, path, sizeof path - 1);
  if (size >= 0) path[size] = 0;
  before_change(size >= 0 ? path : name, 0);
  return next(folder, name, flags);
}
