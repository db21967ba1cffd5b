/*
 * A layer under a program's file system calls, put in by LD_PRELOAD: errors, half writes, slowness, syncs that lie, and a log of what was synced.
 *
 * ROOKERY_FAULTS_DIR      files below it are meant
 * ROOKERY_FAULTS_CONTROL  a file of sizeof(struct control) bytes that another process changes at any time
 * ROOKERY_FAULTS_LOG      gets one line for each create (C), sync (S, with the size synced), rename (R) and unlink (U)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
  uint32_t write_errno; /* 0: none */
  uint32_t write_after; /* so many writes still succeed */
  uint32_t write_times; /* so many fail */
  uint32_t write_torn;  /* 1: half of the first failing write is written all the same */
  uint32_t sync_errno;
  uint32_t sync_after;
  uint32_t sync_times;
  uint32_t sync_lies; /* 1: says that it synced, and does not log it */
  uint32_t open_errno;
  uint32_t open_times;
  uint32_t delay_us; /* before each write and sync */
  /* what happened */
  uint32_t writes;
  uint32_t syncs;
  uint32_t failures;
};

#define FDS_MAX 4096
static char watched[FDS_MAX];
static struct control *control;
static const char *dir;
static size_t dir_length;
static int log_fd = -1;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);
static FILE *(*real_fopen)(const char *, const char *);
static int (*real_fclose)(FILE *);
static size_t (*real_fwrite)(const void *, size_t, size_t, FILE *);

__attribute__((constructor)) static void begin(void) {
  real_open = dlsym(RTLD_NEXT, "open");
  real_close = dlsym(RTLD_NEXT, "close");
  real_write = dlsym(RTLD_NEXT, "write");
  real_writev = dlsym(RTLD_NEXT, "writev");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_rename = dlsym(RTLD_NEXT, "rename");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  real_fopen = dlsym(RTLD_NEXT, "fopen64");
  real_fclose = dlsym(RTLD_NEXT, "fclose");
  real_fwrite = dlsym(RTLD_NEXT, "fwrite");
  const char *at = getenv("ROOKERY_FAULTS_DIR");
  const char *control_path = getenv("ROOKERY_FAULTS_CONTROL");
  const char *log_path = getenv("ROOKERY_FAULTS_LOG");
  if (at == NULL || control_path == NULL || log_path == NULL) return;
  int fd = real_open(control_path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  real_close(fd);
  if (page == MAP_FAILED) return;
  log_fd = real_open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  control = page;
  dir = at;
  dir_length = strlen(at);
}

/* LevelDB's own diary says nothing that counts. */
static int below(const char *path) {
  if (control == NULL || path == NULL || strncmp(path, dir, dir_length) != 0 || path[dir_length] != '/') return 0;
  const char *name = strrchr(path, '/') + 1;
  return strcmp(name, "LOG") != 0 && strcmp(name, "LOG.old") != 0;
}

static int is_watched(int fd) { return control != NULL && fd >= 0 && fd < FDS_MAX && watched[fd]; }

static void note(const char *format, ...) {
  char line[2 * PATH_MAX + 64];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (log_fd >= 0 && length > 0 && real_write(log_fd, line, (size_t)length) < 0) abort();
}

/* Takes one of what is left, whichever thread asks. */
static int take(uint32_t *left) {
  for (;;) {
    uint32_t now = __atomic_load_n(left, __ATOMIC_SEQ_CST);
    if (now == 0) return 0;
    if (__atomic_compare_exchange_n(left, &now, now - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 1;
  }
}

static void linger(void) {
  uint32_t us = control->delay_us;
  if (us == 0) return;
  struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

static int fails(uint32_t *code, uint32_t *after, uint32_t *times) {
  if (*code == 0 || take(after) || !take(times)) return 0;
  __atomic_add_fetch(&control->failures, 1, __ATOMIC_SEQ_CST);
  errno = (int)*code;
  return 1;
}

static int write_fails(void) {
  __atomic_add_fetch(&control->writes, 1, __ATOMIC_SEQ_CST);
  linger();
  return fails(&control->write_errno, &control->write_after, &control->write_times);
}

static int open_fails(void) {
  if (control->open_errno == 0 || !take(&control->open_times)) return 0;
  __atomic_add_fetch(&control->failures, 1, __ATOMIC_SEQ_CST);
  errno = (int)control->open_errno;
  return 1;
}

static int opened(const char *path, int flags, mode_t mode) {
  int writes = (flags & (O_WRONLY | O_RDWR)) != 0;
  if (below(path) && writes) {
    if (open_fails()) return -1;
    int isNew = (flags & O_TRUNC) != 0 || access(path, F_OK) != 0;
    int fd = real_open(path, flags, mode);
    if (fd >= 0 && fd < FDS_MAX) watched[fd] = 1;
    if (fd >= 0 && isNew) note("C\t0\t%s\n", path);
    return fd;
  }
  return real_open(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
  va_end(args);
  return opened(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
  va_end(args);
  return opened(path, flags | O_LARGEFILE, mode);
}

int close(int fd) {
  if (fd >= 0 && fd < FDS_MAX) watched[fd] = 0;
  return real_close(fd);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  if (!is_watched(fd)) return real_write(fd, bytes, length);
  if (!write_fails()) return real_write(fd, bytes, length);
  int code = errno;
  if (control->write_torn && length > 1 && real_write(fd, bytes, length / 2) < 0) abort();
  errno = code;
  return -1;
}

/* Without a buffer, so that what fails is the write that was asked for. */
static FILE *opened_stream(const char *path, const char *mode) {
  int writes = strpbrk(mode, "wa+") != NULL;
  if (!below(path) || !writes) return real_fopen(path, mode);
  if (open_fails()) return NULL;
  int isNew = mode[0] == 'w' || access(path, F_OK) != 0;
  FILE *file = real_fopen(path, mode);
  if (file == NULL) return NULL;
  setvbuf(file, NULL, _IONBF, 0);
  if (fileno(file) < FDS_MAX) watched[fileno(file)] = 1;
  if (isNew) note("C\t0\t%s\n", path);
  return file;
}

FILE *fopen(const char *path, const char *mode) { return opened_stream(path, mode); }

FILE *fopen64(const char *path, const char *mode) { return opened_stream(path, mode); }

int fclose(FILE *file) {
  int fd = file == NULL ? -1 : fileno(file);
  if (fd >= 0 && fd < FDS_MAX) watched[fd] = 0;
  return real_fclose(file);
}

static size_t put(const void *bytes, size_t size, size_t count, FILE *file) {
  if (!is_watched(fileno(file)) || !write_fails()) return real_fwrite(bytes, size, count, file);
  int code = errno;
  size_t whole = control->write_torn ? real_fwrite(bytes, 1, size * count / 2, file) : 0;
  errno = code;
  return size == 0 || whole / size == count ? 0 : whole / size;
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *file) { return put(bytes, size, count, file); }

#undef fwrite_unlocked
size_t fwrite_unlocked(const void *bytes, size_t size, size_t count, FILE *file) { return put(bytes, size, count, file); }

ssize_t writev(int fd, const struct iovec *pieces, int count) {
  return is_watched(fd) && write_fails() ? -1 : real_writev(fd, pieces, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  return is_watched(fd) && write_fails() ? -1 : real_pwrite(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return pwrite(fd, bytes, length, at); }

static int synced(int fd, int (*sync)(int)) {
  if (!is_watched(fd)) return sync(fd);
  __atomic_add_fetch(&control->syncs, 1, __ATOMIC_SEQ_CST);
  linger();
  if (fails(&control->sync_errno, &control->sync_after, &control->sync_times)) return -1;
  if (control->sync_lies) return 0;
  struct stat before;
  if (fstat(fd, &before) != 0) return -1;
  int result = sync(fd);
  if (result == 0) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
      path[length] = 0;
      note("S\t%lld\t%s\n", (long long)before.st_size, path);
    }
  }
  return result;
}

int fsync(int fd) { return synced(fd, real_fsync); }

int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int rename(const char *from, const char *to) {
  int result = real_rename(from, to);
  if (result == 0 && below(to)) note("R\t0\t%s\t%s\n", from, to);
  return result;
}

int unlink(const char *path) {
  int result = real_unlink(path);
  if (result == 0 && below(path)) note("U\t0\t%s\n", path);
  return result;
}
