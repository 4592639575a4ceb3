/* The static program: an interpreter that reads nothing of the machine it is on, and runs what is packed into it.

   PACKED is the table that packing.py writes: names of modules, and of files with their folders, sorted by strcmp,
   each with its bytes; EXTENSIONS are the modules in C that are not part of Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "packed.h"

#define READS_KEPT 64

static const unsigned char content[] = {
#embed "packed.bin"
};

static const struct packed *
find(const char *name)
{
    size_t low = 0, high = packed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(packed_names + packed[middle].name, name);
        if (order == 0) {
            return &packed[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* What was unmarshalled is not read again soon, and would count as our memory: the kernel takes it back, and has it
   in the file should somebody ask for it. */
static void
forget_pages(void)
{
#ifdef __linux__
    static unsigned reads;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)content + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)content + sizeof content) / page * page;
    if (++reads % READS_KEPT == 0 && end > start) {
        (void)madvise((void *)start, end - start, MADV_DONTNEED);
    }
#endif
}

static PyObject *
packed_find(PyObject *Py_UNUSED(module), PyObject *argument)
{
    const char *name = PyUnicode_AsUTF8(argument);
    if (name == NULL) {
        return NULL;
    }
    const struct packed *entry = find(name);
    if (entry == NULL) {
        Py_RETURN_NONE;
    }
    return PyBool_FromLong(entry->is_package);
}

static PyObject *
packed_read(PyObject *Py_UNUSED(module), PyObject *argument)
{
    const char *name = PyUnicode_AsUTF8(argument);
    if (name == NULL) {
        return NULL;
    }
    const struct packed *entry = find(name);
    if (entry == NULL) {
        return PyErr_Format(PyExc_FileNotFoundError, "cannot read %s: it is not in the program", name);
    }
    forget_pages();
    return PyMemoryView_FromMemory((char *)content + entry->offset, (Py_ssize_t)entry->size, PyBUF_READ);
}

static PyObject *
packed_below(PyObject *Py_UNUSED(module), PyObject *argument)
{
    Py_ssize_t length;
    const char *prefix = PyUnicode_AsUTF8AndSize(argument, &length);
    PyObject *names = prefix == NULL ? NULL : PyList_New(0);
    for (size_t index = 0; names != NULL && index < packed_count; index++) {
        if (strncmp(packed_names + packed[index].name, prefix, (size_t)length) == 0) {
            PyObject *name = PyUnicode_FromString(packed_names + packed[index].name);
            if (name == NULL || PyList_Append(names, name) < 0) {
                Py_CLEAR(names);
            }
            Py_XDECREF(name);
        }
    }
    return names;
}

static PyMethodDef packed_functions[] = {
    {"find", packed_find, METH_O, "Tell whether a name is a package; None if it is not in the program."},
    {"read", packed_read, METH_O, "Return the bytes of a name, without copying them."},
    {"below", packed_below, METH_O, "Return the names that begin like this."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef packed_module = {
    PyModuleDef_HEAD_INIT, "_packed", "What is packed into the program.", 0, packed_functions, NULL, NULL, NULL, NULL,
};

static PyObject *
init_packed(void)
{
    return PyModuleDef_Init(&packed_module);
}

#define EXTENSION(name, function) extern PyObject *function(void);
EXTENSIONS
#undef EXTENSION
#define EXTENSION(name, function) {name, function},
static struct _inittab extensions[] = {{"_packed", init_packed}, EXTENSIONS{NULL, NULL}};

/* What Python needs before boot.py can find the rest. */
static struct _frozen first[FIRST_COUNT + 1];

static void
freeze_first(void)
{
    static const char *const names[] = {FIRST};
    for (size_t index = 0; index < FIRST_COUNT; index++) {
        const struct packed *entry = find(names[index]);
        first[index] = (struct _frozen){
            .name = names[index], .code = content + entry->offset, .size = (int)entry->size, .is_package = entry->is_package,
        };
    }
    PyImport_FrozenModules = first;
}

/* The way to start another one of us: also when the file was replaced since. */
static const char *
executable(const char *called, char *room)
{
#ifdef __linux__
    if (access("/proc/self/exe", X_OK) == 0) {
        return "/proc/self/exe";
    }
#endif
    return strchr(called, '/') != NULL && realpath(called, room) != NULL ? room : called;
}

static void
check(PyStatus status)
{
    if (PyStatus_Exception(status)) {
        Py_ExitStatusException(status);
    }
}

static void
initialize(int argc, char **argv)
{
    /* The two variables that Python heeds all the same: they would say what sys.executable is, by which we start others of us. */
    unsetenv("PYTHONEXECUTABLE");
    unsetenv("__PYVENV_LAUNCHER__");

    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    check(Py_PreInitialize(&before));

    char room[PATH_MAX];
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.use_frozen_modules = 1;
    config.code_debug_ranges = 0;
    config.install_signal_handlers = 1;
    config.parse_argv = 0;
    config.module_search_paths_set = 1;
    check(PyConfig_SetBytesString(&config, &config.program_name, argv[0]));
    check(PyConfig_SetBytesString(&config, &config.executable, executable(argv[0], room)));
    check(PyConfig_SetBytesString(&config, &config.base_executable, "/"));
    wchar_t **places[] = {
        &config.home, &config.prefix, &config.exec_prefix, &config.base_prefix, &config.base_exec_prefix, &config.stdlib_dir,
    };
    for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
        check(PyConfig_SetString(&config, places[index], L"/"));
    }
    check(PyConfig_SetBytesArgv(&config, argc, argv));
    check(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

int
main(int argc, char **argv)
{
    if (argc == 0) {
        return 2;
    }
    freeze_first();
    if (PyImport_ExtendInittab(extensions) < 0) {
        return 70;
    }
    initialize(argc, argv);
    if (PyImport_ImportModule("boot") == NULL) {
        PyErr_Print(); /* which ends the process by SystemExit, as the program does */
        Py_FinalizeEx();
        return 70;
    }
    return Py_FinalizeEx() < 0 ? 120 : 0;
}
