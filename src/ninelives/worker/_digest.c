/* Digests of rows, for rows that Python writes and for replays: the same numbers as the serving loop's. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "digest.h"

/* digest_bytes(buffer, start): continue a number with all bytes of a buffer. */
static PyObject *py_digest_bytes(PyObject *module, PyObject *args) {
    Py_buffer data;
    unsigned long long start;
    if (!PyArg_ParseTuple(args, "y*K", &data, &start)) return NULL;
    uint64_t digest = digest_bytes(data.buf, (size_t)data.len, start);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLongLong(digest);
}

/* digest_row(number, reward, flags): the 32 bits of a row whose observation has this number. */
static PyObject *py_digest_row(PyObject *module, PyObject *args) {
    unsigned long long digest;
    double reward;
    int flags;
    if (!PyArg_ParseTuple(args, "Kdi", &digest, &reward, &flags)) return NULL;
    return PyLong_FromUnsignedLong(digest_row(digest, reward, flags));
}

static PyMethodDef functions[] = {
    {"digest_bytes", py_digest_bytes, METH_VARARGS, "Continue a number with all bytes of a buffer."},
    {"digest_row", py_digest_row, METH_VARARGS, "The 32 bits of a row whose observation has this number."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_digest", "Digests of rows.", -1, functions};

PyMODINIT_FUNC PyInit__digest(void) { return PyModule_Create(&module); }
