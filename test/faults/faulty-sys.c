/*
 * A layer under a program's clock and sockets, put in by LD_PRELOAD: a wall clock that is off, UDP sockets that fail, descriptors that run out.
 *
 * ROOKERY_SYS_CONTROL  a file of sizeof(struct control) bytes that another process changes at any time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct control {
  int32_t clock_sec; /* added to the wall clock; the monotonic one goes on */
  uint32_t receive_errno; /* of UDP sockets; 0: none */
  uint32_t send_errno;
  uint32_t socket_errno; /* of accepting, and of new sockets */
  uint32_t closed_errno; /* of everything on UDP sockets that were made before `era` became what it is: as if they were closed */
  uint32_t era;
  /* what happened */
  uint32_t failures;
};

static struct control *control;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_gettimeofday)(struct timeval *, void *);
static ssize_t (*real_recvmsg)(int, struct msghdr *, int);
static int (*real_recvmmsg)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_sendmmsg)(int, struct mmsghdr *, unsigned int, int);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);
static int (*real_accept)(int, struct sockaddr *, socklen_t *);
static int (*real_socket)(int, int, int);

/* Others' constructors may ask for the time before ours has run. */
static void find(void) {
  real_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
  real_recvmsg = dlsym(RTLD_NEXT, "recvmsg");
  real_recvmmsg = dlsym(RTLD_NEXT, "recvmmsg");
  real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
  real_sendmmsg = dlsym(RTLD_NEXT, "sendmmsg");
  real_accept4 = dlsym(RTLD_NEXT, "accept4");
  real_accept = dlsym(RTLD_NEXT, "accept");
  real_socket = dlsym(RTLD_NEXT, "socket");
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

__attribute__((constructor)) static void begin(void) {
  if (real_clock_gettime == NULL) find();
  const char *path = getenv("ROOKERY_SYS_CONTROL");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *page = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) control = page;
}

/* the era in which each descriptor was made */
#define FDS 65536
static uint32_t born[FDS];

static int64_t off(void) { return control == NULL ? 0 : control->clock_sec; }

static int fails(uint32_t code) {
  if (code == 0) return 0;
  __atomic_add_fetch(&control->failures, 1, __ATOMIC_SEQ_CST);
  errno = (int)code;
  return 1;
}

static int is_udp(int fd) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_DGRAM) return 0;
  size = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6);
}

static int is_closed(int fd) {
  return control != NULL && control->closed_errno != 0 && fd >= 0 && fd < FDS && born[fd] < control->era && is_udp(fd) && fails(control->closed_errno);
}

int clock_gettime(clockid_t which, struct timespec *at) {
  if (real_clock_gettime == NULL) find();
  int result = real_clock_gettime(which, at);
  if (result == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += off();
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  if (real_gettimeofday == NULL) find();
  int result = real_gettimeofday(at, zone);
  if (result == 0 && at != NULL) at->tv_sec += off();
  return result;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  if (is_closed(fd)) return -1;
  if (control != NULL && control->receive_errno != 0 && is_udp(fd) && fails(control->receive_errno)) return -1;
  return real_recvmsg(fd, message, flags);
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *wait) {
  if (is_closed(fd)) return -1;
  if (control != NULL && control->receive_errno != 0 && is_udp(fd) && fails(control->receive_errno)) return -1;
  return real_recvmmsg(fd, messages, count, flags, wait);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (is_closed(fd)) return -1;
  if (control != NULL && control->send_errno != 0 && is_udp(fd) && fails(control->send_errno)) return -1;
  return real_sendmsg(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags) {
  if (is_closed(fd)) return -1;
  if (control != NULL && control->send_errno != 0 && is_udp(fd) && fails(control->send_errno)) return -1;
  return real_sendmmsg(fd, messages, count, flags);
}

int accept4(int fd, struct sockaddr *from, socklen_t *size, int flags) {
  if (control != NULL && fails(control->socket_errno)) return -1;
  return real_accept4(fd, from, size, flags);
}

int accept(int fd, struct sockaddr *from, socklen_t *size) {
  if (control != NULL && fails(control->socket_errno)) return -1;
  return real_accept(fd, from, size);
}

int socket(int domain, int type, int protocol) {
  if (control != NULL && (domain == AF_INET || domain == AF_INET6) && fails(control->socket_errno)) return -1;
  int fd = real_socket(domain, type, protocol);
  if (control != NULL && fd >= 0 && fd < FDS) born[fd] = control->era;
  return fd;
}
