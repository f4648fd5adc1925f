/* The worker's serving loop: wait for a request, step each slot of the group, write its row in place, publish.
 *
 * Only the common step and its autoreset are here. Everything rare (requested resets, calls, unusual spaces, infos,
 * exceptions, same-step endings) is a call into the Python EnvSlot, which also holds the whole step for the pure-Python
 * path. Both behave the same: test_loop_twins.py runs every case over both.
 *
 * Each step also leaves what healing needs: a digest of the row, and the generator's state at an episode's beginning.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bell.h"
#include "bytes.h"
#include "digest.h"

enum { PHASE_IDLE = 0, PHASE_RESET = 3, PHASE_STEP = 4 };
enum { OP_NONE = 0, OP_STEP = 1 };
enum { ATTENTION_ENDED = 2 };
enum { NEXT_STEP = 0, SAME_STEP = 1 };
enum { LEAF_ARRAY = 1, LEAF_INT = 2, LEAF_TEXT = 3 };
enum { TEXT_BYTES = 256, HEADER_BYTES = 2 };    /* spec/text.py */
enum { HISTOGRAM_BUCKETS = 80, MAX_BUFFERS = 40, MAX_LEAVES = 32, MAX_DIMS = 8 };

/* Methods of an EnvSlot that are called from here, and attributes of a Gymnasium environment. */
enum {
    SERVE, READ_ACTION, PUT_OBS, PUT_INFO, PUT_DIGEST, END_SAME_STEP, FAIL, SAVE_STATE, BEGIN_EPISODE,
    NP_RANDOM, BIT_GENERATOR, CAPSULE, NAME_COUNT
};
static const char *const NAMES[NAME_COUNT] = {
    "serve", "read_action", "put_obs", "put_info", "put_digest", "end_same_step", "fail", "save_state", "begin_episode",
    "np_random", "bit_generator", "capsule"};

/* One array of the observation: where its rows are, their form, and where it is in what an environment returns. */
typedef struct {
    Py_buffer buffer;
    PyObject *path;         /* (key,) into a dict, (index, length) into a tuple, outermost first */
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
    uint8_t status, rest[7];
    uint64_t info_schema, unused;
} Record;
_Static_assert(sizeof(Record) == 128, "control.RECORD_BYTES");

/* One environment; ``object`` is its EnvSlot, ``base`` the innermost environment, ``pack`` writes infos of numbers. */
typedef struct {
    PyObject *object, *step, *reset, *base, *pack;
    Py_ssize_t index;
    int in_python;         /* the newest row was written by the EnvSlot, which may have parts of it to send by mail */
} Slot;

/* One group of them; ``request`` is the number of the request that is being served. */
typedef struct {
    Py_ssize_t number, count;
    Slot *slots;
    uint32_t request;
} Group;

typedef struct {
    PyObject_HEAD
    Py_buffer buffers[MAX_BUFFERS];
    int buffer_count;
    Group *groups;
    Py_ssize_t group_count, turn;
    uint32_t *parent, *to, *from, *group_words;
    Record *record;
    uint64_t *since, *episodes, *reset_ns;
    uint8_t *op, *ended, *terminated, *truncated;
    double *reward, *episode_return, *episode_time;
    int64_t *episode_length, *begun, *restore;
    uint32_t *histogram, *digest;
    Leaf leaves[MAX_LEAVES];
    int leaf_count;        /* 0: rows are written and digested by the EnvSlot */
    int check_nan, always_info, has_text;
    int heals;             /* leave digests and generator states, so that a dead worker's episodes can be replayed */
    int resets_in_python;  /* by the EnvSlot, which knows the episode's seed and may build a new environment for it */
    int64_t *actions;      /* NULL: ask the EnvSlot */
    int autoreset, bell_fd, parent_fd;
    long rounds;
    PyObject *bad_value;   /* BadValueError: the environment's data is wrong, not its code */
    PyObject *names[NAME_COUNT];
    PyObject *pcg64;       /* the class whose layout is known, or None */
    char *rng;
} Loop;

/* ---- construction ---------------------------------------------------------------------------------------------- */

static void *get_buffer(Loop *self, PyObject *array) {
    if (self->buffer_count == MAX_BUFFERS) {
        PyErr_SetString(PyExc_RuntimeError, "too many buffers");
        return NULL;
    }
    Py_buffer *buffer = &self->buffers[self->buffer_count];
    if (PyObject_GetBuffer(array, buffer, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return NULL;
    self->buffer_count++;
    return buffer->buf;
}

static int get_control(Loop *self, PyObject *control, Py_ssize_t worker) {
    struct { const char *name; void *into; } wanted[] = {
        {"parent", &self->parent}, {"to_worker", &self->to}, {"from_worker", &self->from},
        {"group", &self->group_words}, {"since_ns", &self->since}, {"op", &self->op}, {"ended", &self->ended},
        {"terminated", &self->terminated}, {"truncated", &self->truncated}, {"reward", &self->reward},
        {"episode_return", &self->episode_return}, {"episode_length", &self->episode_length},
        {"episode_time_s", &self->episode_time}, {"episodes", &self->episodes}, {"reset_ns", &self->reset_ns},
        {"step_histogram", &self->histogram}, {"begun", &self->begun}, {"restore_bytes", &self->restore},
        {"record", &self->record}, {"digest", &self->digest}, {"rng", &self->rng}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        PyObject *array = PyObject_GetAttrString(control, wanted[i].name);
        void *p = array ? get_buffer(self, array) : NULL;
        Py_XDECREF(array);
        if (!p) return -1;
        memcpy(wanted[i].into, &p, sizeof p);
    }
    self->to += worker * WORDS;
    self->from += worker * WORDS;
    self->since += worker * 8;
    return 0;
}

static int get_leaf(Leaf *leaf, PyObject *description) {
    PyObject *array, *shape, *path;
    if (!PyArg_ParseTuple(description, "OiiO!O!", &array, &leaf->type, &leaf->kind, &PyTuple_Type, &shape,
                          &PyTuple_Type, &path))
        return -1;
    leaf->dims = (int)PyTuple_GET_SIZE(shape);
    if (leaf->dims > MAX_DIMS) {
        PyErr_SetString(PyExc_ValueError, "too many dimensions");
        return -1;
    }
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
static int get_observation(Loop *self, PyObject *observation) {
    if (PyList_GET_SIZE(observation) > MAX_LEAVES) {
        PyErr_SetString(PyExc_ValueError, "too many leaves");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(observation); i++) {
        if (get_leaf(&self->leaves[self->leaf_count], PyList_GET_ITEM(observation, i)) < 0) return -1;
        if (self->leaves[self->leaf_count].kind == LEAF_TEXT) self->has_text = 1;
        self->leaf_count++;
    }
    return 0;
}

static int get_group(Group *group, PyObject *description) {
    PyObject *slots;
    if (!PyArg_ParseTuple(description, "nO!", &group->number, &PyList_Type, &slots)) return -1;
    group->slots = calloc((size_t)PyList_GET_SIZE(slots) + 1, sizeof(Slot));
    if (!group->slots) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); i++) {
        Slot *slot = &group->slots[i];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(slots, i), "nOOOOO", &slot->index, &slot->object, &slot->step,
                              &slot->reset, &slot->base, &slot->pack))
            return -1;
        Py_INCREF(slot->object);
        Py_INCREF(slot->step);
        Py_INCREF(slot->reset);
        Py_INCREF(slot->base);
        Py_INCREF(slot->pack);
        group->count++;
    }
    return 0;
}

/* groups: a list of (group number, list of (slot number, EnvSlot, env.step, env.reset, innermost environment,
 * its packer)) */
static int get_groups(Loop *self, PyObject *groups) {
    self->groups = calloc((size_t)PyList_GET_SIZE(groups) + 1, sizeof(Group));
    if (!self->groups) {
        PyErr_NoMemory();
        return -1;
    }
    self->group_count = PyList_GET_SIZE(groups);
    for (Py_ssize_t g = 0; g < self->group_count; g++)
        if (get_group(&self->groups[g], PyList_GET_ITEM(groups, g)) < 0) return -1;
    return 0;
}

static int get_names(Loop *self) {
    for (int i = 0; i < NAME_COUNT; i++)
        if (!(self->names[i] = PyUnicode_InternFromString(NAMES[i]))) return -1;
    PyObject *arrays = PyImport_ImportModule("ninelives.spec.arrays");
    self->bad_value = arrays ? PyObject_GetAttrString(arrays, "BadValueError") : NULL;
    Py_XDECREF(arrays);
    return self->bad_value ? 0 : -1;
}

static int Loop_init(Loop *self, PyObject *args, PyObject *kwds) {
    static char *names[] = {"control", "worker", "groups", "observation", "actions", "check_nan", "always_info",
                            "heals", "resets_in_python", "pcg64", "autoreset", "bell_fd", "parent_fd", "rounds", NULL};
    PyObject *control, *groups, *observation, *actions, *pcg64;
    Py_ssize_t worker;
    if (!PyArg_ParseTupleAndKeywords(args, kwds, "OnO!O!OppppOiiil", names, &control, &worker, &PyList_Type, &groups,
                                     &PyList_Type, &observation, &actions, &self->check_nan, &self->always_info,
                                     &self->heals, &self->resets_in_python, &pcg64, &self->autoreset, &self->bell_fd,
                                     &self->parent_fd, &self->rounds))
        return -1;
    if (self->buffer_count) {
        PyErr_SetString(PyExc_RuntimeError, "a Loop is initialised once");
        return -1;
    }
    self->pcg64 = Py_NewRef(pcg64);
    if (get_names(self) < 0 || get_control(self, control, worker) < 0) return -1;
    if (get_observation(self, observation) < 0) return -1;
    if (actions != Py_None && !(self->actions = get_buffer(self, actions))) return -1;
    return get_groups(self, groups);
}

static void Loop_dealloc(Loop *self) {
    for (int i = 0; i < self->buffer_count; i++) PyBuffer_Release(&self->buffers[i]);
    for (int i = 0; i < MAX_LEAVES; i++) {
        if (self->leaves[i].buffer.obj) PyBuffer_Release(&self->leaves[i].buffer);
        Py_XDECREF(self->leaves[i].path);
    }
    for (Py_ssize_t g = 0; g < self->group_count; g++) {
        for (Py_ssize_t i = 0; i < self->groups[g].count; i++) {
            Slot *slot = &self->groups[g].slots[i];
            Py_XDECREF(slot->object);
            Py_XDECREF(slot->step);
            Py_XDECREF(slot->reset);
            Py_XDECREF(slot->base);
            Py_XDECREF(slot->pack);
        }
        free(self->groups[g].slots);
    }
    free(self->groups);
    for (int i = 0; i < NAME_COUNT; i++) Py_XDECREF(self->names[i]);
    Py_XDECREF(self->bad_value);
    Py_XDECREF(self->pcg64);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- what healing needs ------------------------------------------------------------------------------------------ */

/* Digest the row that was just written. Rows with parts that travel by mail are digested by the EnvSlot. */
static int put_digest(Loop *self, Slot *slot, double reward, int flags) {
    if (!self->heals) return 0;
    if (!self->leaf_count || (slot->in_python && self->has_text)) {
        PyObject *done = PyObject_CallMethod(slot->object, NAMES[PUT_DIGEST], "di", reward, flags);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    uint64_t digest = 0;
    for (int i = 0; i < self->leaf_count; i++) {
        const Leaf *leaf = &self->leaves[i];
        digest = digest_bytes(leaf->rows + slot->index * leaf->bytes, (size_t)leaf->bytes, digest);
    }
    self->digest[slot->index] = digest_row(digest, reward, flags);
    return 0;
}

/* numpy's own layout of a PCG64 behind its public bitgen_t. It has not changed since numpy 1.17, and it is never
 * used unchecked: rng.py compares what is read here with what numpy reports first. */
typedef struct { char state[16], inc[16]; } Pcg;
typedef struct { Pcg *pcg; int has_uint32; uint32_t uinteger; } PcgState;
typedef struct { PcgState *state; } BitGenerator;

enum { RNG_BYTES = 48, RNG_KNOWN = 40 };

static void copy_pcg(const BitGenerator *bits, char *to) {
    memcpy(to, bits->state->pcg, 32);
    memcpy(to + 32, &bits->state->has_uint32, 4);
    memcpy(to + 36, &bits->state->uinteger, 4);
}

/* Record the generator's state with which the slot's next episode begins; the present episode's record is kept.
 * Returns 0 where Python must do it. */
static int record_generator(Loop *self, Slot *slot) {
    if (self->pcg64 == Py_None) return 0;
    PyObject *generator = PyObject_GetAttr(slot->base, self->names[NP_RANDOM]);
    PyObject *bits = generator ? PyObject_GetAttr(generator, self->names[BIT_GENERATOR]) : NULL;
    int is_known = bits && (PyObject *)Py_TYPE(bits) == self->pcg64;
    PyObject *capsule = is_known ? PyObject_GetAttr(bits, self->names[CAPSULE]) : NULL;
    BitGenerator *found = capsule ? PyCapsule_GetPointer(capsule, "BitGenerator") : NULL;
    if (found) {
        Py_ssize_t s = slot->index;
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

static inline void enter_phase(Loop *self, uint32_t phase, Py_ssize_t slot, uint64_t now) {
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

/* Add the attention bits that a method of the EnvSlot returned. */
static int add_attention(PyObject *result, uint32_t *attention) {
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
        for (Py_ssize_t i = 0; i < leaf->bytes / 4; i++)
            if (isnan(p[i])) return 1;
    } else if (leaf->type == NPY_DOUBLE) {
        const double *p = data;
        for (Py_ssize_t i = 0; i < leaf->bytes / 8; i++)
            if (isnan(p[i])) return 1;
    }
    return 0;
}

/* The leaf's part of an observation, borrowed; NULL: it is missing, or the structure is not plain dicts and tuples. */
static PyObject *find_part(const Leaf *leaf, PyObject *obs) {
    for (Py_ssize_t i = 0; obs && i < PyTuple_GET_SIZE(leaf->path); i++) {
        PyObject *step = PyTuple_GET_ITEM(leaf->path, i);
        if (PyTuple_GET_SIZE(step) == 1) {
            obs = PyDict_CheckExact(obs) ? PyDict_GetItemWithError(obs, PyTuple_GET_ITEM(step, 0)) : NULL;
            continue;
        }
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(step, 0));
        Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GET_ITEM(step, 1));
        obs = PyTuple_CheckExact(obs) && PyTuple_GET_SIZE(obs) == length ? PyTuple_GET_ITEM(obs, index) : NULL;
    }
    return obs;
}

/* The bytes of a part that is exactly what the space declares, else NULL; those of an int are put into ``number``, and
 * the length of a text. */
static const void *bytes_of(const Loop *self, const Leaf *leaf, PyObject *part, int64_t *number) {
    if (leaf->kind == LEAF_INT && PyLong_CheckExact(part)) {
        *number = PyLong_AsLongLong(part);
        return *number == -1 && PyErr_Occurred() ? NULL : number;
    }
    if (leaf->kind == LEAF_INT && Py_IS_TYPE(part, &PyInt64ArrType_Type)) {
        *number = PyArrayScalar_VAL(part, Int64);
        return number;
    }
    if (leaf->kind == LEAF_TEXT) {
        Py_ssize_t length = 0;
        const char *text = PyUnicode_CheckExact(part) ? PyUnicode_AsUTF8AndSize(part, &length) : NULL;
        *number = length;
        return text && length <= TEXT_BYTES - HEADER_BYTES ? text : NULL;
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

/* For words that are read only after their writer is dead and reaped: everything it did is visible then, in its order.
 * Only the compiler must not change that order. */
#define KEEP_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Most texts stay the same for a whole episode. */
static void write_text(char *row, const char *text, size_t length) {
    uint8_t header[HEADER_BYTES] = {(uint8_t)(length + 1), (uint8_t)((length + 1) >> 8)};
    if (!memcmp(row, header, sizeof header) && !memcmp(row + HEADER_BYTES, text, length)) return;
    memcpy(row, header, sizeof header);
    memcpy(row + HEADER_BYTES, text, length);
    memset(row + HEADER_BYTES + length, 0, TEXT_BYTES - HEADER_BYTES - length);
}

/* Writes the row if every part is exactly what the space declares; 0: Python must decide (convert, or reject).
 * All parts are found before the first is written: a row never mixes two steps. */
static int write_row(Loop *self, Py_ssize_t s, PyObject *obs) {
    const void *found[MAX_LEAVES];
    int64_t numbers[MAX_LEAVES];
    for (int i = 0; i < self->leaf_count; i++) {
        PyObject *part = find_part(&self->leaves[i], obs);
        found[i] = part ? bytes_of(self, &self->leaves[i], part, &numbers[i]) : NULL;
        if (!found[i]) {
            PyErr_Clear();
            return 0;
        }
    }
    self->record[s].torn = 1;
    KEEP_ORDER();
    for (int i = 0; i < self->leaf_count; i++) {
        const Leaf *leaf = &self->leaves[i];
        char *row = leaf->rows + s * leaf->bytes;
        if (leaf->kind == LEAF_TEXT) write_text(row, found[i], (size_t)numbers[i]);
        else copy_bytes(row, found[i], (size_t)leaf->bytes);
    }
    KEEP_ORDER();
    self->record[s].torn = 0;
    return 1;
}

static int write_observation(Loop *self, Slot *slot, PyObject *obs) {
    slot->in_python = !(self->leaf_count && write_row(self, slot->index, obs));
    if (!slot->in_python) return 0;
    PyObject *done = PyObject_CallMethodOneArg(slot->object, self->names[PUT_OBS], obs);
    if (!done) return -1;
    Py_DECREF(done);
    return 0;
}

static PyObject *action_for(Loop *self, Slot *slot) {
    if (self->actions) return PyLong_FromLongLong(self->actions[slot->index]);
    return PyObject_CallMethodNoArgs(slot->object, self->names[READ_ACTION]);
}

static int reject_reward(Loop *self, PyObject *reward) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
    PyErr_Clear();
    PyObject *name = PyType_GetName(Py_TYPE(reward));
    if (name) PyErr_Format(self->bad_value, "reward: %U is not a number", name);
    Py_XDECREF(name);
    return -1;
}

/* Cache lines of these words are shared with the parent and other workers' slots: not written where nothing changes. */
static inline void put_if_new(void *place, const void *value, size_t bytes) {
    if (memcmp(place, value, bytes)) memcpy(place, value, bytes);
}

static void end_episode(Loop *self, Py_ssize_t s, uint32_t *attention) {
    const Record *record = &self->record[s];
    self->ended[s] = 1;
    self->episode_return[s] = record->running_return;
    self->episode_length[s] = record->running_length;
    self->episode_time[s] = (double)(monotonic_ns() - record->began) * 1e-9;
    self->episodes[s]++;
    *attention |= ATTENTION_ENDED;
}

/* Infos of numbers are written by the packer; the EnvSlot takes those of any other kind, and new ones. */
static int put_info(Loop *self, Slot *slot, PyObject *info, uint32_t *attention) {
    Record *record = &self->record[slot->index];
    if (!self->always_info && PyDict_CheckExact(info) && !(slot->in_python && self->has_text)) {
        if (PyDict_GET_SIZE(info) == 0) {
            if (record->info_schema) record->info_schema = 0;
            return 0;
        }
        PyObject *number = PyObject_CallOneArg(slot->pack, info);
        if (!number) return -1;
        long bits = PyLong_AsLong(number);
        Py_DECREF(number);
        if (bits >= 0) {
            *attention |= (uint32_t)bits;
            return 0;
        }
    }
    return add_attention(PyObject_CallMethodOneArg(slot->object, self->names[PUT_INFO], info), attention);
}

static int read_reward(Loop *self, PyObject *value, double *reward) {
    *reward = PyFloat_AsDouble(value);
    if (*reward == -1.0 && PyErr_Occurred()) return reject_reward(self, value);
    if (!isnan(*reward)) return 0;
    PyErr_SetString(self->bad_value, "reward: holds NaN");
    return -1;
}

/* The answer of env.step into the row. Everything is checked before the slot's counters change. */
static int take_answer(Loop *self, Slot *slot, PyObject *answer, uint32_t *attention) {
    Py_ssize_t s = slot->index;
    Record *record = &self->record[s];
    if (!PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) != 5) {
        PyErr_SetString(self->bad_value, "env.step() must return (obs, reward, terminated, truncated, info)");
        return -1;
    }
    PyObject *obs = PyTuple_GET_ITEM(answer, 0), *info = PyTuple_GET_ITEM(answer, 4);
    double reward;
    if (read_reward(self, PyTuple_GET_ITEM(answer, 1), &reward) < 0) return -1;
    int is_terminated = PyObject_IsTrue(PyTuple_GET_ITEM(answer, 2));
    int is_truncated = is_terminated < 0 ? -1 : PyObject_IsTrue(PyTuple_GET_ITEM(answer, 3));
    if (is_truncated < 0) return -1;
    uint8_t terminated = (uint8_t)is_terminated, truncated = (uint8_t)is_truncated;
    int over = terminated || truncated;
    int same_step = over && self->autoreset == SAME_STEP;
    if (!same_step && write_observation(self, slot, obs) < 0) return -1;
    put_if_new(self->reward + s, &reward, sizeof reward);
    put_if_new(self->terminated + s, &terminated, 1);
    put_if_new(self->truncated + s, &truncated, 1);
    record->running_return += reward;
    record->running_length++;
    if (record->mail) record->mail = 0;
    if (record->state_bytes) record->state_bytes = 0;
    int flags = (terminated ? TERMINATED_BIT : 0) | (truncated ? TRUNCATED_BIT : 0);
    if (!same_step && put_digest(self, slot, reward, flags) < 0) return -1;
    if (over) end_episode(self, s, attention);
    if (!same_step) return put_info(self, slot, info, attention);
    PyObject *bits = PyObject_CallMethodObjArgs(slot->object, self->names[END_SAME_STEP], obs, info, NULL);
    return add_attention(bits, attention);
}

static int step_slot(Loop *self, Slot *slot, uint32_t *attention) {
    PyObject *action = action_for(self, slot);
    if (!action) return -1;
    PyObject *answer = PyObject_CallOneArg(slot->step, action);
    Py_DECREF(action);
    if (!answer) return -1;
    int failed = take_answer(self, slot, answer, attention);
    Py_DECREF(answer);
    const Record *record = &self->record[slot->index];
    int may_save = !failed && record->save_every && !self->ended[slot->index];
    if (may_save && record->running_length - record->saved_at >= record->save_every)
        failed = add_attention(PyObject_CallMethodNoArgs(slot->object, self->names[SAVE_STATE]), attention);
    return failed;
}

/* Next-step autoreset: the row after an ended episode. Twin of EnvSlot._reset without a request. */
static int take_first_row(Loop *self, Slot *slot, PyObject *answer, uint64_t began, uint32_t *attention) {
    Py_ssize_t s = slot->index;
    Record *record = &self->record[s];
    if (!PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) != 2) {
        PyErr_SetString(self->bad_value, "env.reset() must return (obs, info)");
        return -1;
    }
    record->began = monotonic_ns();
    self->reset_ns[s] += record->began - began;
    record->status = self->ended[s] = 0;
    record->running_return = 0.0;
    record->running_length = record->mail = record->saved_at = record->state_bytes = 0;
    self->begun[s]++;
    if (write_observation(self, slot, PyTuple_GET_ITEM(answer, 0)) < 0 || put_digest(self, slot, 0.0, 0) < 0) return -1;
    self->reward[s] = 0.0;
    self->terminated[s] = self->truncated[s] = 0;
    return put_info(self, slot, PyTuple_GET_ITEM(answer, 1), attention);
}

static int reset_slot(Loop *self, Slot *slot, uint64_t began, uint32_t *attention) {
    int is_plain = !self->resets_in_python && (!self->heals || record_generator(self, slot));
    PyObject *answer = is_plain ? PyObject_CallNoArgs(slot->reset)
                                : PyObject_CallMethodNoArgs(slot->object, self->names[BEGIN_EPISODE]);
    if (!answer) return -1;
    int failed = take_first_row(self, slot, answer, began, attention);
    Py_DECREF(answer);
    return failed;
}

/* An exception of the environment is a fault of its slot; anything stronger (SystemExit) ends the worker. */
static int report_failure(Loop *self, Slot *slot, uint32_t *attention) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    int failed = add_attention(PyObject_CallMethodOneArg(slot->object, self->names[FAIL], value), attention);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return failed;
}

/* What is no plain step: a requested reset, a call, an order to restore. */
static int serve_in_python(Loop *self, Slot *slot, uint8_t op, uint32_t *attention) {
    PyObject *number = PyLong_FromLong(op);
    if (!number) return -1;
    PyObject *bits = PyObject_CallMethodOneArg(slot->object, self->names[SERVE], number);
    Py_DECREF(number);
    return add_attention(bits, attention);
}

static int serve_group(Loop *self, Group *group, uint32_t *attention) {
    uint64_t now = monotonic_ns();
    for (Py_ssize_t i = 0; i < group->count; i++) {
        Slot *slot = &group->slots[i];
        uint8_t op = self->op[slot->index];
        if (op == OP_NONE) continue;
        int resets = self->ended[slot->index];
        if (op != OP_STEP || self->restore[slot->index] || (resets && self->autoreset != NEXT_STEP)) {
            if (serve_in_python(self, slot, op, attention) < 0) return -1;
            now = monotonic_ns();
            continue;
        }
        enter_phase(self, resets ? PHASE_RESET : PHASE_STEP, slot->index, now);
        uint32_t bits = 0;
        int failed = (resets ? reset_slot(self, slot, now, &bits) : step_slot(self, slot, &bits)) < 0;
        if (failed) bits = 0;
        if (failed && report_failure(self, slot, &bits) < 0) return -1;
        *attention |= bits;
        uint64_t after = monotonic_ns();
        if (!failed && !resets) count_step(self, slot->index, after - now);
        now = after;
    }
    enter_phase(self, PHASE_IDLE, -1, now);
    return 0;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static Group *find_request(Loop *self) {
    for (Py_ssize_t i = 0; i < self->group_count; i++) {
        Py_ssize_t g = (self->turn + i) % self->group_count;
        uint32_t *words = self->group_words + self->groups[g].number * WORDS;
        uint32_t sent = LOAD(words + GROUP_SENT);
        if (sent != words[GROUP_DONE]) {
            self->groups[g].request = sent;                /* what is answered is this request, not a later one */
            self->turn = (g + 1) % self->group_count;      /* in turn, so that no group starves */
            return &self->groups[g];
        }
    }
    return NULL;
}

/* NULL: stop, or a signal is to be handled. */
static Group *wait_for_request(Loop *self) {
    Group *group;
    for (long r = 0; r < self->rounds; r++) {
        for (int i = 0; i < 8; i++) {
            if (LOAD(self->to + TO_STOP)) return NULL;
            if ((group = find_request(self))) return group;
            cpu_relax();
        }
        sched_yield();
    }
    STORE(self->from + FROM_ASLEEP, 1);
    while (!(group = find_request(self)) && !LOAD(self->to + TO_STOP)) {
        struct pollfd fd = {self->bell_fd, POLLIN, 0};
        if (poll(&fd, 1, -1) < 0 && errno == EINTR) break;
        drain(self->bell_fd);
    }
    STORE(self->from + FROM_ASLEEP, 0);
    return LOAD(self->to + TO_STOP) ? NULL : group;       /* after stop nothing more is served */
}

static void publish(Loop *self, Group *group, uint32_t attention) {
    uint32_t *words = self->group_words + group->number * WORDS;
    words[GROUP_ATTENTION] = attention;
    STORE(words + GROUP_DONE, group->request);
    uint32_t completed = __atomic_add_fetch(self->parent + PARENT_COMPLETED, 1, __ATOMIC_SEQ_CST);
    if (LOAD(self->parent + PARENT_ASLEEP) && (int32_t)(completed - LOAD(self->parent + PARENT_WAKE_AT)) >= 0)
        ring(self->parent_fd);
}

/* serve() -> None when the parent says stop. */
static PyObject *Loop_serve(Loop *self, PyObject *noargs) {
    for (;;) {
        Group *group;
        Py_BEGIN_ALLOW_THREADS
        group = wait_for_request(self);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals()) return NULL;
        if (!group) {
            if (LOAD(self->to + TO_STOP)) Py_RETURN_NONE;
            continue;
        }
        uint32_t attention = 0;
        if (serve_group(self, group, &attention) < 0) return NULL;
        publish(self, group, attention);
    }
}

static Slot *find_slot(Loop *self, Py_ssize_t index) {
    for (Py_ssize_t g = 0; g < self->group_count; g++)
        for (Py_ssize_t i = 0; i < self->groups[g].count; i++)
            if (self->groups[g].slots[i].index == index) return &self->groups[g].slots[i];
    return NULL;
}

/* bind(slot, step, reset, base): the slot's environment was rebuilt. */
static PyObject *Loop_bind(Loop *self, PyObject *args) {
    Py_ssize_t index;
    PyObject *step, *reset, *base;
    if (!PyArg_ParseTuple(args, "nOOO", &index, &step, &reset, &base)) return NULL;
    Slot *slot = find_slot(self, index);
    if (!slot) return PyErr_Format(PyExc_KeyError, "slot %zd", index);
    Py_INCREF(step);
    Py_SETREF(slot->step, step);
    Py_INCREF(reset);
    Py_SETREF(slot->reset, reset);
    Py_INCREF(base);
    Py_SETREF(slot->base, base);
    Py_RETURN_NONE;
}

/* write(slot, obs) -> whether the row was written: the fast path of EnvSlot.put_obs. */
static PyObject *Loop_write(Loop *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) return PyErr_Format(PyExc_TypeError, "write(slot, obs)");
    Py_ssize_t index = PyLong_AsSsize_t(args[0]);
    if (index == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(self->leaf_count && write_row(self, index, args[1]));
}

static PyMethodDef Loop_methods[] = {
    {"serve", (PyCFunction)Loop_serve, METH_NOARGS, "Answer requests until the parent says stop."},
    {"write", (PyCFunction)(void *)Loop_write, METH_FASTCALL, "Write a row if the observation fits exactly."},
    {"bind", (PyCFunction)Loop_bind, METH_VARARGS, "Use another environment's step for a slot."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject LoopType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.worker._loop.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The worker's serving loop.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Loop_init,
    .tp_dealloc = (destructor)Loop_dealloc,
    .tp_methods = Loop_methods,
};

/* pcg64_record(capsule, place): 40 bytes: state, inc, has_uint32, uinteger. */
static PyObject *pcg64_record(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2) return PyErr_Format(PyExc_TypeError, "pcg64_record(capsule, place)");
    BitGenerator *bits = PyCapsule_GetPointer(args[0], "BitGenerator");
    Py_buffer place;
    if (!bits || PyObject_GetBuffer(args[1], &place, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return NULL;
    int fits = place.len >= RNG_KNOWN;
    if (fits) copy_pcg(bits, place.buf);
    PyBuffer_Release(&place);
    if (!fits) return PyErr_Format(PyExc_ValueError, "a record needs %d bytes", RNG_KNOWN);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"pcg64_record", (PyCFunction)(void *)pcg64_record, METH_FASTCALL, "Copy the state of a PCG64."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_loop", "The worker's serving loop.", -1, functions};

PyMODINIT_FUNC PyInit__loop(void) {
    import_array();
    if (PyType_Ready(&LoopType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Loop", (PyObject *)&LoopType) == 0) return m;
    Py_DECREF(m);
    return NULL;
}
