/* Stands between SQLite and the system (LD_PRELOAD), for the files of one folder.
 *
 * It writes down what is written, cut, synced, made and removed, in order, so that any state which a
 * power loss could leave can be made from the record; it fails the n-th write or sync; and it kills
 * the process before or after one. Until it is told a folder it does nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MADE = 1, WRITTEN, CUT, SYNCED, REMOVED, FOLDER_SYNCED, MARK, SYNC_FAILED };
enum { ON_WRITE = 1, ON_SYNC = 2, ON_READ = 4 };
enum { MOST_FDS = 4096, MOST_FILES = 256 };

struct record {
    uint32_t kind;
    int32_t file;
    int64_t offset;
    int64_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_length;
static int trace = -1;
static int real_sync = 1;
static int file_of[MOST_FDS]; /* 0: not ours, -1: the folder, -2: ours and never durable */
static char names[MOST_FILES][PATH_MAX];
static int files;

static int slow_sync; /* milliseconds that each sync takes longer, during which others go on writing */
static int armed_on, armed_error, armed_lasting;
static long armed_after;
static long counted[8];
static int has_struck;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static ssize_t out(const void *data, size_t length) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    const char *at = data;
    while (length) {
        ssize_t done = real(trace, at, length);
        if (done <= 0) return -1;
        at += done;
        length -= done;
    }
    return 0;
}

static void note(uint32_t kind, int file, int64_t offset, const void *data, int64_t length) {
    if (trace < 0) return;
    struct record record = {kind, file, offset, length};
    out(&record, sizeof record);
    if (data && length > 0) out(data, length);
}

/* -- what the campaign calls ------------------------------------------------------------------- */

void faults_watch(const char *path, int trace_fd, int sync_for_real) {
    pthread_mutex_lock(&lock);
    strncpy(folder, path, sizeof folder - 1);
    folder_length = strlen(folder);
    trace = trace_fd;
    real_sync = sync_for_real;
    files = 0;
    memset(file_of, 0, sizeof file_of);
    pthread_mutex_unlock(&lock);
}

void faults_mark(const char *text, long length) {
    pthread_mutex_lock(&lock);
    note(MARK, 0, 0, text, length);
    pthread_mutex_unlock(&lock);
}

/* Strike at the n-th write or sync from now on. error: an errno; -1 kills before it, -2 after it. */
void faults_arm(int on, long n, int error, int lasting) {
    pthread_mutex_lock(&lock);
    armed_on = on;
    armed_after = n;
    armed_error = error;
    armed_lasting = lasting;
    has_struck = 0;
    memset(counted, 0, sizeof counted);
    pthread_mutex_unlock(&lock);
}

int faults_struck(void) { return has_struck; }
long faults_counted(int on) { return counted[on]; }

/* A server is told by its environment, before it opens anything. */
__attribute__((constructor)) static void from_environment(void) {
    const char *path = getenv("FAULTS_FOLDER"), *record = getenv("FAULTS_TRACE"), *slow = getenv("FAULTS_SLOW_SYNC");
    if (!path) return;
    faults_watch(path, record ? open(record, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600) : -1, 0);
    if (slow) slow_sync = atoi(slow);
}

/* -- deciding ----------------------------------------------------------------------------------- */

/* Returns an errno to fail with, 0 to go on, -2 to die afterwards. Holds the lock. */
static int struck(int on) {
    counted[on]++;
    if (!(armed_on & on)) return 0;
    if (armed_after > 0) {
        armed_after--;
        if (armed_after > 0) return 0;
    } else if (!armed_lasting) {
        return 0;
    }
    has_struck++;
    if (armed_error == -1) kill(getpid(), SIGKILL);
    if (!armed_lasting) armed_on = 0;
    return armed_error;
}

static int ours(int fd) { return folder_length && fd >= 0 && fd < MOST_FDS ? file_of[fd] : 0; }

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && !strcmp(text + length - of_end, end);
}

static void opened(int fd, const char *path, int existed) {
    if (fd < 0 || fd >= MOST_FDS) return;
    file_of[fd] = 0;
    if (!folder_length || !path || strncmp(path, folder, folder_length)) return;
    const char *rest = path + folder_length;
    if (!*rest || !strcmp(rest, "/")) {
        file_of[fd] = -1;
        return;
    }
    if (*rest != '/') return;
    if (ends_with(rest, "-shm")) { /* mapped into memory, and made anew from the log: never durable */
        file_of[fd] = -2;
        return;
    }
    for (int file = 1; file <= files && existed; file++)
        if (!strcmp(names[file], rest + 1)) {
            file_of[fd] = file;
            return;
        }
    if (files + 1 >= MOST_FILES) return;
    files++;
    strncpy(names[files], rest + 1, PATH_MAX - 1);
    file_of[fd] = files;
    note(MADE, files, existed, rest + 1, strlen(rest + 1));
}

/* Servers change into their folder and open what lies below it. */
static const char *absolute(const char *path, char *whole) {
    if (!folder_length || path[0] == '/' || !getcwd(whole, PATH_MAX - 1)) return path;
    size_t length = strlen(whole);
    if (length + strlen(path) + 2 > PATH_MAX) return path;
    whole[length] = '/';
    strcpy(whole + length + 1, path);
    return whole;
}

/* -- what SQLite and Valkey call ---------------------------------------------------------------- */

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        char whole[PATH_MAX]; \
        path = absolute(path, whole); \
        if (!folder_length || strncmp(path, folder, folder_length)) { \
            int other = real(path, flags, mode); \
            if (other >= 0 && other < MOST_FDS) file_of[other] = 0; \
            return other; \
        } \
        pthread_mutex_lock(&lock); \
        struct stat is; \
        int existed = !stat(path, &is); \
        int error = flags & O_CREAT && !existed ? struck(ON_WRITE) : 0; \
        int fd = -1; \
        if (error > 0) \
            errno = error; \
        else \
            opened(fd = real(path, flags, mode), path, existed); \
        pthread_mutex_unlock(&lock); \
        return fd; \
    }

OPEN(open)
OPEN(open64)

int close(int fd) {
    REAL(close);
    if (ours(fd)) {
        pthread_mutex_lock(&lock);
        file_of[fd] = 0;
        pthread_mutex_unlock(&lock);
    }
    return real(fd);
}

#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t length, offset_type offset) { \
        REAL(name); \
        int file = ours(fd); \
        if (!file) return real(fd, data, length, offset); \
        pthread_mutex_lock(&lock); \
        int error = struck(ON_WRITE); \
        ssize_t done; \
        if (error == ENOSPC && length > 512 && has_struck == 1) { /* the last of the room */ \
            done = real(fd, data, length / 2, offset); \
            if (done > 0 && file > 0) note(WRITTEN, file, offset, data, done); \
        } else if (error > 0) { \
            errno = error; \
            done = -1; \
        } else { \
            done = real(fd, data, length, offset); \
            if (done > 0 && file > 0) note(WRITTEN, file, offset, data, done); \
        } \
        if (error == -2) kill(getpid(), SIGKILL); \
        pthread_mutex_unlock(&lock); \
        return done; \
    }

PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t length) {
    REAL(write);
    int file = ours(fd);
    if (!file) return real(fd, data, length);
    pthread_mutex_lock(&lock);
    int error = struck(ON_WRITE);
    ssize_t done = -1;
    if (error > 0) {
        errno = error;
    } else {
        off_t at = lseek(fd, 0, SEEK_CUR);
        done = real(fd, data, length);
        if (done > 0 && file > 0) note(WRITTEN, file, at, data, done);
        if (error == -2) kill(getpid(), SIGKILL);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

#define TRUNCATE(name, length_type) \
    int name(int fd, length_type length) { \
        REAL(name); \
        int file = ours(fd); \
        if (!file) return real(fd, length); \
        pthread_mutex_lock(&lock); \
        int error = struck(ON_WRITE); \
        int done = -1; \
        if (error > 0) { \
            errno = error; \
        } else { \
            done = real(fd, length); \
            if (!done && file > 0) note(CUT, file, length, 0, 0); \
            if (error == -2) kill(getpid(), SIGKILL); \
        } \
        pthread_mutex_unlock(&lock); \
        return done; \
    }

TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name) \
    int name(int fd) { \
        REAL(name); \
        int file = ours(fd); \
        if (!file) return real(fd); \
        if (slow_sync) usleep(slow_sync * 1000); \
        pthread_mutex_lock(&lock); \
        int error = struck(ON_SYNC); \
        int done = 0; \
        if (error > 0) { \
            if (file > 0) note(SYNC_FAILED, file, 0, 0, 0); \
            errno = error; \
            done = -1; \
        } else { \
            if (real_sync) done = real(fd); \
            if (!done) note(file == -1 ? FOLDER_SYNCED : SYNCED, file, 0, 0, 0); \
            if (error == -2) kill(getpid(), SIGKILL); \
        } \
        pthread_mutex_unlock(&lock); \
        return done; \
    }

SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path) {
    REAL(unlink);
    if (!folder_length || strncmp(path, folder, folder_length)) return real(path);
    pthread_mutex_lock(&lock);
    int done = real(path);
    if (!done)
        for (int file = files; file; file--)
            if (!strcmp(names[file], path + folder_length + 1)) {
                note(REMOVED, file, 0, 0, 0);
                names[file][0] = 0;
                break;
            }
    pthread_mutex_unlock(&lock);
    return done;
}
