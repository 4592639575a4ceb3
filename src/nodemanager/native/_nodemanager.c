/* The calls of the C library that Python's standard library lacks, as the built-in module `_nodemanager` of the
 * static executable, where ctypes has no library to load. `by_ctypes.py` does the same elsewhere, and
 * tests/unit/native holds both to it.
 *
 * One that fails raises OSError; one that this system does not have fails with ENOSYS. The lock of the interpreter
 * is given up around whatever may wait for a disk.
 */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define MOST_OF_A_HANDLE 128 /* MAX_HANDLE_SZ, which not every header has */

/* Calls without the lock; `result` is what came of it, and errno survives. */
#define UNLOCKED(result, call)                                                                                         \
    do {                                                                                                               \
        Py_BEGIN_ALLOW_THREADS;                                                                                        \
        result = (call);                                                                                               \
        Py_END_ALLOW_THREADS;                                                                                          \
    } while (0)

static PyObject *failed(void) { return PyErr_SetFromErrno(PyExc_OSError); }

static PyObject *number(int result) { return result < 0 ? failed() : PyLong_FromLong(result); }

static PyObject *nothing(int result) {
    if (result < 0)
        return failed();
    Py_RETURN_NONE;
}

static PyObject *absent(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments)) {
    errno = ENOSYS;
    return failed();
}

#ifdef __linux__

static PyObject *call_inotify_init1(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int flags;
    if (!PyArg_ParseTuple(arguments, "i:inotify_init1", &flags))
        return NULL;
    return number(inotify_init1(flags));
}

static PyObject *call_inotify_add_watch(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int instance, result;
    const char *path;
    unsigned int mask;
    if (!PyArg_ParseTuple(arguments, "iyI:inotify_add_watch", &instance, &path, &mask))
        return NULL;
    UNLOCKED(result, inotify_add_watch(instance, path, (uint32_t)mask));
    return number(result);
}

static PyObject *call_inotify_rm_watch(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int instance, watch;
    if (!PyArg_ParseTuple(arguments, "ii:inotify_rm_watch", &instance, &watch))
        return NULL;
    return nothing(inotify_rm_watch(instance, watch));
}

static PyObject *call_fanotify_init(PyObject *Py_UNUSED(module), PyObject *arguments) {
    unsigned int flags, event_flags;
    if (!PyArg_ParseTuple(arguments, "II:fanotify_init", &flags, &event_flags))
        return NULL;
    return number(fanotify_init(flags, event_flags));
}

static PyObject *call_fanotify_mark(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int group, folder, result;
    unsigned int flags;
    unsigned long long mask;
    const char *path;
    if (!PyArg_ParseTuple(arguments, "iIKiy:fanotify_mark", &group, &flags, &mask, &folder, &path))
        return NULL;
    UNLOCKED(result, fanotify_mark(group, flags, mask, folder, path));
    return nothing(result);
}

static PyObject *call_name_to_handle_at(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int folder, flags, result, mount;
    const char *path;
    union {
        struct file_handle handle;
        char bytes[sizeof(struct file_handle) + MOST_OF_A_HANDLE];
    } found;
    if (!PyArg_ParseTuple(arguments, "iyi:name_to_handle_at", &folder, &path, &flags))
        return NULL;
    memset(&found, 0, sizeof found);
    found.handle.handle_bytes = MOST_OF_A_HANDLE;
    UNLOCKED(result, name_to_handle_at(folder, path, &found.handle, &mount, flags));
    if (result < 0)
        return failed();
    return PyBytes_FromStringAndSize(found.bytes, (Py_ssize_t)(sizeof(struct file_handle) + found.handle.handle_bytes));
}

static PyObject *call_syncfs(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int descriptor, result;
    if (!PyArg_ParseTuple(arguments, "i:syncfs", &descriptor))
        return NULL;
    UNLOCKED(result, syncfs(descriptor));
    return nothing(result);
}

static PyObject *call_prctl(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int option;
    unsigned long value;
    if (!PyArg_ParseTuple(arguments, "ik:prctl", &option, &value))
        return NULL;
    return nothing(prctl(option, value, 0UL, 0UL, 0UL));
}

/* From the first byte of the file that this was linked into to the end of its code: nothing of it is ever written to. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static PyObject *call_forget_program(PyObject *Py_UNUSED(module), PyObject *arguments) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)__ehdr_start / page * page, end = (uintptr_t)etext / page * page;
    if (!PyArg_ParseTuple(arguments, ":forget_program"))
        return NULL;
    return nothing(end > start ? madvise((void *)start, end - start, MADV_DONTNEED) : 0);
}

#else
#define call_inotify_init1 absent
#define call_inotify_add_watch absent
#define call_inotify_rm_watch absent
#define call_fanotify_init absent
#define call_fanotify_mark absent
#define call_name_to_handle_at absent
#define call_syncfs absent
#define call_prctl absent
#define call_forget_program absent
#endif

#ifdef __GLIBC__
static PyObject *call_mallopt(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int option, value;
    if (!PyArg_ParseTuple(arguments, "ii:mallopt", &option, &value))
        return NULL;
    return PyBool_FromLong(mallopt(option, value));
}

static PyObject *call_malloc_trim(PyObject *Py_UNUSED(module), PyObject *arguments) {
    unsigned long kept;
    if (!PyArg_ParseTuple(arguments, "k:malloc_trim", &kept))
        return NULL;
    return PyBool_FromLong(malloc_trim(kept));
}
#else /* musl has none, and needs none */
#define call_mallopt absent
#define call_malloc_trim absent
#endif

#ifdef __FreeBSD__
static PyObject *call_setproctitle(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *title;
    if (!PyArg_ParseTuple(arguments, "y:setproctitle", &title))
        return NULL;
    setproctitle("-%s", title); /* the dash: without the name of the program in front */
    Py_RETURN_NONE;
}
#else
#define call_setproctitle absent
#endif

#define ENTRY(name) {#name, call_##name, METH_VARARGS, NULL}

static PyMethodDef functions[] = {
    ENTRY(inotify_init1),
    ENTRY(inotify_add_watch),
    ENTRY(inotify_rm_watch),
    ENTRY(fanotify_init),
    ENTRY(fanotify_mark),
    ENTRY(name_to_handle_at),
    ENTRY(syncfs),
    ENTRY(prctl),
    ENTRY(forget_program),
    ENTRY(mallopt),
    ENTRY(malloc_trim),
    ENTRY(setproctitle),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_nodemanager",
    .m_doc = "Calls of the C library that Python's standard library lacks.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__nodemanager(void) { return PyModuleDef_Init(&module); }
