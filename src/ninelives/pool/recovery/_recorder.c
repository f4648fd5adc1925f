/* Records each action before it is sent, with the digest of the row it answers. One call per batch.
 *
 * Twin of recorder.PyActionRecorder and equal in behaviour; test_journal.py runs the same tests over both. Reads only
 * words that workers have published: a request is recorded before it is posted, while its group is idle.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>
#include "slot_numbers.h"

enum { STEP = 1, AUTORESET = 2, MAX_BUFFERS = 12 };

typedef struct {
    PyObject_HEAD
    Py_buffer buffers[MAX_BUFFERS];
    int held;
    int64_t *begun, *episode, *count, *base;
    uint8_t *ended, *pending, *blind, *actions;
    uint32_t *digest, *seen, *digests;
    char *rows;
    Py_ssize_t slots, chunk, width, row_bytes;
    int narrow, item_bytes, next_step;
    int64_t low, high;
    PyObject *full;
} Recorder;

static void *hold(Recorder *self, PyObject *owner, const char *name, Py_ssize_t *bytes) {
    PyObject *array = name ? PyObject_GetAttrString(owner, name) : Py_NewRef(owner);
    if (!array) return NULL;
    Py_buffer *b = &self->buffers[self->held];
    int failed = PyObject_GetBuffer(array, b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0;
    Py_DECREF(array);
    if (failed) return NULL;
    self->held++;
    if (bytes) *bytes = b->len;
    return b->buf;
}

static int hold_arrays(Recorder *self, PyObject *control, PyObject *records, PyObject *rows) {
    Py_ssize_t count_bytes, action_bytes, digest_bytes, row_bytes;
    if (!(self->begun = hold(self, control, "begun", NULL)) || !(self->ended = hold(self, control, "ended", NULL)) ||
        !(self->digest = hold(self, control, "digest", NULL)) ||
        !(self->episode = hold(self, records, "episode", NULL)) ||
        !(self->count = hold(self, records, "count", &count_bytes)) ||
        !(self->base = hold(self, records, "base", NULL)) || !(self->pending = hold(self, records, "pending", NULL)) ||
        !(self->blind = hold(self, records, "blind", NULL)) || !(self->seen = hold(self, records, "seen", NULL)) ||
        !(self->actions = hold(self, records, "actions", &action_bytes)) ||
        !(self->digests = hold(self, records, "digests", &digest_bytes)) ||
        !(self->rows = hold(self, rows, NULL, &row_bytes)))
        return -1;
    self->slots = count_bytes / (Py_ssize_t)sizeof(int64_t);
    self->chunk = self->slots ? digest_bytes / (Py_ssize_t)sizeof(uint32_t) / self->slots : 0;
    if (!self->chunk) { PyErr_SetString(PyExc_ValueError, "there are no slots to record"); return -1; }
    self->width = action_bytes / self->slots / self->chunk;
    self->row_bytes = row_bytes / self->slots;
    return 0;
}

static int Recorder_init(Recorder *self, PyObject *args, PyObject *kwds) {
    static char *names[] = {"control", "records", "rows", "narrow", "item_bytes",
                            "low", "high", "next_step", "full", NULL};
    PyObject *control, *records, *rows, *full;
    if (!PyArg_ParseTupleAndKeywords(args, kwds, "OOOiiLLpO", names, &control, &records, &rows, &self->narrow,
                                     &self->item_bytes, &self->low, &self->high, &self->next_step, &full))
        return -1;
    if (self->held) { PyErr_SetString(PyExc_RuntimeError, "Recorder is initialised once"); return -1; }
    if (hold_arrays(self, control, records, rows) < 0) return -1;
    self->full = Py_NewRef(full);
    return 0;
}

static void Recorder_dealloc(Recorder *self) {
    for (int i = 0; i < self->held; i++) PyBuffer_Release(&self->buffers[i]);
    Py_XDECREF(self->full);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int64_t number_at(const char *row, int bytes) {
    int8_t one; int16_t two; int32_t four; int64_t eight;
    switch (bytes) {
    case 1: memcpy(&one, row, 1); return one;
    case 2: memcpy(&two, row, 2); return two;
    case 4: memcpy(&four, row, 4); return four;
    default: memcpy(&eight, row, 8); return eight;
    }
}

/* The bytes of a slot's action. An action outside its space cannot be recorded: the episode is marked blind. */
static inline void write_action(Recorder *self, Py_ssize_t s, uint8_t *into) {
    const char *row = self->rows + s * self->row_bytes;
    if (!self->narrow) { memcpy(into, row, (size_t)self->width); return; }
    int64_t number = number_at(row, self->item_bytes);
    if (number < self->low || number > self->high) self->blind[s] = 1;
    uint64_t small = (uint64_t)(number - self->low);
    memcpy(into, &small, (size_t)self->narrow);           /* little-endian: the low bytes come first */
}

static void begin_episode(Recorder *self, Py_ssize_t s, int64_t begun) {
    self->episode[s] = begun;
    self->count[s] = self->base[s] = 0;
    self->blind[s] = 0;
}

static int note_slot(Recorder *self, Py_ssize_t s) {
    if (self->episode[s] != self->begun[s]) begin_episode(self, s, self->begun[s]);
    uint32_t digest = self->seen[s] = self->digest[s];
    if (self->next_step && self->ended[s]) { self->pending[s] = AUTORESET; return 0; }
    self->pending[s] = STEP;
    Py_ssize_t place = s * self->chunk + (Py_ssize_t)(self->count[s] - self->base[s]);
    write_action(self, s, self->actions + place * self->width);
    self->digests[place] = digest;
    if (++self->count[s] - self->base[s] < self->chunk) return 0;
    PyObject *done = PyObject_CallFunction(self->full, "n", s);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *Recorder_note_all(Recorder *self, PyObject *noargs) {
    for (Py_ssize_t s = 0; s < self->slots; s++)
        if (note_slot(self, s) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *Recorder_note(Recorder *self, PyObject *slots) {
    PyArrayObject *array = slot_numbers(slots);
    if (!array) return NULL;
    const int64_t *numbers = PyArray_DATA(array);
    for (Py_ssize_t i = 0; i < PyArray_SIZE(array); i++) {
        int outside = numbers[i] < 0 || numbers[i] >= self->slots;
        if (outside) PyErr_Format(PyExc_IndexError, "slot %lld of %zd", (long long)numbers[i], self->slots);
        if (outside || note_slot(self, (Py_ssize_t)numbers[i]) < 0) { Py_DECREF(array); return NULL; }
    }
    Py_DECREF(array);
    Py_RETURN_NONE;
}

static PyMethodDef Recorder_methods[] = {
    {"note_all", (PyCFunction)Recorder_note_all, METH_NOARGS, "Every slot is about to be stepped."},
    {"note", (PyCFunction)Recorder_note, METH_O, "These slots are about to be stepped."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject RecorderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.pool.recovery._recorder.Recorder",
    .tp_basicsize = sizeof(Recorder),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Records requests about to be posted.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Recorder_init,
    .tp_dealloc = (destructor)Recorder_dealloc,
    .tp_methods = Recorder_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_recorder", "Native recorder of actions.", -1, NULL};

PyMODINIT_FUNC PyInit__recorder(void) {
    import_array();
    if (PyType_Ready(&RecorderType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Recorder", (PyObject *)&RecorderType) < 0) { Py_DECREF(m); return NULL; }
    return m;
}
