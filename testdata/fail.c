/* A library for LD_PRELOAD that has what a program does with its source fail: with FAIL_AFTER=n, reads beyond n bytes
   of the regular file that is descriptor 3; with FAIL_OPEN=1, opening it anew. FAIL_ERRNO is what they fail with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failure(void) {
	const char *e = getenv("FAIL_ERRNO");
	return e ? atoi(e) : EIO;
}

static int is_source(int fd) {
	struct stat source, file;
	return fstat(3, &source) == 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
		file.st_ino == source.st_ino && file.st_dev == source.st_dev;
}

ssize_t read(int fd, void *buffer, size_t n) {
	static ssize_t (*real)(int, void *, size_t);
	if (!real) real = dlsym(RTLD_NEXT, "read");
	const char *after = getenv("FAIL_AFTER");
	if (after && is_source(fd)) {
		off_t at = lseek(fd, 0, SEEK_CUR);
		if (at >= atoll(after)) {
			errno = failure();
			return -1;
		}
		if (at + (off_t)n > atoll(after)) n = atoll(after) - at;
	}
	return real(fd, buffer, n);
}

static int opened(const char *name, int flags, va_list more, const char *symbol) {
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, symbol);
	if (getenv("FAIL_OPEN") && strncmp(name, "in", 2) == 0) {
		errno = failure();
		return -1;
	}
	return real(name, flags, flags & O_CREAT ? va_arg(more, mode_t) : 0);
}

int open(const char *name, int flags, ...) {
	va_list more;
	va_start(more, flags);
	int fd = opened(name, flags, more, "open");
	va_end(more);
	return fd;
}

int open64(const char *name, int flags, ...) {
	va_list more;
	va_start(more, flags);
	int fd = opened(name, flags, more, "open64");
	va_end(more);
	return fd;
}
