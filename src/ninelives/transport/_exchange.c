/* The parent's side of the exchange: post requests to groups, wait until enough of them are answered.
 *
 * Twin of exchange.PyCaller and equal in behaviour; test_exchange.py runs the same tests over both. This module knows
 * groups and workers by number, nothing of environments, faults or policy.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdlib.h>
#include <string.h>
#include "bell.h"
#include "bytes.h"

/* One round is eight looks and a sched_yield. Yielding is what lets three processes share two cores: a plain spin keeps
 * the worker that should answer off the core. */
#define LOOKS_PER_ROUND 8
#define ROUND_NS 1000

/* After this many waits in a row without a yield the parent yields anyway. Otherwise, while one worker always has an
 * answer ready, another one that must run on the parent's core would get its turn only by preemption. */
#define WAITS_PER_YIELD 8

typedef struct {
    PyObject_HEAD
    Py_buffer parent, from_worker, group, bells, worker_of;
    int held;              /* how many of the buffers above are held */
    uint8_t *inflight;     /* private to the parent: asked and not yet handed out */
    uint8_t *claimed;      /* scratch of post() */
    Py_ssize_t groups, workers;
    Py_ssize_t inflight_count;
    int own_fd, extra_fd;
    long rounds;
    int64_t typical_ns;    /* how long waits usually take */
    int greedy;            /* waits since the parent last let others have its core */
} Caller;

static inline uint32_t *line(const Py_buffer *b, Py_ssize_t i) { return (uint32_t *)b->buf + i * WORDS; }

static int take(Py_buffer *b, PyObject *o, int *held) {
    if (PyObject_GetBuffer(o, b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return -1;
    ++*held;
    return 0;
}

static int Caller_init(Caller *self, PyObject *args, PyObject *kwds) {
    static char *names[] = {"parent", "from_worker", "group", "bells", "worker_of",
                            "own_fd", "extra_fd", "rounds", NULL};
    PyObject *parent, *from_worker, *group, *bells, *worker_of;
    if (!PyArg_ParseTupleAndKeywords(args, kwds, "OOOOOiil", names, &parent, &from_worker, &group, &bells, &worker_of,
                                     &self->own_fd, &self->extra_fd, &self->rounds))
        return -1;
    if (self->held) { PyErr_SetString(PyExc_RuntimeError, "Caller is initialised once"); return -1; }
    if (take(&self->parent, parent, &self->held) || take(&self->from_worker, from_worker, &self->held) ||
        take(&self->group, group, &self->held) || take(&self->bells, bells, &self->held) ||
        take(&self->worker_of, worker_of, &self->held))
        return -1;
    self->groups = self->worker_of.len / (Py_ssize_t)sizeof(int32_t);
    self->workers = self->bells.len / (Py_ssize_t)sizeof(int32_t);
    if (self->group.len < self->groups * WORDS * 4 || self->from_worker.len < self->workers * WORDS * 4) {
        PyErr_SetString(PyExc_ValueError, "control segment smaller than its groups and workers");
        return -1;
    }
    self->inflight = calloc((size_t)self->groups + 1, 1);
    self->claimed = calloc((size_t)self->workers + 1, 1);
    if (!self->inflight || !self->claimed) { PyErr_NoMemory(); return -1; }
    return 0;
}

static void Caller_dealloc(Caller *self) {
    Py_buffer *all[] = {&self->parent, &self->from_worker, &self->group, &self->bells, &self->worker_of};
    for (int i = 0; i < self->held; i++) PyBuffer_Release(all[i]);
    free(self->inflight);
    free(self->claimed);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static inline void ring_worker(Caller *self, Py_ssize_t w) {
    if (LOAD(line(&self->from_worker, w) + FROM_ASLEEP)) ring(((int32_t *)self->bells.buf)[w]);
}

static inline void send_group(Caller *self, Py_ssize_t g) {
    uint32_t *words = line(&self->group, g);
    if (!self->inflight[g]) { self->inflight[g] = 1; self->inflight_count++; }
    STORE(words + GROUP_SENT, words[GROUP_SENT] + 1);
}

static PyObject *Caller_post_all(Caller *self, PyObject *noargs) {
    for (Py_ssize_t g = 0; g < self->groups; g++) send_group(self, g);
    for (Py_ssize_t w = 0; w < self->workers; w++) ring_worker(self, w);
    Py_RETURN_NONE;
}

static int valid_group(Caller *self, Py_ssize_t g) {
    if (g >= 0 && g < self->groups) return 1;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_IndexError, "group %zd of %zd", g, self->groups);
    return 0;
}

static PyObject *Caller_post(Caller *self, PyObject *list) {
    PyObject *items = PySequence_Fast(list, "groups must be a sequence");
    if (!items) return NULL;
    memset(self->claimed, 0, (size_t)self->workers);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++) {
        Py_ssize_t g = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(items, i));
        if (!valid_group(self, g)) { Py_DECREF(items); return NULL; }
        send_group(self, g);
        self->claimed[((int32_t *)self->worker_of.buf)[g]] = 1;
    }
    Py_DECREF(items);
    for (Py_ssize_t w = 0; w < self->workers; w++)
        if (self->claimed[w]) ring_worker(self, w);
    Py_RETURN_NONE;
}

/* The parent answers this group itself: nothing is asked, so SENT == DONE already and it counts as ready at once. */
static PyObject *Caller_answer(Caller *self, PyObject *arg) {
    Py_ssize_t g = PyLong_AsSsize_t(arg);
    if (!valid_group(self, g)) return NULL;
    if (!self->inflight[g]) { self->inflight[g] = 1; self->inflight_count++; }
    Py_RETURN_NONE;
}

/* The group's worker is dead and reaped: its DONE word now belongs to the parent, which closes the open request. */
static PyObject *Caller_settle(Caller *self, PyObject *arg) {
    Py_ssize_t g = PyLong_AsSsize_t(arg);
    if (!valid_group(self, g)) return NULL;
    uint32_t *words = line(&self->group, g);
    STORE(words + GROUP_ATTENTION, 0);
    STORE(words + GROUP_DONE, words[GROUP_SENT]);
    Py_RETURN_NONE;
}

static inline int is_ready(Caller *self, Py_ssize_t g) {
    uint32_t *words = line(&self->group, g);
    return self->inflight[g] && LOAD(words + GROUP_DONE) == words[GROUP_SENT];
}

static Py_ssize_t count_ready(Caller *self) {
    Py_ssize_t n = 0;
    for (Py_ssize_t g = 0; g < self->groups; g++) n += is_ready(self, g);
    return n;
}

/* A short wait is spent polling and yielding, a long one asleep: while the parent polls, it takes a core from a worker.
 * What counts as short is learned from the waits before. */
static uint64_t look_ns(const Caller *self) { return (uint64_t)self->rounds * ROUND_NS; }

static void give_way(Caller *self) {
    self->greedy = 0;
    sched_yield();
}

static Py_ssize_t look_for(Caller *self, Py_ssize_t need, uint64_t began) {
    Py_ssize_t n;
    do {
        for (int i = 0; i < LOOKS_PER_ROUND; i++) {
            if ((n = count_ready(self)) >= need) return n;
            cpu_relax();
        }
        give_way(self);
    } while (monotonic_ns() - began < look_ns(self));
    return n;
}

static Py_ssize_t sleep_for(Caller *self, Py_ssize_t need, int64_t timeout_ns);

static Py_ssize_t wait_ready(Caller *self, Py_ssize_t need, int64_t timeout_ns) {
    if (++self->greedy > WAITS_PER_YIELD) give_way(self);
    uint64_t began = monotonic_ns();
    Py_ssize_t n = self->typical_ns > (int64_t)look_ns(self) ? count_ready(self) : look_for(self, need, began);
    if (n < need) n = sleep_for(self, need, timeout_ns);
    if (n >= need) {
        uint64_t took = monotonic_ns() - began;
        self->typical_ns += ((int64_t)took - self->typical_ns) / 8;
    }
    return n;
}

static Py_ssize_t sleep_for(Caller *self, Py_ssize_t need, int64_t timeout_ns) {
    Py_ssize_t n;
    uint32_t *parent = (uint32_t *)self->parent.buf;
    uint32_t completed = LOAD(parent + PARENT_COMPLETED);
    if ((n = count_ready(self)) >= need) return n;
    /* COMPLETED was read before counting, so the target can only be too early, never too late. */
    STORE(parent + PARENT_WAKE_AT, completed + (uint32_t)(need - n));
    STORE(parent + PARENT_ASLEEP, 1);
    if ((n = count_ready(self)) < need) {
        struct pollfd fds[2] = {{self->own_fd, POLLIN, 0}, {self->extra_fd, POLLIN, 0}};
        int ms = (int)((timeout_ns + 999999) / 1000000);
        self->greedy = 0;
        poll(fds, self->extra_fd >= 0 ? 2 : 1, ms);
        if (fds[0].revents) drain(self->own_fd);
        n = count_ready(self);
    }
    STORE(parent + PARENT_ASLEEP, 0);
    return n;
}

/* wait(need, timeout_ns) -> how many inflight groups are ready; fewer than need after a timeout, a signal, or activity
 * on the extra descriptor. Never loops: the pool looks after its workers between two waits. */
static PyObject *Caller_wait(Caller *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) { PyErr_SetString(PyExc_TypeError, "wait(need, timeout_ns)"); return NULL; }
    Py_ssize_t need = PyLong_AsSsize_t(args[0]);
    int64_t timeout_ns = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred()) return NULL;
    Py_ssize_t n;
    Py_BEGIN_ALLOW_THREADS
    n = wait_ready(self, need, timeout_ns);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals()) return NULL;
    return PyLong_FromSsize_t(n);
}

/* collect_all() -> attention bits of all groups together; every group is handed out. */
static PyObject *Caller_collect_all(Caller *self, PyObject *noargs) {
    uint32_t attention = 0;
    for (Py_ssize_t g = 0; g < self->groups; g++) attention |= line(&self->group, g)[GROUP_ATTENTION];
    memset(self->inflight, 0, (size_t)self->groups);
    self->inflight_count = 0;
    return PyLong_FromUnsignedLong(attention);
}

/* collect(need, start) -> (groups, attention): up to need ready groups, searched from start; they are handed out. */
static PyObject *Caller_collect(Caller *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) { PyErr_SetString(PyExc_TypeError, "collect(need, start)"); return NULL; }
    Py_ssize_t need = PyLong_AsSsize_t(args[0]), start = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    PyObject *out = PyList_New(0);
    if (!out) return NULL;
    uint32_t attention = 0;
    for (Py_ssize_t q = 0; q < self->groups && PyList_GET_SIZE(out) < need; q++) {
        Py_ssize_t g = (start + q) % self->groups;
        if (!is_ready(self, g)) continue;
        PyObject *number = PyLong_FromSsize_t(g);
        if (!number || PyList_Append(out, number) < 0) { Py_XDECREF(number); Py_DECREF(out); return NULL; }
        Py_DECREF(number);
        attention |= line(&self->group, g)[GROUP_ATTENTION];
        self->inflight[g] = 0;
        self->inflight_count--;
    }
    return Py_BuildValue("(Nk)", out, (unsigned long)attention);
}

/* Whether ``object`` holds exactly ``count`` contiguous rows of the same kind as ``rows``. */
static int are_rows_of(PyObject *object, PyArrayObject *rows, Py_ssize_t count) {
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != PyArray_TYPE(rows) || PyArray_NDIM(array) != PyArray_NDIM(rows)) return 0;
    if (PyArray_NDIM(array) < 1 || PyArray_DIM(array, 0) != count) return 0;
    for (int i = 1; i < PyArray_NDIM(array); i++)
        if (PyArray_DIM(array, i) != PyArray_DIM(rows, i)) return 0;
    return PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISNOTSWAPPED(array) &&
           PyArray_IS_C_CONTIGUOUS(rows) && PyArray_ISNOTSWAPPED(rows);
}

/* Calls ``note`` (or nothing, if None) with these arguments, before anything is posted. */
static int note_first(PyObject *note, PyObject *const *args, size_t count) {
    if (note == Py_None) return 0;
    PyObject *done = PyObject_Vectorcall(note, args, count, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* exchange_all(actions, rows, note, sent_ns, timeout_ns, until_ns): the whole common step of a synchronous pool in one
 * call. ``note()`` (or None) is called after the actions are written and before anything is posted.
 * -> attention bits once every group has answered; -2 if the actions are not plain rows (nothing was sent); -1 if they
 * were sent and the answers are not complete, or if it is time to look after the workers (go on with wait, collect). */
static PyObject *Caller_exchange_all(Caller *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 6 || !PyArray_Check(args[1]) || !PyArray_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "exchange_all(actions, rows, note, sent_ns, timeout_ns, until_ns)");
        return NULL;
    }
    PyArrayObject *rows = (PyArrayObject *)args[1], *sent = (PyArrayObject *)args[3];
    if (self->inflight_count || !PyArray_NDIM(rows) || !are_rows_of(args[0], rows, PyArray_DIM(rows, 0)))
        return PyLong_FromLong(-2);
    int64_t timeout_ns = PyLong_AsLongLong(args[4]), until_ns = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) return NULL;
    copy_bytes(PyArray_DATA(rows), PyArray_DATA((PyArrayObject *)args[0]), (size_t)PyArray_NBYTES(rows));
    if (note_first(args[2], NULL, 0) < 0) return NULL;
    int64_t now = (int64_t)monotonic_ns(), *times = PyArray_DATA(sent);
    for (Py_ssize_t g = 0; g < self->groups && g < PyArray_SIZE(sent); g++) times[g] = now;
    Py_DECREF(Caller_post_all(self, NULL));
    Py_ssize_t ready;
    Py_BEGIN_ALLOW_THREADS
    ready = wait_ready(self, self->groups, timeout_ns);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals()) return NULL;
    if (ready < self->groups || (int64_t)monotonic_ns() >= until_ns) return PyLong_FromLong(-1);
    return Caller_collect_all(self, NULL);
}

static int are_idle(Caller *self, PyObject *groups) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        Py_ssize_t g = PyLong_AsSsize_t(PyList_GET_ITEM(groups, i));
        if (!valid_group(self, g)) return -1;
        if (self->inflight[g]) return 0;
    }
    return 1;
}

static int are_rows_there(const int64_t *slots, Py_ssize_t count, Py_ssize_t rows) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (slots[i] < 0 || slots[i] >= rows) return 0;
    return 1;
}

/* send_some(actions, rows, slots, groups, note, sent_ns) -> whether it was sent: a batch goes back to whole groups,
 * with actions that are plain rows. ``note(slots)`` (or None) is called before anything is posted. */
static PyObject *Caller_send_some(Caller *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 6 || !PyArray_Check(args[1]) || !PyArray_Check(args[2]) || !PyList_Check(args[3]) ||
        !PyArray_Check(args[5])) {
        PyErr_SetString(PyExc_TypeError, "send_some(actions, rows, slots, groups, note, sent_ns)");
        return NULL;
    }
    PyArrayObject *rows = (PyArrayObject *)args[1], *slots = (PyArrayObject *)args[2], *sent = (PyArrayObject *)args[5];
    Py_ssize_t count = PyArray_SIZE(slots), there = PyArray_NDIM(rows) ? PyArray_DIM(rows, 0) : 0;
    if (PyArray_TYPE(slots) != NPY_INT64 || !PyArray_IS_C_CONTIGUOUS(slots) || !are_rows_of(args[0], rows, count))
        Py_RETURN_FALSE;
    int idle = are_idle(self, args[3]);
    if (idle <= 0) return idle < 0 ? NULL : Py_NewRef(Py_False);
    const int64_t *which = PyArray_DATA(slots);
    if (!are_rows_there(which, count, there)) Py_RETURN_FALSE;
    size_t bytes = (size_t)PyArray_NBYTES(rows) / (size_t)(there ? there : 1);
    const char *from = PyArray_BYTES((PyArrayObject *)args[0]);
    for (Py_ssize_t i = 0; i < count; i++, from += bytes)
        copy_bytes(PyArray_BYTES(rows) + (size_t)which[i] * bytes, from, bytes);
    if (note_first(args[4], args + 2, 1) < 0) return NULL;
    int64_t now = (int64_t)monotonic_ns(), *times = PyArray_DATA(sent);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[3]); i++) {
        Py_ssize_t g = PyLong_AsSsize_t(PyList_GET_ITEM(args[3], i));
        if (g < PyArray_SIZE(sent)) times[g] = now;
    }
    PyObject *posted = Caller_post(self, args[3]);
    if (!posted) return NULL;
    Py_DECREF(posted);
    Py_RETURN_TRUE;
}

/* recv_some(need, start, timeout_ns, until_ns) -> what collect() gives, once so many groups are ready; None if they are
 * not in time, or if it is time to look after the workers (nothing is handed out: go on with wait and collect). */
static PyObject *Caller_recv_some(Caller *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 4) { PyErr_SetString(PyExc_TypeError, "recv_some(need, start, timeout_ns, until_ns)"); return NULL; }
    Py_ssize_t need = PyLong_AsSsize_t(args[0]);
    int64_t timeout_ns = PyLong_AsLongLong(args[2]), until_ns = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred()) return NULL;
    Py_ssize_t ready;
    Py_BEGIN_ALLOW_THREADS
    ready = wait_ready(self, need, timeout_ns);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals()) return NULL;
    if (ready < need || (int64_t)monotonic_ns() >= until_ns) Py_RETURN_NONE;
    return Caller_collect(self, args, 2);
}

static PyObject *Caller_is_inflight(Caller *self, PyObject *arg) {
    Py_ssize_t g = PyLong_AsSsize_t(arg);
    if (!valid_group(self, g)) return NULL;
    return PyBool_FromLong(self->inflight[g]);
}

/* is_open(group): asked of a worker and not answered by it. */
static PyObject *Caller_is_open(Caller *self, PyObject *arg) {
    Py_ssize_t g = PyLong_AsSsize_t(arg);
    if (!valid_group(self, g)) return NULL;
    uint32_t *words = line(&self->group, g);
    return PyBool_FromLong(LOAD(words + GROUP_DONE) != words[GROUP_SENT]);
}

static PyObject *Caller_get_inflight(Caller *self, void *closure) { return PyLong_FromSsize_t(self->inflight_count); }
static PyObject *Caller_get_extra(Caller *self, void *closure) { return PyLong_FromLong(self->extra_fd); }
static int Caller_set_extra(Caller *self, PyObject *value, void *closure) {
    long fd = value ? PyLong_AsLong(value) : -1;
    if (PyErr_Occurred()) return -1;
    self->extra_fd = (int)fd;
    return 0;
}

static PyMethodDef Caller_methods[] = {
    {"post_all", (PyCFunction)Caller_post_all, METH_NOARGS, "Ask every group and ring sleeping workers."},
    {"post", (PyCFunction)Caller_post, METH_O, "Ask these groups and ring their workers if asleep."},
    {"answer", (PyCFunction)Caller_answer, METH_O, "Mark a group as answered by the parent itself."},
    {"settle", (PyCFunction)Caller_settle, METH_O, "Close the open request of a dead worker's group."},
    {"wait", (PyCFunction)(void *)Caller_wait, METH_FASTCALL, "Wait for ready groups; returns how many are."},
    {"collect_all", (PyCFunction)Caller_collect_all, METH_NOARGS, "Hand out every group; returns attention bits."},
    {"exchange_all", (PyCFunction)(void *)Caller_exchange_all, METH_FASTCALL, "Send, wait and collect everything."},
    {"collect", (PyCFunction)(void *)Caller_collect, METH_FASTCALL, "Hand out ready groups, searched from start."},
    {"send_some", (PyCFunction)(void *)Caller_send_some, METH_FASTCALL, "Send a batch back to its groups."},
    {"recv_some", (PyCFunction)(void *)Caller_recv_some, METH_FASTCALL, "Wait for ready groups and hand them out."},
    {"is_inflight", (PyCFunction)Caller_is_inflight, METH_O, "Whether a group was asked and not handed out."},
    {"is_open", (PyCFunction)Caller_is_open, METH_O, "Whether a group still waits for its worker."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef Caller_getset[] = {
    {"inflight_count", (getter)Caller_get_inflight, NULL, "How many groups are asked and not handed out.", NULL},
    {"extra_fd", (getter)Caller_get_extra, (setter)Caller_set_extra, "A descriptor that also ends a wait.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject CallerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.transport._exchange.Caller",
    .tp_basicsize = sizeof(Caller),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The parent's side of the exchange.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Caller_init,
    .tp_dealloc = (destructor)Caller_dealloc,
    .tp_methods = Caller_methods,
    .tp_getset = Caller_getset,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_exchange", "Native doorbells of the parent.", -1, NULL};

PyMODINIT_FUNC PyInit__exchange(void) {
    import_array();
    if (PyType_Ready(&CallerType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Caller", (PyObject *)&CallerType) < 0) { Py_DECREF(m); return NULL; }
    return m;
}
