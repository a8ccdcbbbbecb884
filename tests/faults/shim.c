/* Stands between a process and the C library, counts the calls on files below a folder, and lets one of them go wrong.

   Preloaded (LD_PRELOAD), so that files that Arrow and DuckDB write are met too. Nothing is counted before faults_arm.
   Where that is asked for it counts threads that are started in place of calls on files, or lets the clock jump.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    OPEN = 1, CREATE = 2, READ = 4, WRITE = 8, SYNC = 16, NAME = 32, REMOVE = 64, MAKE = 128, CUT = 256,
    START = 512, /* of a thread */
    CLOCK = 1024
};
enum fault { KILL = -1, SHORT = -2, TORN = -3, GONE = -4, SIGNAL = -100 };
/* else an errno; TORN: half of a write, then death; GONE: the subfolder `out` is removed; SIGNAL - n: signal n */

struct seen {
    long calls;      /* counted so far, of all processes that share this */
    long injected;   /* how often something went wrong */
    char where[600]; /* at which call first */
};

static struct seen *seen;
static char watched[4096];
static long step;
static int fault, kinds, lasting, armed;

struct seen *faults_seen(void) { return seen; }

void faults_arm(const char *folder, long at, int what, int which, int again) {
    snprintf(watched, sizeof watched, "%s", folder);
    step = at, fault = what, kinds = which, lasting = again;
    memset(seen, 0, sizeof *seen);
    armed = 1;
}

__attribute__((constructor)) static void begin(void) {
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int below(const char *path) { return strncmp(path, watched, strlen(watched)) == 0; }

static int is_watched(int folder, const char *path) {
    char link[64], found[4096];
    ssize_t size;
    if (!armed) return 0;
    if (path && path[0] == '/') return below(path);
    if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    size = readlink(link, found, sizeof found - 1);
    if (size < 0) return 0;
    found[size] = 0;
    return below(found);
}

static int remove_one(const char *path, const struct stat *is, int what, struct FTW *where) {
    (void)is, (void)what, (void)where;
    return remove(path), 0;
}

static void remove_out(void) {
    char out[4200];
    snprintf(out, sizeof out, "%sout", watched);
    armed = 0; /* what this does itself is no call of the run */
    nftw(out, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    armed = 1;
}

/* Count a call; whether it has to go wrong. A call of another kind than is asked for lets the next one go wrong. */
static int goes_wrong(enum kind kind, const char *name, int folder, const char *path) {
    int before = errno, wrong;
    long number;
    if ((kind != START && !is_watched(folder, path)) || (kind == START) != !!(kinds & START) || !armed) {
        errno = before;
        return 0;
    }
    number = __atomic_add_fetch(&seen->calls, 1, __ATOMIC_SEQ_CST);
    wrong = step > 0 && number >= step && (kind & kinds);
    if (wrong && __atomic_add_fetch(&seen->injected, 1, __ATOMIC_SEQ_CST) > 1 && !lasting) wrong = 0;
    if (wrong && !seen->where[0]) {
        char link[64], found[256] = "";
        ssize_t size;
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        size = folder >= 0 ? readlink(link, found, sizeof found - 1) : 0;
        found[size > 0 ? size : 0] = 0;
        snprintf(seen->where, sizeof seen->where, "call %ld: %s %s %s", number, name, found, path ? path : "");
    }
    if (wrong && fault == KILL) kill(getpid(), SIGKILL);
    if (wrong && fault == GONE) remove_out();
    if (wrong && fault <= SIGNAL) kill(getpid(), SIGNAL - fault);
    errno = before;
    return wrong;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
#define WRONG(kind, folder, path) (goes_wrong(kind, __func__, folder, path) && fault > 0)
#define FAIL(value) do { errno = fault; return value; } while (0)

/* --- names ------------------------------------------------------------------------------------------------------- */

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        MODE(flags) REAL(int, name, const char *, int, ...); \
        if (WRONG(flags & (O_CREAT | __O_TMPFILE) ? CREATE : OPEN, AT_FDCWD, path)) FAIL(-1); \
        return real(path, flags, mode); \
    }
#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        MODE(flags) REAL(int, name, int, const char *, int, ...); \
        if (WRONG(flags & (O_CREAT | __O_TMPFILE) ? CREATE : OPEN, folder, path)) FAIL(-1); \
        return real(folder, path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    if (WRONG(REMOVE, AT_FDCWD, path)) FAIL(-1);
    return real(path);
}
int rmdir(const char *path) {
    REAL(int, rmdir, const char *);
    if (WRONG(REMOVE, AT_FDCWD, path)) FAIL(-1);
    return real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    if (WRONG(REMOVE, folder, path)) FAIL(-1);
    return real(folder, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    if (WRONG(MAKE, AT_FDCWD, path)) FAIL(-1);
    return real(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    if (WRONG(MAKE, folder, path)) FAIL(-1);
    return real(folder, path, mode);
}
int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (WRONG(NAME, AT_FDCWD, to)) FAIL(-1);
    return real(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    if (WRONG(NAME, b, to)) FAIL(-1);
    return real(a, from, b, to);
}
int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    if (WRONG(NAME, AT_FDCWD, to)) FAIL(-1);
    return real(from, to);
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    if (WRONG(NAME, b, to)) FAIL(-1);
    return real(a, from, b, to, flags);
}

/* --- contents ---------------------------------------------------------------------------------------------------- */

#define READS(name, ...) \
    ssize_t name(int file, void *to, size_t size __VA_OPT__(, off_t at)) { \
        REAL(ssize_t, name, int, void *, size_t __VA_OPT__(, off_t)); \
        if (goes_wrong(READ, #name, file, NULL)) { \
            if (fault > 0) FAIL(-1); \
            if (fault == SHORT && size > 1) size /= 2; \
        } \
        return real(file, to, size __VA_OPT__(, at)); \
    }
READS(read)
READS(pread, at)
READS(pread64, at)

#define WRITES(name, ...) \
    ssize_t name(int file, const void *from, size_t size __VA_OPT__(, off_t at)) { \
        REAL(ssize_t, name, int, const void *, size_t __VA_OPT__(, off_t)); \
        if (goes_wrong(WRITE, #name, file, NULL)) { \
            if (fault > 0) FAIL(-1); \
            if ((fault == SHORT || fault == TORN) && size > 1) size /= 2; \
            if (fault == TORN) { real(file, from, size __VA_OPT__(, at)); kill(getpid(), SIGKILL); } \
        } \
        return real(file, from, size __VA_OPT__(, at)); \
    }
WRITES(write)
WRITES(pwrite, at)
WRITES(pwrite64, at)

#define VECTORS(name, kind, ...) \
    ssize_t name(int file, const struct iovec *parts, int count __VA_OPT__(, off_t at)) { \
        REAL(ssize_t, name, int, const struct iovec *, int __VA_OPT__(, off_t)); \
        if (goes_wrong(kind, #name, file, NULL) && fault > 0) FAIL(-1); \
        return real(file, parts, count __VA_OPT__(, at)); \
    }
VECTORS(readv, READ)
VECTORS(preadv, READ, at)
VECTORS(preadv64, READ, at)
VECTORS(writev, WRITE)
VECTORS(pwritev, WRITE, at)
VECTORS(pwritev64, WRITE, at)

#define ON_FILE(name, kind) \
    int name(int file) { \
        REAL(int, name, int); \
        if (WRONG(kind, file, NULL)) FAIL(-1); \
        return real(file); \
    }
ON_FILE(fsync, SYNC)
ON_FILE(fdatasync, SYNC)

#define CUTS(name) \
    int name(int file, off_t size) { \
        REAL(int, name, int, off_t); \
        if (WRONG(CUT, file, NULL)) FAIL(-1); \
        return real(file, size); \
    }
CUTS(ftruncate)
CUTS(ftruncate64)

/* --- threads, and the time of day -------------------------------------------------------------------------------- */

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *given) {
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (WRONG(START, -1, NULL)) return fault;
    return real(thread, how, body, given);
}

/* Years ahead and back by turns, from the first time that it is asked for: `step` is how many days. */
static long jumped(void) {
    if (!armed || !(kinds & CLOCK)) return 0;
    return (__atomic_add_fetch(&seen->injected, 1, __ATOMIC_SEQ_CST) % 2 ? 1 : -1) * step * 86400;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int ended = real(clock, now);
    if (!ended && clock == CLOCK_REALTIME) now->tv_sec += jumped();
    return ended;
}
int gettimeofday(struct timeval *now, void *zone) {
    REAL(int, gettimeofday, struct timeval *, void *);
    int ended = real(now, zone);
    if (!ended) now->tv_sec += jumped();
    return ended;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
