/*
 * Loaded into a process by scripts/faults (LD_PRELOAD): one of its writes to a file stores only the first half of its
 * bytes and says so, as the system may whenever it likes. FAULT_AT says which write of the process that is, counted from
 * one. With FAULT_THEN=ENOSPC every later write fails: the half was the last that the disk had room for. When it happens,
 * the file FAULT_LOG is made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long at;
static int full_afterwards;
static const char *log_path;
static atomic_long count;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FAULT_AT"), *then = getenv("FAULT_THEN");
    at = text ? atol(text) : 0;
    full_afterwards = then && strcmp(then, "ENOSPC") == 0;
    log_path = getenv("FAULT_LOG");
}

enum verdict { WHOLE, HALF, FAIL };

/* What becomes of this write. Pipes, terminals and sockets are left alone. */
static enum verdict judge(int fd, size_t bytes) {
    struct stat seen;
    if (at == 0 || fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode)) {
        return WHOLE;
    }
    long number = atomic_fetch_add(&count, 1) + 1;
    if (number < at || (number > at && !full_afterwards)) {
        return WHOLE;
    }
    if (number == at && log_path) {
        int made = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (made >= 0) {
            close(made);
        }
    }
    /* Of a single byte there is no half. */
    return number == at && bytes > 1 ? HALF : full_afterwards ? FAIL : WHOLE;
}

static ssize_t no_space(void) {
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *from, size_t bytes) {
    switch (judge(fd, bytes)) {
    case FAIL: return no_space();
    case HALF: return syscall(SYS_write, fd, from, bytes / 2);
    default: return syscall(SYS_write, fd, from, bytes);
    }
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t where) {
    switch (judge(fd, bytes)) {
    case FAIL: return no_space();
    case HALF: return syscall(SYS_pwrite64, fd, from, bytes / 2, where);
    default: return syscall(SYS_pwrite64, fd, from, bytes, where);
    }
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t where) {
    return pwrite64(fd, from, bytes, where);
}

static size_t total(const struct iovec *parts, int number) {
    size_t bytes = 0;
    for (int part = 0; part < number; part++) {
        bytes += parts[part].iov_len;
    }
    return bytes;
}

/* Half of the first part that holds something. */
static struct iovec half_of(const struct iovec *parts, int number) {
    for (int part = 0; part < number; part++) {
        if (parts[part].iov_len > 0) {
            return (struct iovec){parts[part].iov_base, (parts[part].iov_len + 1) / 2};
        }
    }
    return (struct iovec){0};
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    struct iovec half = half_of(parts, number);
    switch (judge(fd, total(parts, number))) {
    case FAIL: return no_space();
    case HALF: return syscall(SYS_write, fd, half.iov_base, half.iov_len);
    default: return syscall(SYS_writev, fd, parts, number);
    }
}

ssize_t pwritev64(int fd, const struct iovec *parts, int number, off64_t where) {
    struct iovec half = half_of(parts, number);
    switch (judge(fd, total(parts, number))) {
    case FAIL: return no_space();
    case HALF: return syscall(SYS_pwrite64, fd, half.iov_base, half.iov_len, where);
    default: return syscall(SYS_pwritev, fd, parts, number, where, 0);
    }
}

ssize_t pwritev(int fd, const struct iovec *parts, int number, off_t where) {
    return pwritev64(fd, parts, number, where);
}
