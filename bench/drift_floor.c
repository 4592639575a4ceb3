/* The least that repairs drift the moment it happens: what the agent's latency is measured by.
 *
 *   drift_floor CONTENT DIRECTORY...
 *
 * Every file in the directories whose name is a number shall have the content of the file CONTENT and mode
 * 0640. One that has not is replaced by rename, its content on disk before. Prints a line when it watches.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0640
#define MAX_CONTENT 65536
#define MASK (IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

static char wanted[MAX_CONTENT];
static ssize_t size;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int holds(int folder, const char *name) {
    static char found[MAX_CONTENT + 1];
    struct stat about;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return 0;
    int same = !fstat(file, &about) && (about.st_mode & 07777) == MODE && about.st_size == size &&
               read(file, found, sizeof found) == size && !memcmp(found, wanted, size);
    close(file);
    return same;
}

static void repair(int folder, const char *name) {
    int file = openat(folder, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, wanted, size) != size || fchmod(file, MODE) || fsync(file)) fail(name);
    close(file);
    if (renameat(folder, ".new", folder, name) || fsync(folder)) fail(name);
}

int main(int count, char **arguments) {
    static char events[65536] __attribute__((aligned(8)));
    int *folders = calloc(count + 1, sizeof *folders), watch = inotify_init1(IN_CLOEXEC);
    int content = count < 3 ? -1 : open(arguments[1], O_RDONLY | O_CLOEXEC);
    if (content < 0 || watch < 0 || (size = read(content, wanted, sizeof wanted)) < 0) fail("drift_floor");
    for (int index = 2; index < count; index++) {
        int number = inotify_add_watch(watch, arguments[index], MASK);
        if (number < 0 || number > count) fail(arguments[index]);
        if ((folders[number] = open(arguments[index], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) fail("open");
    }
    puts("watching");
    fflush(stdout);
    for (;;) {
        ssize_t got = read(watch, events, sizeof events);
        if (got <= 0) fail("read");
        for (char *at = events; at < events + got;) {
            struct inotify_event *event = (struct inotify_event *)at;
            at += sizeof *event + event->len;
            if (event->len && isdigit((unsigned char)event->name[0]) &&
                !holds(folders[event->wd], event->name))
                repair(folders[event->wd], event->name);
        }
    }
}
