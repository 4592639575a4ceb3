/* The rest of malloc(3), which musl has in files that know its inside, and what a fork means for it. */
#include <errno.h>
#include <stdlib.h>
#include <wchar.h>
#include "meta.h"

void *
calloc(size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    void *made = malloc(all);
    return made == NULL || is_allzero(made) ? made : memset(made, 0, all);
}

void *
reallocarray(void *old, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, all);
}

void *
memalign(size_t align, size_t size)
{
    return aligned_alloc(align, size);
}

void *
valloc(size_t size)
{
    return aligned_alloc(get_page_size(), size);
}

int
posix_memalign(void **place, size_t align, size_t size)
{
    if (align < sizeof(void *)) {
        return EINVAL;
    }
    void *made = aligned_alloc(align, size);
    if (made == NULL) {
        return errno;
    }
    *place = made;
    return 0;
}

/* These three of the C library were compiled together with its own allocator, and call that: what they return could not
   be freed. */
char *
strndup(const char *text, size_t most)
{
    size_t length = strnlen(text, most);
    char *made = malloc(length + 1);
    if (made != NULL) {
        memcpy(made, text, length);
        made[length] = '\0';
    }
    return made;
}

char *
strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}

wchar_t *
wcsdup(const wchar_t *text)
{
    size_t count = wcslen(text) + 1;
    wchar_t *made = reallocarray(NULL, count, sizeof *made);
    return made == NULL ? NULL : wmemcpy(made, text, count);
}

/* A child has only the thread that forked: nobody would ever unlock for another one. */
static void before_fork(void) { wrlock(); }
static void after_fork(void) { unlock(); }

__attribute__((__constructor__)) static void
prepare_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}
