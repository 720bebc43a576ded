/* A disk that is full or fails, for one directory of a program that is started with this library preloaded.
 *
 * DISK_DIRECTORY is the directory, DISK_CONTROL a file that says what holds, and may be replaced at any time:
 *   capacity N     bytes that all files of the directory may have together; beyond that a write gets ENOSPC
 *   fail write     every write gets EIO
 *   fail sync      every sync gets EIO
 * Neither rights nor a file system of its own are needed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t real_pwrite(int fd, const void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return real(fd, bytes, count, offset);
}

static ssize_t real_write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return real(fd, bytes, count);
}

static ssize_t real_writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = dlsym(RTLD_NEXT, "writev");
    return real(fd, parts, count);
}

static int is_watched(int fd) {
    const char *directory = getenv("DISK_DIRECTORY");
    char link[64], path[4096];
    if (!directory) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    size_t end = strlen(directory);
    return !strncmp(path, directory, end) && (path[end] == '/' || !path[end]);
}

/* What the control file says behind a word; 0 if it does not have the word. */
static int control(const char *word, char *value, size_t size) {
    char text[256];
    int file = open(getenv("DISK_CONTROL"), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length < 0) return 0;
    text[length] = 0;
    char *found = strstr(text, word);
    if (!found) return 0;
    snprintf(value, size, "%s", found + strlen(word) + 1);
    return 1;
}

static int fails(const char *what) {
    char value[64];
    return control("fail", value, sizeof value) && !strncmp(value, what, strlen(what));
}

static long long used(void) {
    const char *directory = getenv("DISK_DIRECTORY");
    DIR *names = opendir(directory);
    long long bytes = 0;
    if (!names) return 0;
    for (struct dirent *entry; (entry = readdir(names));) {
        struct stat found;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!stat(path, &found) && S_ISREG(found.st_mode)) bytes += found.st_size;
    }
    closedir(names);
    return bytes;
}

/* How many of the bytes there is room for; -1 with errno if there is none. */
static ssize_t room(int fd, off64_t offset, size_t count) {
    char value[64];
    struct stat found;
    if (!is_watched(fd)) return count;
    if (fails("write")) return errno = EIO, -1;
    if (!control("capacity", value, sizeof value) || fstat(fd, &found)) return count;
    long long inside = found.st_size > offset ? found.st_size - offset : 0;
    long long fits = inside + atoll(value) - used();
    if (fits <= 0 && count > 0) return errno = ENOSPC, -1;
    return (long long)count < fits ? (ssize_t)count : (ssize_t)fits;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t fits = room(fd, lseek64(fd, 0, SEEK_CUR), count);
    return fits < 0 ? fits : real_write(fd, bytes, fits);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int part = 0; part < count; part++) bytes += parts[part].iov_len;
    ssize_t fits = room(fd, lseek64(fd, 0, SEEK_CUR), bytes);
    if (fits < 0) return fits;
    if ((size_t)fits == bytes) return real_writev(fd, parts, count);
    while (count > 1 && !parts->iov_len) parts++, count--;
    size_t first = parts->iov_len < (size_t)fits ? parts->iov_len : (size_t)fits;
    return real_write(fd, parts->iov_base, first);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    ssize_t fits = room(fd, offset, count);
    return fits < 0 ? fits : real_pwrite(fd, bytes, fits, offset);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    if (is_watched(fd) && fails("sync")) return errno = EIO, -1;
    return real(fd);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (is_watched(fd) && fails("sync")) return errno = EIO, -1;
    return real(fd);
}
