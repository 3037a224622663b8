/* A disk as most machines have it, for both sides alike: every wait for it takes SLOW_DISK_MS more. Preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_more(void) {
    const char *told = getenv("SLOW_DISK_MS");
    long ms = told ? atol(told) : 0;
    struct timespec span = {ms / 1000, (ms % 1000) * 1000000};
    nanosleep(&span, 0);
}

int fsync(int file) {
    wait_more();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    wait_more();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
