/* The native stack of a process, written by a signal handler: only native code can run while Python hangs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

static int dump_fd = -1;

static void write_stack(int signum) {
    static const char head[] = "Native stack (innermost first):\n";
    void *frames[64];
    ssize_t ignored = write(dump_fd, head, sizeof head - 1);
    (void)ignored;
    backtrace_symbols_fd(frames, backtrace(frames, 64), dump_fd);
}

/* install(signum, fd): faulthandler, registered afterwards with chain=True, calls this handler. */
static PyObject *install(PyObject *module, PyObject *args) {
    int signum;
    if (!PyArg_ParseTuple(args, "ii", &signum, &dump_fd)) return NULL;
    void *warm[1];
    backtrace(warm, 1); /* loads the unwinder now: doing so inside a signal handler may allocate */
    struct sigaction action = {.sa_handler = write_stack, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(signum, &action, NULL) < 0) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, "Write the native stack to a descriptor on a signal."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_stack", "The native stack on a signal.", -1, functions};

PyMODINIT_FUNC PyInit__stack(void) { return PyModule_Create(&module); }
