/* Copies of answered rows, as a batch, once per recv().
 *
 * Knows arrays and slot numbers, nothing of requests or faults. Gatherer does the same in Python where this is missing.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <stdint.h>
#include <string.h>
#include "bytes.h"
#include "slot_numbers.h"

static PyObject *copy_of(PyObject *rows) {
    if (!PyArray_Check(rows)) { PyErr_SetString(PyExc_TypeError, "rows must be arrays"); return NULL; }
    PyArrayObject *from = (PyArrayObject *)rows;
    if (!PyArray_IS_C_CONTIGUOUS(from)) return PyArray_NewCopy(from, NPY_CORDER);
    PyObject *out = PyArray_NewLikeArray(from, NPY_CORDER, NULL, 0);
    if (out) copy_bytes(PyArray_DATA((PyArrayObject *)out), PyArray_DATA(from), (size_t)PyArray_NBYTES(from));
    return out;
}

static PyObject *rows_of(PyArrayObject *from, const int64_t *slots, npy_intp count) {
    if (!PyArray_IS_C_CONTIGUOUS(from) || PyArray_NDIM(from) < 1 || PyArray_NDIM(from) > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_TypeError, "rows must lie one after the other");
        return NULL;
    }
    npy_intp dims[NPY_MAXDIMS], there = PyArray_DIM(from, 0);
    memcpy(dims, PyArray_DIMS(from), (size_t)PyArray_NDIM(from) * sizeof *dims);
    dims[0] = count;
    PyArray_Descr *kind = PyArray_DESCR(from);
    Py_INCREF(kind);                                      /* PyArray_Empty takes it */
    PyObject *out = PyArray_Empty(PyArray_NDIM(from), dims, kind, 0);
    if (!out) return NULL;
    size_t bytes = there ? (size_t)PyArray_NBYTES(from) / (size_t)there : 0;
    char *to = PyArray_BYTES((PyArrayObject *)out);
    for (npy_intp i = 0; i < count; i++, to += bytes) {
        if (slots[i] < 0 || slots[i] >= there) {
            PyErr_Format(PyExc_IndexError, "slot %lld of %lld", (long long)slots[i], (long long)there);
            Py_DECREF(out);
            return NULL;
        }
        copy_bytes(to, PyArray_BYTES(from) + (size_t)slots[i] * bytes, bytes);
    }
    return out;
}

/* Fresh copies of arrays, of all their rows or of these slots' (``slots`` not NULL). */
static PyObject *copied(PyObject *arrays, PyArrayObject *slots) {
    Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    PyObject *out = PyTuple_New(count);
    for (Py_ssize_t i = 0; out && i < count; i++) {
        PyObject *rows = PyTuple_GET_ITEM(arrays, i), *copy = NULL;
        if (!PyArray_Check(rows)) PyErr_SetString(PyExc_TypeError, "rows must be arrays");
        else if (slots) copy = rows_of((PyArrayObject *)rows, PyArray_DATA(slots), PyArray_SIZE(slots));
        else copy = copy_of(rows);
        if (!copy) { Py_CLEAR(out); break; }
        PyTuple_SET_ITEM(out, i, copy);
    }
    return out;
}

/* The observation: a dict of its arrays by these keys, or without keys the only array. */
static PyObject *observation_of(PyObject *parts, Py_ssize_t count, PyObject *keys) {
    if (keys == Py_None) return Py_NewRef(PyTuple_GET_ITEM(parts, 0));
    PyObject *out = PyDict_New();
    for (Py_ssize_t i = 0; out && i < count; i++)
        if (PyDict_SetItem(out, PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(parts, i)) < 0) Py_CLEAR(out);
    return out;
}

/* Four arrays and the observation's: one without keys, or one for each key. */
static int fits_batch(PyObject *arrays, PyObject *keys) {
    if (!PyTuple_Check(arrays)) return 0;
    if (keys == Py_None) return PyTuple_GET_SIZE(arrays) >= 5;
    return PyTuple_Check(keys) && PyTuple_GET_SIZE(arrays) == PyTuple_GET_SIZE(keys) + 4;
}

/* batch(kind, slots, some, arrays, keys, episodes) -> an object of class ``kind`` with fresh copies of all rows, or of
 * those of ``slots`` if ``some``. The last four arrays are reward, terminated, truncated and valid, those before them
 * are the observation's. The attributes are set one by one: the class's own __init__ takes several times as long. */
static PyObject *batch(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    static const char *names[] = {"obs", "reward", "terminated", "truncated", "valid", "slots", "infos", "episodes"};
    static PyObject *interned[8];
    if (nargs != 6 || !PyType_Check(args[0]) || !fits_batch(args[3], args[4])) {
        PyErr_SetString(PyExc_TypeError, "batch(kind, slots, some, arrays, keys, episodes)");
        return NULL;
    }
    for (int i = 0; i < 8; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(names[i]))) return NULL;
    PyArrayObject *slots = args[2] == Py_True ? slot_numbers(args[1]) : NULL;
    if (args[2] == Py_True && !slots) return NULL;
    PyObject *parts = copied(args[3], slots), *out = NULL;
    Py_XDECREF(slots);
    if (!parts) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(parts) - 4;
    PyObject *values[8] = {observation_of(parts, count, args[4]), PyTuple_GET_ITEM(parts, count),
                           PyTuple_GET_ITEM(parts, count + 1), PyTuple_GET_ITEM(parts, count + 2),
                           PyTuple_GET_ITEM(parts, count + 3), args[1], PyDict_New(), args[5]};
    PyTypeObject *kind = (PyTypeObject *)args[0];
    if (values[0] && values[6]) out = kind->tp_alloc(kind, 0);
    for (int i = 0; out && i < 8; i++)
        if (PyObject_SetAttr(out, interned[i], values[i]) < 0) Py_CLEAR(out);
    Py_XDECREF(values[0]);
    Py_XDECREF(values[6]);
    Py_DECREF(parts);
    return out;
}

/* ---- infos ----------------------------------------------------------------------------------------------------- */

/* The bytes at ``offset`` of each row, as a fresh array; ``dtype`` None: booleans of NumPy, in an array of objects. */
static PyObject *column_of(PyArrayObject *places, const int64_t *slots, npy_intp count, Py_ssize_t offset,
                           PyObject *dtype, PyObject *shape) {
    npy_intp dims[NPY_MAXDIMS], width = PyArray_DIM(places, 1);
    int ndim = 1 + (int)PyTuple_GET_SIZE(shape);
    PyArray_Descr *kind = dtype == Py_None ? PyArray_DescrFromType(NPY_OBJECT) : (PyArray_Descr *)Py_NewRef(dtype);
    npy_intp bytes = dtype == Py_None ? 1 : PyDataType_ELSIZE(kind);
    dims[0] = count;
    for (int i = 1; i < ndim; i++) bytes *= dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i - 1));
    if (PyErr_Occurred() || offset < 0 || offset + bytes > width) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a column outside its place");
        Py_DECREF(kind);
        return NULL;
    }
    PyObject *out = PyArray_Empty(ndim, dims, kind, 0);    /* takes kind */
    if (!out) return NULL;
    char *to = PyArray_BYTES((PyArrayObject *)out);
    for (npy_intp row = 0; row < count; row++, to += dtype == Py_None ? (npy_intp)sizeof(PyObject *) : bytes) {
        const char *from = PyArray_BYTES(places) + (slots ? slots[row] : row) * width + offset;
        if (dtype != Py_None) memcpy(to, from, (size_t)bytes);
        else Py_XSETREF(*(PyObject **)to, Py_NewRef(*from ? PyArrayScalar_True : PyArrayScalar_False));
    }
    return out;
}

static PyObject *all_true(npy_intp count) {
    PyObject *mask = PyArray_SimpleNew(1, &count, NPY_BOOL);
    if (mask) memset(PyArray_DATA((PyArrayObject *)mask), 1, (size_t)count);
    return mask;
}

static int add_column(PyObject *infos, PyArrayObject *places, const int64_t *slots, npy_intp count, PyObject *field) {
    PyObject *key, *mask_key, *dtype, *shape;
    Py_ssize_t offset;
    if (!PyArg_ParseTuple(field, "UUnOO!", &key, &mask_key, &offset, &dtype, &PyTuple_Type, &shape)) return -1;
    if ((dtype != Py_None && !PyArray_DescrCheck(dtype)) || PyTuple_GET_SIZE(shape) >= NPY_MAXDIMS) {
        PyErr_SetString(PyExc_TypeError, "a field is (key, mask, offset, dtype or None, shape)");
        return -1;
    }
    PyObject *column = column_of(places, slots, count, offset, dtype, shape), *mask = column ? all_true(count) : NULL;
    int failed = !mask || PyDict_SetItem(infos, key, column) < 0 || PyDict_SetItem(infos, mask_key, mask) < 0;
    Py_XDECREF(column);
    Py_XDECREF(mask);
    return failed ? -1 : 0;
}

/* columns(places, slots, fields) -> the infos of all rows (``slots`` None) or of these, all in one schema: for each
 * field its column and a mask of ones. A field is (key, mask's key, offset, dtype or None, shape). */
static PyObject *columns(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    int fits = nargs == 3 && PyArray_Check(args[0]) && PyTuple_Check(args[2]);
    PyArrayObject *places = fits ? (PyArrayObject *)args[0] : NULL;
    if (!places || PyArray_TYPE(places) != NPY_UINT8 || PyArray_NDIM(places) != 2 || !PyArray_IS_C_CONTIGUOUS(places)) {
        PyErr_SetString(PyExc_TypeError, "columns(places, slots or None, fields)");
        return NULL;
    }
    PyArrayObject *slots = args[1] == Py_None ? NULL : slot_numbers(args[1]);
    if (args[1] != Py_None && !slots) return NULL;
    npy_intp there = PyArray_DIM(places, 0), count = slots ? PyArray_SIZE(slots) : there;
    const int64_t *numbers = slots ? PyArray_DATA(slots) : NULL;
    PyObject *infos = PyDict_New();
    for (npy_intp row = 0; infos && slots && row < count; row++)
        if (numbers[row] < 0 || numbers[row] >= there) {
            PyErr_Format(PyExc_IndexError, "slot %lld of %lld", (long long)numbers[row], (long long)there);
            Py_CLEAR(infos);
        }
    for (Py_ssize_t i = 0; infos && i < PyTuple_GET_SIZE(args[2]); i++)
        if (add_column(infos, places, numbers, count, PyTuple_GET_ITEM(args[2], i)) < 0) Py_CLEAR(infos);
    Py_XDECREF(slots);
    return infos;
}

/* slots_of(groups, rows) -> the slots of a list of groups; ``rows`` holds those of each group, all of one size. */
static PyObject *slots_of(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    int fits = nargs == 2 && PyList_Check(args[0]) && PyArray_Check(args[1]);
    PyArrayObject *rows = fits ? (PyArrayObject *)args[1] : NULL;
    if (!rows || PyArray_TYPE(rows) != NPY_INT64 || PyArray_NDIM(rows) != 2 || !PyArray_IS_C_CONTIGUOUS(rows)) {
        PyErr_SetString(PyExc_TypeError, "slots_of(list of groups, their slots)");
        return NULL;
    }
    npy_intp groups = PyArray_DIM(rows, 0), each = PyArray_DIM(rows, 1), count = PyList_GET_SIZE(args[0]) * each;
    PyObject *out = PyArray_SimpleNew(1, &count, NPY_INT64);
    for (npy_intp i = 0; out && i < PyList_GET_SIZE(args[0]); i++) {
        Py_ssize_t g = PyLong_AsSsize_t(PyList_GET_ITEM(args[0], i));
        if (g < 0 || g >= groups) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_IndexError, "group %zd of %zd", g, (Py_ssize_t)groups);
            Py_CLEAR(out);
            break;
        }
        memcpy((int64_t *)PyArray_DATA((PyArrayObject *)out) + i * each, (int64_t *)PyArray_DATA(rows) + g * each,
               (size_t)each * sizeof(int64_t));
    }
    return out;
}

/* Flags have one byte a row, everything else eight. */
static int are_records(PyObject *const *args, Py_ssize_t nargs) {
    for (Py_ssize_t i = 0; i < nargs; i++) {
        int bytes = i == 1 || i == 2 ? 1 : 8;
        if (!PyArray_Check(args[i]) || PyArray_ITEMSIZE((PyArrayObject *)args[i]) != bytes) return 0;
    }
    return nargs == 6;
}

/* ended(slots, terminated, truncated, returns, lengths, times) -> (slots, returns, lengths, times) of those that ended.
 * Flags are by row, records by slot. */
static PyObject *ended(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (!are_records(args, nargs)) {
        PyErr_SetString(PyExc_TypeError, "ended(slots, terminated, truncated, returns, lengths, times)");
        return NULL;
    }
    PyArrayObject *slots = slot_numbers(args[0]);
    npy_intp size = slots ? PyArray_SIZE(slots) : 0, count = 0;
    int64_t *which = slots ? PyMem_Malloc((size_t)(size + 1) * sizeof *which) : NULL;
    if (!which) { Py_XDECREF(slots); return slots ? PyErr_NoMemory() : NULL; }
    const int64_t *numbers = PyArray_DATA(slots);
    const uint8_t *terminated = PyArray_DATA((PyArrayObject *)args[1]);
    const uint8_t *truncated = PyArray_DATA((PyArrayObject *)args[2]);
    for (npy_intp row = 0; row < size; row++)
        if (terminated[row] | truncated[row]) which[count++] = numbers[row];
    PyObject *who = PyArray_SimpleNew(1, &count, NPY_INT64);
    if (who && count) memcpy(PyArray_DATA((PyArrayObject *)who), which, (size_t)count * sizeof *which);
    PyObject *out = Py_BuildValue("(NNNN)", who, rows_of((PyArrayObject *)args[3], which, count),
                                  rows_of((PyArrayObject *)args[4], which, count),
                                  rows_of((PyArrayObject *)args[5], which, count));
    PyMem_Free(which);
    Py_DECREF(slots);
    return out;
}

static PyMethodDef functions[] = {
    {"batch", (PyCFunction)(void *)batch, METH_FASTCALL, "Fresh copies of rows, as a batch."},
    {"columns", (PyCFunction)(void *)columns, METH_FASTCALL, "The infos of rows in one schema."},
    {"slots_of", (PyCFunction)(void *)slots_of, METH_FASTCALL, "The slots of some groups."},
    {"ended", (PyCFunction)(void *)ended, METH_FASTCALL, "Which slots ended, with what is known of their episodes."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_batch", "Copies of answered rows.", -1, functions};

PyMODINIT_FUNC PyInit__batch(void) {
    import_array();
    return PyModule_Create(&module);
}
