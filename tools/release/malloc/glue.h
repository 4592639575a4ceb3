/* What musl's allocator needs of the C library that it is linked with; in place of the file of this name in musl, which
   takes it from the inside of musl. */
#ifndef MALLOC_GLUE_H
#define MALLOC_GLUE_H

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define size_classes malloc_size_classes
#define ctx malloc_ctx
#define alloc_meta malloc_alloc_meta
#define is_allzero malloc_is_allzero
#define dump_heap malloc_dump_heap

#define USE_MADV_FREE 0
#define DISABLE_ALIGNED_ALLOC 0
#define MT 1
#define RDLOCK_IS_EXCLUSIVE 1

/* A heap that is found damaged ends the process at once, as in musl. */
#undef assert
#define assert(x) do { if (!(x)) __builtin_trap(); } while (0)

#define brk(address) ((uintptr_t)syscall(SYS_brk, address))

#define a_cas(place, old, new) __sync_val_compare_and_swap(place, old, new)
#define a_or(place, bits) ((void)__sync_fetch_and_or(place, bits))
#define a_ctz_32(number) __builtin_ctz(number)
#define a_clz_32(number) __builtin_clz(number)

/* Asked for when the program runs: kernels of one architecture differ in it. */
#undef PAGESIZE
#define get_page_size() ((size_t)sysconf(_SC_PAGESIZE))

static inline uint64_t
get_random_secret(void)
{
    uint64_t secret = (uintptr_t)&secret * 1103515245;
    const char *random = (const char *)getauxval(AT_RANDOM);
    if (random != NULL) {
        memcpy(&secret, random + 8, sizeof secret);
    }
    return secret;
}

__attribute__((__visibility__("hidden"))) extern pthread_mutex_t malloc_lock;

#define LOCK_OBJ_DEF pthread_mutex_t malloc_lock = PTHREAD_MUTEX_INITIALIZER

static inline void rdlock(void) { pthread_mutex_lock(&malloc_lock); }
static inline void wrlock(void) { pthread_mutex_lock(&malloc_lock); }
static inline void unlock(void) { pthread_mutex_unlock(&malloc_lock); }
static inline void upgradelock(void) {}

#endif
