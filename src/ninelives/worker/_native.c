/* The worker's inner loop: wait for a request, step each slot of the group, write its row in place, publish.
 *
 * Only the common step and its autoreset are here. Everything rare (asked resets, calls, odd spaces, infos, exceptions,
 * same-step endings) is a call into the Python EnvSlot, which also holds the whole step for the pure-Python path. Both behave the same:
 * test_loop_twins.py runs every case over both.
 *
 * With it what a step leaves behind for healing: digests of rows, and generator states.
 *
 * Also here: a signal handler that writes the native stack, because only native code may run while Python hangs.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <execinfo.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "bell.h"
#include "bytes.h"
#include "digest.h"

enum { PHASE_IDLE = 0, PHASE_RESET = 3, PHASE_STEP = 4 };
enum { OP_NONE = 0, OP_STEP = 1 };
enum { ATTENTION_ENDED = 2 };
enum { NEXT_STEP = 0, SAME_STEP = 1 };
enum { LEAF_ARRAY = 1, LEAF_INT = 2 };
enum { HISTOGRAM_BUCKETS = 80, MAX_BUFFERS = 40, MAX_LEAVES = 32, MAX_DIMS = 8 };

/* One array of the observation: where its rows lie, how one looks, and where it is in what an environment returns. */
typedef struct {
    Py_buffer buffer;
    PyObject *path;         /* (key,) into a dict, (place, length) into a tuple, outermost first */
    char *rows;
    Py_ssize_t bytes;       /* of one row */
    int kind, type, dims;   /* type: numpy's number of it */
    Py_ssize_t shape[MAX_DIMS];
} Leaf;

/* The same as control.RECORD. */
typedef struct {
    double running_return;
    int64_t running_length;
    uint64_t steps, step_ns;
    uint8_t torn, rest_of_line[31];
    int64_t saved_at, save_every, state_bytes, mail;
    uint64_t began;
    uint8_t status, rest[23];
} Record;
_Static_assert(sizeof(Record) == 128, "control.RECORD_BYTES");

/* one environment */
typedef struct {
    PyObject *slot, *step, *reset, *base;
    Py_ssize_t index;
} Seat;

typedef struct { Py_ssize_t group; Py_ssize_t count; Seat *seats; uint32_t asked; } Table; /* one group of them */

typedef struct {
    PyObject_HEAD
    Py_buffer buffers[MAX_BUFFERS];
    int held;
    Table *tables;
    Py_ssize_t table_count, turn;
    uint32_t *parent, *to, *from, *group;
    Record *record;
    uint64_t *since, *episodes, *reset_ns;
    uint8_t *op, *ended, *terminated, *truncated;
    double *reward, *episode_return, *episode_time;
    int64_t *episode_length, *begun, *restore;
    uint32_t *histogram, *digest;
    Leaf leaves[MAX_LEAVES];
    int leaf_count;        /* 0: rows are written and digested by the slot */
    int check_nan, always_info;
    int traces;            /* leave digests, so that a dead worker's episodes can be brought back */
    int asks_seed;         /* resets go through the slot, which knows the episode's seed */
    int64_t *actions;      /* NULL: ask the slot */
    int autoreset, bell_fd, parent_fd;
    long rounds;
    PyObject *bad_value;   /* BadValueError: the environment's data is wrong, not its code */
    PyObject *s_serve, *s_read_action, *s_put_obs, *s_put_info, *s_end_same_step, *s_fail, *s_save_state, *s_begin_episode;
    PyObject *s_np_random, *s_bit_generator, *s_capsule;
    PyObject *pcg64;       /* the class whose layout is known, or None */
    char *rng;
} Loop;

static void *hold(Loop *self, PyObject *owner, const char *name) {
    PyObject *array = PyObject_GetAttrString(owner, name);
    if (!array) return NULL;
    if (self->held == MAX_BUFFERS) { Py_DECREF(array); PyErr_SetString(PyExc_RuntimeError, "too many buffers"); return NULL; }
    Py_buffer *b = &self->buffers[self->held];
    int failed = PyObject_GetBuffer(array, b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0;
    Py_DECREF(array);
    if (failed) return NULL;
    self->held++;
    return b->buf;
}

static int hold_control(Loop *self, PyObject *control, Py_ssize_t worker) {
    struct { const char *name; void *into; } wanted[] = {
        {"parent", &self->parent}, {"to_worker", &self->to}, {"from_worker", &self->from}, {"group", &self->group},
        {"since_ns", &self->since}, {"op", &self->op}, {"ended", &self->ended}, {"terminated", &self->terminated},
        {"truncated", &self->truncated}, {"reward", &self->reward}, {"episode_return", &self->episode_return},
        {"episode_length", &self->episode_length}, {"episode_time_s", &self->episode_time}, {"episodes", &self->episodes},
        {"reset_ns", &self->reset_ns}, {"step_histogram", &self->histogram}, {"begun", &self->begun},
        {"restore_bytes", &self->restore}, {"record", &self->record}, {"digest", &self->digest}, {"rng", &self->rng}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *p = hold(self, control, wanted[i].name);
        if (!p) return -1;
        memcpy(wanted[i].into, &p, sizeof p);
    }
    self->to += worker * WORDS;
    self->from += worker * WORDS;
    self->since += worker * 8;
    return 0;
}

static int hold_leaf(Leaf *leaf, PyObject *told) {
    PyObject *array, *shape, *path;
    if (!PyArg_ParseTuple(told, "OiiO!O!", &array, &leaf->type, &leaf->kind, &PyTuple_Type, &shape, &PyTuple_Type, &path))
        return -1;
    leaf->dims = (int)PyTuple_GET_SIZE(shape);
    if (leaf->dims > MAX_DIMS) { PyErr_SetString(PyExc_ValueError, "too many dimensions"); return -1; }
    if (PyObject_GetBuffer(array, &leaf->buffer, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return -1;
    leaf->path = Py_NewRef(path);
    leaf->rows = leaf->buffer.buf;
    leaf->bytes = leaf->buffer.itemsize;
    for (int i = 0; i < leaf->dims; i++) {
        leaf->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        leaf->bytes *= leaf->shape[i];
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* observation: a list of (array over all slots, numpy type number, kind, shape of one row, path) */
static int hold_observation(Loop *self, PyObject *observation) {
    if (PyList_GET_SIZE(observation) > MAX_LEAVES) { PyErr_SetString(PyExc_ValueError, "too many leaves"); return -1; }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(observation); i++) {
        Leaf *leaf = &self->leaves[self->leaf_count];
        if (hold_leaf(leaf, PyList_GET_ITEM(observation, i)) < 0) return -1;
        self->leaf_count++;
    }
    return 0;
}

/* groups: a list of (group number, list of (slot number, EnvSlot, env.step, env.reset, innermost environment)) */
static int hold_groups(Loop *self, PyObject *groups) {
    self->table_count = PyList_Size(groups);
    if (self->table_count < 0) return -1;
    self->tables = calloc((size_t)self->table_count + 1, sizeof(Table));
    if (!self->tables) { PyErr_NoMemory(); return -1; }
    for (Py_ssize_t t = 0; t < self->table_count; t++) {
        Table *table = &self->tables[t];
        PyObject *seats;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(groups, t), "nO!", &table->group, &PyList_Type, &seats)) return -1;
        table->seats = calloc((size_t)PyList_GET_SIZE(seats) + 1, sizeof(Seat));
        if (!table->seats) { PyErr_NoMemory(); return -1; }
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(seats); i++) {
            Seat *seat = &table->seats[i];
            if (!PyArg_ParseTuple(PyList_GET_ITEM(seats, i), "nOOOO", &seat->index, &seat->slot, &seat->step,
                                  &seat->reset, &seat->base))
                return -1;
            Py_INCREF(seat->slot);
            Py_INCREF(seat->step);
            Py_INCREF(seat->reset);
            Py_INCREF(seat->base);
            table->count++;
        }
    }
    return 0;
}

static int Loop_init(Loop *self, PyObject *args, PyObject *kwds) {
    static char *names[] = {"control", "worker", "groups", "observation", "actions", "check_nan",
                            "always_info", "traces", "asks_seed", "pcg64", "autoreset", "bell_fd", "parent_fd", "rounds", NULL};
    PyObject *control, *groups, *observation, *actions, *pcg64;
    Py_ssize_t worker;
    if (!PyArg_ParseTupleAndKeywords(args, kwds, "OnO!O!OppppOiiil", names, &control, &worker, &PyList_Type, &groups,
                                     &PyList_Type, &observation, &actions, &self->check_nan, &self->always_info, &self->traces, &self->asks_seed, &pcg64, &self->autoreset, &self->bell_fd,
                                     &self->parent_fd, &self->rounds))
        return -1;
    if (self->held) { PyErr_SetString(PyExc_RuntimeError, "Loop is initialised once"); return -1; }
    self->s_serve = PyUnicode_InternFromString("serve");
    self->s_read_action = PyUnicode_InternFromString("read_action");
    self->s_put_obs = PyUnicode_InternFromString("put_obs");
    self->s_put_info = PyUnicode_InternFromString("put_info");
    self->s_end_same_step = PyUnicode_InternFromString("end_same_step");
    self->s_fail = PyUnicode_InternFromString("fail");
    self->s_save_state = PyUnicode_InternFromString("save_state");
    self->s_begin_episode = PyUnicode_InternFromString("begin_episode");
    self->s_np_random = PyUnicode_InternFromString("np_random");
    self->s_bit_generator = PyUnicode_InternFromString("bit_generator");
    self->s_capsule = PyUnicode_InternFromString("capsule");
    self->pcg64 = Py_NewRef(pcg64);
    PyObject *arrays = PyImport_ImportModule("ninelives.spec.arrays");
    self->bad_value = arrays ? PyObject_GetAttrString(arrays, "BadValueError") : NULL;
    Py_XDECREF(arrays);
    if (!self->bad_value || !self->s_capsule || hold_control(self, control, worker) || hold_observation(self, observation)) return -1;
    if (actions != Py_None) {
        Py_buffer *b = &self->buffers[self->held];
        if (PyObject_GetBuffer(actions, b, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return -1;
        self->held++;
        self->actions = b->buf;
    }
    return hold_groups(self, groups);
}

static void Loop_dealloc(Loop *self) {
    for (int i = 0; i < self->held; i++) PyBuffer_Release(&self->buffers[i]);
    for (int i = 0; i < MAX_LEAVES; i++) {
        if (self->leaves[i].buffer.obj) PyBuffer_Release(&self->leaves[i].buffer);
        Py_XDECREF(self->leaves[i].path);
    }
    for (Py_ssize_t t = 0; self->tables && t < self->table_count; t++) {
        for (Py_ssize_t i = 0; i < self->tables[t].count; i++) {
            Py_XDECREF(self->tables[t].seats[i].slot);
            Py_XDECREF(self->tables[t].seats[i].step);
            Py_XDECREF(self->tables[t].seats[i].reset);
            Py_XDECREF(self->tables[t].seats[i].base);
        }
        free(self->tables[t].seats);
    }
    free(self->tables);
    Py_XDECREF(self->bad_value);
    Py_XDECREF(self->s_serve);
    Py_XDECREF(self->s_read_action);
    Py_XDECREF(self->s_put_obs);
    Py_XDECREF(self->s_put_info);
    Py_XDECREF(self->s_end_same_step);
    Py_XDECREF(self->s_fail);
    Py_XDECREF(self->s_save_state);
    Py_XDECREF(self->s_begin_episode);
    Py_XDECREF(self->s_np_random);
    Py_XDECREF(self->s_bit_generator);
    Py_XDECREF(self->s_capsule);
    Py_XDECREF(self->pcg64);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- digests ---------------------------------------------------------------------------------------------------- */

/* Digest the row that was just written. Rows with parts that travel by mail are digested by the slot. */
static int seal_row(Loop *self, Seat *seat, double reward, int flags) {
    if (!self->traces) return 0;
    if (!self->leaf_count) {
        PyObject *done = PyObject_CallMethod(seat->slot, "seal", "di", reward, flags);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    uint64_t digest = 0;
    for (int i = 0; i < self->leaf_count; i++) { /* one leaf after the other, each going on from the one before */
        const Leaf *leaf = &self->leaves[i];
        digest = digest_bytes(leaf->rows + seat->index * leaf->bytes, (size_t)leaf->bytes, digest);
    }
    self->digest[seat->index] = digest_row(digest, reward, flags);
    return 0;
}

/* ---- generators -------------------------------------------------------------------------------------------------- */

/* numpy's own layout of a PCG64 behind its public bitgen_t. It has not changed since numpy 1.17, and nobody relies on
 * it unchecked: rng.py compares what is read here with what numpy says before it uses it. */
typedef struct { char state[16], inc[16]; } Pcg;
typedef struct { Pcg *pcg; int has_uint32; uint32_t uinteger; } PcgState;
typedef struct { PcgState *state; } BitGenerator;

enum { RNG_BYTES = 48, RNG_KNOWN = 40 };

static void copy_pcg(const BitGenerator *bits, char *to) {
    memcpy(to, bits->state->pcg, 32);
    memcpy(to + 32, &bits->state->has_uint32, 4);
    memcpy(to + 36, &bits->state->uinteger, 4);
}

/* Remember with which generator the slot's next episode begins, beside the present one's. 0: let Python do it. */
static int record_generator(Loop *self, Seat *seat) {
    if (self->pcg64 == Py_None) return 0;
    PyObject *generator = PyObject_GetAttr(seat->base, self->s_np_random);
    PyObject *bits = generator ? PyObject_GetAttr(generator, self->s_bit_generator) : NULL;
    PyObject *capsule = bits && (PyObject *)Py_TYPE(bits) == self->pcg64 ? PyObject_GetAttr(bits, self->s_capsule) : NULL;
    BitGenerator *found = capsule ? PyCapsule_GetPointer(capsule, "BitGenerator") : NULL;
    if (found) {
        Py_ssize_t s = seat->index;
        char *place = self->rng + (2 * s + (self->begun[s] + 1) % 2) * RNG_BYTES;
        copy_pcg(found, place);
        place[RNG_KNOWN] = 1;
    }
    Py_XDECREF(generator);
    Py_XDECREF(bits);
    Py_XDECREF(capsule);
    PyErr_Clear();
    return found != NULL;
}

/* ---- one slot -------------------------------------------------------------------------------------------------- */

static inline void stamp(Loop *self, uint32_t phase, Py_ssize_t slot, uint64_t now) {
    self->from[FROM_SLOT] = (uint32_t)(slot + 1);
    self->since[0] = now;
    STORE(self->from + FROM_PHASE, phase);
}

static inline void count_step(Loop *self, Py_ssize_t s, uint64_t took) {
    self->record[s].steps++;
    self->record[s].step_ns += took;
    uint64_t v = took < 2 ? 2 : took;
    int octave = 63 - __builtin_clzll(v);
    int bucket = 2 * octave + (int)((v >> (octave - 1)) & 1);
    self->histogram[s * HISTOGRAM_BUCKETS + (bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1)]++;
}

static int attention_of(PyObject *result, uint32_t *attention) {
    if (!result) return -1;
    unsigned long bits = PyLong_AsUnsignedLong(result);
    Py_DECREF(result);
    if (PyErr_Occurred()) return -1;
    *attention |= (uint32_t)bits;
    return 0;
}

static int has_nan(const Leaf *leaf, const void *data) {
    if (leaf->type == NPY_FLOAT) {
        const float *p = data;
        for (Py_ssize_t i = 0; i < leaf->bytes / 4; i++) if (isnan(p[i])) return 1;
    } else if (leaf->type == NPY_DOUBLE) {
        const double *p = data;
        for (Py_ssize_t i = 0; i < leaf->bytes / 8; i++) if (isnan(p[i])) return 1;
    }
    return 0;
}

/* The leaf's part of an observation, borrowed; NULL: it is not there, or in another structure than the plainest. */
static PyObject *find_part(const Leaf *leaf, PyObject *obs) {
    for (Py_ssize_t i = 0; obs && i < PyTuple_GET_SIZE(leaf->path); i++) {
        PyObject *way = PyTuple_GET_ITEM(leaf->path, i);
        if (PyTuple_GET_SIZE(way) == 1) {
            obs = PyDict_CheckExact(obs) ? PyDict_GetItemWithError(obs, PyTuple_GET_ITEM(way, 0)) : NULL;
            continue;
        }
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(way, 0)), length = PyLong_AsSsize_t(PyTuple_GET_ITEM(way, 1));
        obs = PyTuple_CheckExact(obs) && PyTuple_GET_SIZE(obs) == length ? PyTuple_GET_ITEM(obs, place) : NULL;
    }
    return obs;
}

/* The bytes of a part that is exactly what the space declares, else NULL; ``number`` is where an int's are put. */
static const void *bytes_of(const Loop *self, const Leaf *leaf, PyObject *part, int64_t *number) {
    if (leaf->kind == LEAF_INT && PyLong_CheckExact(part)) {
        *number = PyLong_AsLongLong(part);
        return *number == -1 && PyErr_Occurred() ? NULL : number;
    }
    if (!PyArray_CheckExact(part)) return NULL;
    PyArrayObject *array = (PyArrayObject *)part;
    if (PyArray_TYPE(array) != leaf->type || PyArray_NDIM(array) != leaf->dims) return NULL;
    if (!PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISNOTSWAPPED(array)) return NULL;
    for (int i = 0; i < leaf->dims; i++)
        if (PyArray_DIM(array, i) != leaf->shape[i]) return NULL;
    const void *data = PyArray_DATA(array);
    return self->check_nan && has_nan(leaf, data) ? NULL : data;
}

/* For words that are read only once their writer is dead and reaped: then everything that it did is visible, in its order.
 * Only the compiler must not change that order. */
#define KEEP_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Writes the row if every part is exactly what the space declares; 0 means "let Python decide" (cast, or complain).
 * All parts are found before the first is written: a row is never half of one step and half of another. */
static int write_row(Loop *self, Py_ssize_t s, PyObject *obs) {
    const void *found[MAX_LEAVES];
    int64_t numbers[MAX_LEAVES];
    for (int i = 0; i < self->leaf_count; i++) {
        PyObject *part = find_part(&self->leaves[i], obs);
        found[i] = part ? bytes_of(self, &self->leaves[i], part, &numbers[i]) : NULL;
        if (!found[i]) { PyErr_Clear(); return 0; }
    }
    self->record[s].torn = 1;
    KEEP_ORDER();
    for (int i = 0; i < self->leaf_count; i++) {
        const Leaf *leaf = &self->leaves[i];
        copy_bytes(leaf->rows + s * leaf->bytes, found[i], (size_t)leaf->bytes);
    }
    KEEP_ORDER();
    self->record[s].torn = 0;
    return 1;
}

static int write_observation(Loop *self, Seat *seat, PyObject *obs) {
    if (self->leaf_count && write_row(self, seat->index, obs)) return 0;
    PyObject *done = PyObject_CallMethodOneArg(seat->slot, self->s_put_obs, obs);
    if (!done) return -1;
    Py_DECREF(done);
    return 0;
}

static PyObject *action_for(Loop *self, Seat *seat) {
    if (self->actions) return PyLong_FromLongLong(self->actions[seat->index]);
    return PyObject_CallMethodNoArgs(seat->slot, self->s_read_action);
}

static int refuse_reward(Loop *self, PyObject *reward) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
    PyErr_Clear();
    PyObject *name = PyType_GetName(Py_TYPE(reward));
    if (name) PyErr_Format(self->bad_value, "reward: %U is not a number", name);
    Py_XDECREF(name);
    return -1;
}

/* Lines of these words are shared with the parent and with other workers' slots: they are left alone where nothing changes. */
static inline void put_if_new(void *place, const void *value, size_t bytes) {
    if (memcmp(place, value, bytes)) memcpy(place, value, bytes);
}

/* The answer of env.step into the row. Everything is checked before the slot's counters move. */
static int take_answer(Loop *self, Seat *seat, PyObject *answer, uint32_t *attention) {
    Py_ssize_t s = seat->index;
    if (!PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) != 5) {
        PyErr_SetString(self->bad_value, "env.step() must return (obs, reward, terminated, truncated, info)");
        return -1;
    }
    PyObject *obs = PyTuple_GET_ITEM(answer, 0), *info = PyTuple_GET_ITEM(answer, 4);
    double reward = PyFloat_AsDouble(PyTuple_GET_ITEM(answer, 1));
    if (reward == -1.0 && PyErr_Occurred()) return refuse_reward(self, PyTuple_GET_ITEM(answer, 1));
    if (isnan(reward)) { PyErr_SetString(self->bad_value, "reward: holds NaN"); return -1; }
    int is_terminated = PyObject_IsTrue(PyTuple_GET_ITEM(answer, 2)), is_truncated = PyObject_IsTrue(PyTuple_GET_ITEM(answer, 3));
    if (is_terminated < 0 || is_truncated < 0) return -1;
    uint8_t terminated = (uint8_t)is_terminated, truncated = (uint8_t)is_truncated;
    int over = terminated || truncated;
    int same_step = over && self->autoreset == SAME_STEP;
    if (!same_step && write_observation(self, seat, obs) < 0) return -1;
    put_if_new(self->reward + s, &reward, sizeof reward);
    put_if_new(self->terminated + s, &terminated, 1);
    put_if_new(self->truncated + s, &truncated, 1);
    self->record[s].running_return += reward;
    self->record[s].running_length++;
    if (self->record[s].mail) self->record[s].mail = 0;
    if (self->record[s].state_bytes) self->record[s].state_bytes = 0;
    if (!same_step && seal_row(self, seat, reward, (terminated ? TERMINATED_BIT : 0) | (truncated ? TRUNCATED_BIT : 0)) < 0)
        return -1;
    if (over) {
        self->ended[s] = 1;
        self->episode_return[s] = self->record[s].running_return;
        self->episode_length[s] = self->record[s].running_length;
        self->episode_time[s] = (double)(monotonic_ns() - self->record[s].began) * 1e-9;
        self->episodes[s]++;
        *attention |= ATTENTION_ENDED;
        if (same_step)
            return attention_of(PyObject_CallMethodObjArgs(seat->slot, self->s_end_same_step, obs, info, NULL), attention);
    }
    if (!self->always_info && PyDict_CheckExact(info) && PyDict_GET_SIZE(info) == 0) return 0;
    return attention_of(PyObject_CallMethodOneArg(seat->slot, self->s_put_info, info), attention);
}

static int step_slot(Loop *self, Seat *seat, uint32_t *attention) {
    PyObject *action = action_for(self, seat);
    if (!action) return -1;
    PyObject *answer = PyObject_CallOneArg(seat->step, action);
    Py_DECREF(action);
    if (!answer) return -1;
    int failed = take_answer(self, seat, answer, attention);
    Py_DECREF(answer);
    Py_ssize_t s = seat->index;
    if (!failed && self->record[s].save_every && !self->ended[s] && self->record[s].running_length - self->record[s].saved_at >= self->record[s].save_every)
        failed = attention_of(PyObject_CallMethodNoArgs(seat->slot, self->s_save_state), attention);
    return failed;
}

/* Next-step autoreset: the row after an ended episode. Twin of EnvSlot._reset without a request. */
static int reset_slot(Loop *self, Seat *seat, uint64_t began, uint32_t *attention) {
    Py_ssize_t s = seat->index;
    int plainly = !self->asks_seed && (!self->traces || record_generator(self, seat));
    PyObject *answer = plainly ? PyObject_CallNoArgs(seat->reset)
                               : PyObject_CallMethodNoArgs(seat->slot, self->s_begin_episode);
    if (!answer) return -1;
    int failed = -1;
    if (!PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) != 2) {
        PyErr_SetString(self->bad_value, "env.reset() must return (obs, info)");
    } else {
        PyObject *info = PyTuple_GET_ITEM(answer, 1);
        self->record[s].began = monotonic_ns();
        self->reset_ns[s] += self->record[s].began - began;
        self->record[s].status = self->ended[s] = 0;
        self->record[s].running_return = 0.0;
        self->record[s].running_length = self->record[s].mail = self->record[s].saved_at = self->record[s].state_bytes = 0;
        self->begun[s]++;
        failed = write_observation(self, seat, PyTuple_GET_ITEM(answer, 0));
        if (!failed && !(failed = seal_row(self, seat, 0.0, 0))) {
            self->reward[s] = 0.0;
            self->terminated[s] = self->truncated[s] = 0;
            if (self->always_info || !PyDict_CheckExact(info) || PyDict_GET_SIZE(info))
                failed = attention_of(PyObject_CallMethodOneArg(seat->slot, self->s_put_info, info), attention);
        }
    }
    Py_DECREF(answer);
    return failed;
}

/* An exception of the environment is a fault of its slot; anything stronger (SystemExit) ends the worker. */
static int tell_failure(Loop *self, Seat *seat, uint32_t *attention) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    int failed = attention_of(PyObject_CallMethodOneArg(seat->slot, self->s_fail, value), attention);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return failed;
}

static int serve_table(Loop *self, Table *table, uint32_t *attention) {
    uint64_t now = monotonic_ns();
    for (Py_ssize_t i = 0; i < table->count; i++) {
        Seat *seat = &table->seats[i];
        uint8_t op = self->op[seat->index];
        if (op == OP_NONE) continue;
        int resets = self->ended[seat->index];
        /* An order to come back is carried out by the slot, before anything else. */
        if (op != OP_STEP || self->restore[seat->index] || (resets && self->autoreset != NEXT_STEP)) {
            PyObject *number = PyLong_FromLong(op);
            if (!number) return -1;
            PyObject *bits = PyObject_CallMethodOneArg(seat->slot, self->s_serve, number);
            Py_DECREF(number);
            if (attention_of(bits, attention) < 0) return -1;
            now = monotonic_ns();
            continue;
        }
        stamp(self, resets ? PHASE_RESET : PHASE_STEP, seat->index, now);
        uint32_t bits = 0;
        int failed = (resets ? reset_slot(self, seat, now, &bits) : step_slot(self, seat, &bits)) < 0;
        if (failed) bits = 0;
        if (failed && tell_failure(self, seat, &bits) < 0) return -1;
        *attention |= bits;
        uint64_t after = monotonic_ns();
        if (!failed && !resets) count_step(self, seat->index, after - now);
        now = after;
    }
    stamp(self, PHASE_IDLE, -1, now);
    return 0;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static Table *find_asked(Loop *self) {
    for (Py_ssize_t q = 0; q < self->table_count; q++) {
        Py_ssize_t t = (self->turn + q) % self->table_count;
        uint32_t *words = self->group + self->tables[t].group * WORDS;
        uint32_t sent = LOAD(words + GROUP_SENT);
        if (sent != words[GROUP_DONE]) {
            self->tables[t].asked = sent;                  /* what is answered is this request, not a later one */
            self->turn = (t + 1) % self->table_count;      /* in turn, so that no group starves */
            return &self->tables[t];
        }
    }
    return NULL;
}

/* NULL: stop, or a signal wants to be handled. */
static Table *wait_asked(Loop *self) {
    Table *table;
    for (long r = 0; r < self->rounds; r++) {
        for (int i = 0; i < 8; i++) {
            if (LOAD(self->to + TO_STOP)) return NULL;
            if ((table = find_asked(self))) return table;
            cpu_relax();
        }
        sched_yield();
    }
    STORE(self->from + FROM_ASLEEP, 1);
    while (!(table = find_asked(self)) && !LOAD(self->to + TO_STOP)) {
        struct pollfd fd = {self->bell_fd, POLLIN, 0};
        if (poll(&fd, 1, -1) < 0 && errno == EINTR) break;
        drain(self->bell_fd);
    }
    STORE(self->from + FROM_ASLEEP, 0);
    return LOAD(self->to + TO_STOP) ? NULL : table;       /* after stop nothing more is served */
}

static void publish(Loop *self, Table *table, uint32_t attention) {
    uint32_t *words = self->group + table->group * WORDS;
    words[GROUP_ATTENTION] = attention;
    STORE(words + GROUP_DONE, table->asked);
    uint32_t completed = __atomic_add_fetch(self->parent + PARENT_COMPLETED, 1, __ATOMIC_SEQ_CST);
    if (LOAD(self->parent + PARENT_ASLEEP) && (int32_t)(completed - LOAD(self->parent + PARENT_WAKE_AT)) >= 0)
        ring(self->parent_fd);
}

/* serve() -> None when the parent says stop. */
static PyObject *Loop_serve(Loop *self, PyObject *noargs) {
    for (;;) {
        Table *table;
        Py_BEGIN_ALLOW_THREADS
        table = wait_asked(self);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals()) return NULL;
        if (!table) {
            if (LOAD(self->to + TO_STOP)) Py_RETURN_NONE;
            continue;
        }
        uint32_t attention = 0;
        if (serve_table(self, table, &attention) < 0) return NULL;
        publish(self, table, attention);
    }
}

/* bind(slot, step, reset, base): the slot's environment was built anew. */
static PyObject *Loop_bind(Loop *self, PyObject *args) {
    Py_ssize_t slot;
    PyObject *step, *reset, *base;
    if (!PyArg_ParseTuple(args, "nOOO", &slot, &step, &reset, &base)) return NULL;
    for (Py_ssize_t t = 0; t < self->table_count; t++)
        for (Py_ssize_t i = 0; i < self->tables[t].count; i++)
            if (self->tables[t].seats[i].index == slot) {
                Py_INCREF(step);
                Py_SETREF(self->tables[t].seats[i].step, step);
                Py_INCREF(reset);
                Py_SETREF(self->tables[t].seats[i].reset, reset);
                Py_INCREF(base);
                Py_SETREF(self->tables[t].seats[i].base, base);
                Py_RETURN_NONE;
            }
    return PyErr_Format(PyExc_KeyError, "slot %zd", slot);
}

/* write(slot, obs) -> whether the row was written: the fast path of EnvSlot.put_obs. */
static PyObject *Loop_write(Loop *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) { PyErr_SetString(PyExc_TypeError, "write(slot, obs)"); return NULL; }
    Py_ssize_t slot = PyLong_AsSsize_t(args[0]);
    if (slot == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(self->leaf_count && write_row(self, slot, args[1]));
}

static PyMethodDef Loop_methods[] = {
    {"serve", (PyCFunction)Loop_serve, METH_NOARGS, "Answer requests until the parent says stop."},
    {"write", (PyCFunction)(void *)Loop_write, METH_FASTCALL, "Write a row if the observation fits exactly."},
    {"bind", (PyCFunction)Loop_bind, METH_VARARGS, "Use another environment's step for a slot."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.worker._native.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The worker's inner loop.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Loop_init,
    .tp_dealloc = (destructor)Loop_dealloc,
    .tp_methods = Loop_methods,
};

/* ---- native stack ---------------------------------------------------------------------------------------------- */

static int dump_fd = -1;

static void dump_native_stack(int signum) {
    static const char head[] = "Native stack (innermost first):\n";
    void *frames[64];
    ssize_t ignored = write(dump_fd, head, sizeof head - 1);
    (void)ignored;
    backtrace_symbols_fd(frames, backtrace(frames, 64), dump_fd);
}

/* install_native_dump(signum, fd): faulthandler, registered afterwards with chain=True, calls this handler. */
static PyObject *install_native_dump(PyObject *module, PyObject *args) {
    int signum;
    if (!PyArg_ParseTuple(args, "ii", &signum, &dump_fd)) return NULL;
    void *warm[1];
    backtrace(warm, 1); /* loads the unwinder now: doing so inside a signal handler may allocate */
    struct sigaction action = {.sa_handler = dump_native_stack, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(signum, &action, NULL) < 0) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* pcg64_record(capsule, place): 40 bytes: state, inc, has_uint32, uinteger. */
static PyObject *pcg64_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) { PyErr_SetString(PyExc_TypeError, "pcg64_record(capsule, place)"); return NULL; }
    BitGenerator *bits = PyCapsule_GetPointer(args[0], "BitGenerator");
    Py_buffer place;
    if (!bits || PyObject_GetBuffer(args[1], &place, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return NULL;
    int fits = place.len >= 40;
    if (fits) copy_pcg(bits, place.buf);
    PyBuffer_Release(&place);
    if (!fits) { PyErr_SetString(PyExc_ValueError, "a record needs 40 bytes"); return NULL; }
    Py_RETURN_NONE;
}

/* digest(buffer, start), seal(digest, reward, flags): what the loop does, for rows that Python writes. */
static PyObject *py_digest(PyObject *module, PyObject *args) {
    Py_buffer data;
    unsigned long long start;
    if (!PyArg_ParseTuple(args, "y*K", &data, &start)) return NULL;
    uint64_t digest = digest_bytes(data.buf, (size_t)data.len, start);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLongLong(digest);
}

static PyObject *py_seal(PyObject *module, PyObject *args) {
    unsigned long long digest;
    double reward;
    int flags;
    if (!PyArg_ParseTuple(args, "Kdi", &digest, &reward, &flags)) return NULL;
    return PyLong_FromUnsignedLong(digest_row(digest, reward, flags));
}

static PyMethodDef functions[] = {
    {"pcg64_record", (PyCFunction)(void *)pcg64_record, METH_FASTCALL, "Copy the state of a PCG64."},
    {"digest", py_digest, METH_VARARGS, "A number that stands for a buffer, going on from an earlier one."},
    {"seal", py_seal, METH_VARARGS, "The 32 bits of a row."},
    {"install_native_dump", install_native_dump, METH_VARARGS, "Write the native stack to fd on a signal."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "Native inner loop of the worker.", -1, functions};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    if (PyType_Ready(&LoopType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Loop", (PyObject *)&LoopType) < 0) { Py_DECREF(m); return NULL; }
    return m;
}
