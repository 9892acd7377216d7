// Preloaded: a disk that takes no status.json as long as the file HOLD_SYNC is there; HOLD_SYNC.held tells of the first
// one that waits.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int file) {
  static int (*next)(int);
  if (next == NULL) next = dlsym(RTLD_NEXT, "fsync");
  char link[64], path[4096] = "", held[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const char* hold = getenv("HOLD_SYNC");
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/status.json") != NULL && access(hold, F_OK) == 0) {
    snprintf(held, sizeof held, "%s.held", hold);
    close(creat(held, 0644));
    while (access(hold, F_OK) == 0) usleep(1000);
  }
  return next(file);
}
