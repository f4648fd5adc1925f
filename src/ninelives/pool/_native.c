/* What the parent does once per batch, natively: notes of requests about to be posted, and copies of answered rows.
 *
 * Between two batches the workers fill the caches with other things, so what counts here is how little is touched.
 *
 * Notes: each action as few bytes, with the digest of the row it answers. Twin of notes.PyNotes and equal in behaviour;
 * test_journal.py runs the same tests over both. Reads only what workers have
 * published: words that workers write are read, or copied by hold_all, while the slots' groups are idle.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "bytes.h"
#include "hook.h"

enum { STEP = 1, AUTORESET = 2, MAX_BUFFERS = 12 };
enum { PILE_BATCHES = 128, PILE_BYTES = 131072 };         /* two of these are what a processor keeps near */
enum { LINE_DIGESTS = 16 };                               /* of so many slots, digests of a batch are in one line */

/* Notes of some batches, by batch and slot. */
typedef struct {
    uint8_t *actions;
    uint32_t *digests;
    Py_ssize_t *since;     /* of each slot: the first of its entries that is needed and not yet in its sheet */
    Py_ssize_t height;     /* how many batches */
} Pile;

typedef struct {
    PyObject_HEAD
    Py_buffer buffers[MAX_BUFFERS];
    int held;
    int64_t *begun, *episode, *count, *base;
    uint8_t *ended, *pending, *blind, *actions;
    uint32_t *digest, *seen, *digests;
    int64_t *held_begun;   /* copies of words that workers write, for notes taken while they work */
    uint8_t *held_ended;
    Pile now, full_pile;   /* the one that grows, and the one before it, which is sorted meanwhile */
    Py_ssize_t sorted;     /* slots whose entries of the full pile are in their sheets */
    Py_ssize_t packed_next; /* whose chunk is looked at next */
    char *rows;
    Py_ssize_t slots, chunk, width, row_bytes;
    Py_ssize_t most;       /* batches in a pile */
    int narrow, item_bytes, next_step;
    int64_t low, high;
    PyObject *full;
} Notes;

static void *hold(Notes *self, PyObject *owner, const char *name, Py_ssize_t *bytes) {
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

static int make_pile(Pile *pile, Py_ssize_t slots, Py_ssize_t width, Py_ssize_t most) {
    pile->actions = calloc((size_t)most, (size_t)(slots * width));
    pile->digests = calloc((size_t)(most * slots), sizeof *pile->digests);
    pile->since = calloc((size_t)slots, sizeof *pile->since);
    return pile->actions && pile->digests && pile->since;
}

static void free_pile(Pile *pile) {
    free(pile->actions);
    free(pile->digests);
    free(pile->since);
}

static int Notes_init(Notes *self, PyObject *args, PyObject *kwds) {
    static char *names[] = {"control", "sheets", "rows", "narrow", "item_bytes", "signed_low", "high", "next_step", "full", NULL};
    PyObject *control, *sheets, *rows, *full;
    if (!PyArg_ParseTupleAndKeywords(args, kwds, "OOOiiLLpO", names, &control, &sheets, &rows, &self->narrow,
                                     &self->item_bytes, &self->low, &self->high, &self->next_step, &full))
        return -1;
    if (self->held) { PyErr_SetString(PyExc_RuntimeError, "Notes are initialised once"); return -1; }
    Py_ssize_t count_bytes, action_bytes, digest_bytes, row_bytes;
    if (!(self->begun = hold(self, control, "begun", NULL)) || !(self->ended = hold(self, control, "ended", NULL)) ||
        !(self->digest = hold(self, control, "digest", NULL)) || !(self->episode = hold(self, sheets, "episode", NULL)) ||
        !(self->count = hold(self, sheets, "count", &count_bytes)) || !(self->base = hold(self, sheets, "base", NULL)) ||
        !(self->pending = hold(self, sheets, "pending", NULL)) || !(self->blind = hold(self, sheets, "blind", NULL)) ||
        !(self->seen = hold(self, sheets, "seen", NULL)) || !(self->actions = hold(self, sheets, "actions", &action_bytes)) ||
        !(self->digests = hold(self, sheets, "digests", &digest_bytes)) || !(self->rows = hold(self, rows, NULL, &row_bytes)))
        return -1;
    self->slots = count_bytes / (Py_ssize_t)sizeof(int64_t);
    self->chunk = self->slots ? digest_bytes / (Py_ssize_t)sizeof(uint32_t) / self->slots : 0;
    if (!self->chunk) { PyErr_SetString(PyExc_ValueError, "there are no slots to take notes of"); return -1; }
    self->width = action_bytes / self->slots / self->chunk;
    self->row_bytes = row_bytes / self->slots;
    self->held_begun = calloc((size_t)self->slots, sizeof(int64_t));
    self->held_ended = calloc((size_t)self->slots, 1);
    Py_ssize_t batch_bytes = self->slots * (self->width + (Py_ssize_t)sizeof(uint32_t)), most = PILE_BYTES / batch_bytes;
    self->most = most < 1 ? 1 : most < PILE_BATCHES ? most : PILE_BATCHES;
    self->sorted = self->slots;
    if (!self->held_begun || !self->held_ended || !make_pile(&self->now, self->slots, self->width, self->most) ||
        !make_pile(&self->full_pile, self->slots, self->width, self->most)) {
        PyErr_NoMemory();
        return -1;
    }
    self->full = Py_NewRef(full);
    return 0;
}

static void Notes_dealloc(Notes *self) {
    for (int i = 0; i < self->held; i++) PyBuffer_Release(&self->buffers[i]);
    free(self->held_begun);
    free(self->held_ended);
    free_pile(&self->now);
    free_pile(&self->full_pile);
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

/* The bytes of a slot's action. An action outside of its space cannot be written down: the episode is blind. */
static inline void write_action(Notes *self, Py_ssize_t s, uint8_t *into) {
    const char *row = self->rows + s * self->row_bytes;
    if (!self->narrow) { memcpy(into, row, (size_t)self->width); return; }
    int64_t number = number_at(row, self->item_bytes);
    if (number < self->low || number > self->high) self->blind[s] = 1;
    uint64_t small = (uint64_t)(number - self->low);
    memcpy(into, &small, (size_t)self->narrow);           /* little-endian: the low bytes come first */
}

static void begin_episode(Notes *self, Py_ssize_t s, int64_t begun) {
    self->episode[s] = begun;
    self->count[s] = self->base[s] = 0;
    self->blind[s] = 0;
}

/* How many entries more a slot's chunk takes. */
static inline Py_ssize_t room_of(const Notes *self, Py_ssize_t s) {
    return self->chunk - (Py_ssize_t)(self->count[s] - self->base[s]);
}

/* A chunk that is full is packed away, at the latest when something more is to be written to it. */
static int pack_if_full(Notes *self, Py_ssize_t s) {
    if (room_of(self, s)) return 0;
    PyObject *done = PyObject_CallFunction(self->full, "n", s);
    Py_XDECREF(done);
    if (done && !room_of(self, s)) PyErr_Format(PyExc_IndexError, "slot %zd has no room for a note", s);
    return PyErr_Occurred() ? -1 : 0;
}

static int note_one(Notes *self, Py_ssize_t s, int64_t begun, uint32_t digest, uint8_t ended) {
    if (self->episode[s] != begun) begin_episode(self, s, begun);
    self->seen[s] = digest;
    if (self->next_step && ended) { self->pending[s] = AUTORESET; return 0; }
    self->pending[s] = STEP;
    if (pack_if_full(self, s) < 0) return -1;
    Py_ssize_t place = s * self->chunk + (Py_ssize_t)(self->count[s] - self->base[s]);
    write_action(self, s, self->actions + place * self->width);
    self->digests[place] = digest;
    self->count[s]++;
    return 0;
}

/* ---- piles: notes of whole batches, batch by batch ---------------------------------------------------------------- */

/* A batch's notes for many slots would go to as many pages of memory, each of which must be looked up anew. They are piled
 * up as they come. While the next pile grows, a full one is sorted by slot, a few slots after each batch: that is when the
 * workers are busy and the parent is not. All at once it would take ten times as long as a batch of very short steps. */

/* A slot's entries of a pile up to ``stop`` go to its sheet. */
static int sort_slot(Notes *self, Pile *pile, Py_ssize_t s, Py_ssize_t stop) {
    Py_ssize_t width = self->width, at = pile->since[s];
    pile->since[s] = stop;
    while (at < stop) {
        if (pack_if_full(self, s) < 0) return -1;
        Py_ssize_t room = room_of(self, s), place = self->chunk - room, entries = stop - at < room ? stop - at : room;
        const uint8_t *action = pile->actions + (at * self->slots + s) * width;
        const uint32_t *digest = pile->digests + at * self->slots + s;
        uint8_t *into = self->actions + (s * self->chunk + place) * width;
        uint32_t *sheet = self->digests + s * self->chunk + place;
        for (Py_ssize_t i = 0; i < entries; i++, action += self->slots * width, digest += self->slots) {
            if (width == 1) into[i] = *action;
            else memcpy(into + i * width, action, (size_t)width);
            sheet[i] = *digest;
        }
        at += entries;
        self->count[s] += entries;
    }
    return 0;
}

/* Of how many slots from this one on, a line's at most, all of the full pile is needed and has room in their sheets. */
static Py_ssize_t whole_slots(const Notes *self, Py_ssize_t first, Py_ssize_t stop) {
    Py_ssize_t s = first;
    for (; s < stop && s < first + LINE_DIGESTS; s++)
        if (self->full_pile.since[s] || room_of(self, s) < self->full_pile.height) break;
    return s - first;
}

/* Neighbours together: what is in one line of the pile is read once. */
static void sort_neighbours(Notes *self, Py_ssize_t first, Py_ssize_t slots) {
    Pile *pile = &self->full_pile;
    Py_ssize_t width = self->width, height = pile->height;
    uint32_t *sheets[LINE_DIGESTS];
    uint8_t *into[LINE_DIGESTS];
    for (Py_ssize_t j = 0; j < slots; j++) {
        Py_ssize_t s = first + j, place = s * self->chunk + (Py_ssize_t)(self->count[s] - self->base[s]);
        sheets[j] = self->digests + place;
        into[j] = self->actions + place * width;
        self->count[s] += height;
        pile->since[s] = height;
    }
    for (Py_ssize_t i = 0; i < height; i++) {
        const uint32_t *digest = pile->digests + i * self->slots + first;
        const uint8_t *action = pile->actions + (i * self->slots + first) * width;
        for (Py_ssize_t j = 0; j < slots; j++) sheets[j][i] = digest[j];
        if (width == 1) for (Py_ssize_t j = 0; j < slots; j++) into[j][i] = action[j];
        else for (Py_ssize_t j = 0; j < slots; j++) memcpy(into[j] + i * width, action + j * width, (size_t)width);
    }
}

/* The full pile's entries of the slots up to ``stop`` go to their sheets. */
static int sort_full(Notes *self, Py_ssize_t stop) {
    while (self->sorted < stop) {
        Py_ssize_t s = self->sorted, whole = whole_slots(self, s, stop);
        self->sorted += whole ? whole : 1;
        if (whole) sort_neighbours(self, s, whole);
        else if (sort_slot(self, &self->full_pile, s, self->full_pile.height) < 0) return -1;
    }
    return 0;
}

/* The newest row of every slot that is in the pile's last batch. */
static void see_newest(Notes *self) {
    const Pile *pile = &self->now;
    const uint32_t *newest = pile->digests + (pile->height - 1) * self->slots;
    for (Py_ssize_t s = 0; s < self->slots; s++)
        if (pile->since[s] < pile->height) self->seen[s] = newest[s];
}

static void clear_pile(Notes *self, Pile *pile) {
    pile->height = 0;
    memset(pile->since, 0, (size_t)self->slots * sizeof *pile->since);
}

/* Everything that is piled up goes to the sheets, and what is full is packed away. */
static int sort_all(Notes *self) {
    if (sort_full(self, self->slots) < 0) return -1;
    if (self->now.height) see_newest(self);
    for (Py_ssize_t s = 0; s < self->slots; s++)
        if (sort_slot(self, &self->now, s, self->now.height) < 0 || pack_if_full(self, s) < 0) return -1;
    clear_pile(self, &self->now);
    return 0;
}

/* Packing takes as long as a batch of very short steps, and neighbours are full at the same time: one after each batch. */
static int pack_next(Notes *self) {
    for (Py_ssize_t looked = 0; looked <= self->slots / 32; looked++) {
        Py_ssize_t s = self->packed_next;
        self->packed_next = (s + 1) % self->slots;
        if (!room_of(self, s)) return pack_if_full(self, s);
    }
    return 0;
}

/* After a batch: another pile is begun when this one is full; a part of the full one is sorted. */
static int go_on(Notes *self) {
    Py_ssize_t due = self->slots * ++self->now.height / self->most;
    if (self->now.height < self->most) return sort_full(self, due - due % LINE_DIGESTS) < 0 ? -1 : pack_next(self);
    if (sort_full(self, self->slots) < 0) return -1;
    see_newest(self);
    Pile grown = self->now;
    self->now = self->full_pile;
    self->full_pile = grown;
    self->sorted = 0;
    clear_pile(self, &self->now);
    return 0;
}

/* Slots that are at the beginning or at the end of an episode. */
static int note_turns(Notes *self) {
    const int64_t *begun = self->held_begun;
    const uint8_t *ended = self->held_ended;
    Pile *now = &self->now, *full = &self->full_pile;
    int has_begun = memcmp(begun, self->episode, (size_t)self->slots * sizeof *begun) != 0;
    int has_ended = self->next_step && memchr(ended, 1, (size_t)self->slots);
    for (Py_ssize_t s = 0; (has_begun || has_ended) && s < self->slots; s++) {
        if (begun[s] != self->episode[s]) {
            begin_episode(self, s, begun[s]);
            now->since[s] = now->height;                  /* nobody needs the episode before */
            full->since[s] = full->height;
        }
        if (!has_ended || !ended[s]) continue;
        if (sort_slot(self, full, s, full->height) < 0 || sort_slot(self, now, s, now->height) < 0) return -1;
        now->since[s] = now->height + 1;                  /* this batch is not a step of it */
        self->pending[s] = AUTORESET;
        self->seen[s] = now->digests[now->height * self->slots + s];
    }
    return 0;
}

/* Actions of one byte each, the most common kind, without a question in the loop. 0: one of them is outside of its space. */
static int pile_bytes(Notes *self, uint8_t *into) {
    const int64_t *rows = (const int64_t *)self->rows, low = self->low;
    uint64_t range = (uint64_t)(self->high - low), outside = 0;
    for (Py_ssize_t s = 0; s < self->slots; s++) {
        uint64_t small = (uint64_t)(rows[s] - low);
        into[s] = (uint8_t)small;
        outside |= small > range;
    }
    return !outside;
}

static int pile_batch(Notes *self) {
    memset(self->pending, STEP, (size_t)self->slots);
    if (note_turns(self) < 0) return -1;
    uint8_t *into = self->now.actions + self->now.height * self->slots * self->width;
    if (self->narrow != 1 || self->item_bytes != 8 || !pile_bytes(self, into))
        for (Py_ssize_t s = 0; s < self->slots; s++, into += self->width)
            if (self->now.since[s] <= self->now.height) write_action(self, s, into);
    return go_on(self);
}

static PyObject *none_unless(int failed) {
    if (failed < 0) return NULL;
    Py_RETURN_NONE;
}

static int hold_batch(Notes *self) {
    memcpy(self->held_begun, self->begun, (size_t)self->slots * sizeof(int64_t));
    memcpy(self->held_ended, self->ended, (size_t)self->slots);
    memcpy(self->now.digests + self->now.height * self->slots, self->digest, (size_t)self->slots * sizeof(uint32_t));
    return 0;
}

static PyObject *Notes_hold_all(Notes *self, PyObject *noargs) { return none_unless(hold_batch(self)); }

static PyObject *Notes_note_held(Notes *self, PyObject *noargs) { return none_unless(pile_batch(self)); }

static PyObject *Notes_note_all(Notes *self, PyObject *noargs) {
    hold_batch(self);
    return none_unless(pile_batch(self));
}

static int hold_hook(PyObject *notes) { return hold_batch((Notes *)notes); }
static int note_hook(PyObject *notes) { return pile_batch((Notes *)notes); }

static PyObject *Notes_hook(Notes *self, PyObject *noargs) {
    static JournalHook hook = {hold_hook, note_hook};
    return hook_capsule(&hook, (PyObject *)self);
}

static PyObject *Notes_complete(Notes *self, PyObject *noargs) { return none_unless(sort_all(self)); }

/* Slots as numbers in a row; as they are where they are that already, for whatever else numpy would ask takes longer. */
static PyArrayObject *numbers_of(PyObject *slots) {
    PyArrayObject *array = (PyArrayObject *)slots;
    if (PyArray_CheckExact(slots) && PyArray_TYPE(array) == NPY_INT64 && PyArray_NDIM(array) == 1 &&
        PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISBEHAVED_RO(array))
        return (PyArrayObject *)Py_NewRef(slots);
    return (PyArrayObject *)PyArray_ContiguousFromAny(slots, NPY_INT64, 1, 1);
}

static PyObject *Notes_note(Notes *self, PyObject *slots) {
    PyArrayObject *array = numbers_of(slots);
    if (!array) return NULL;
    const int64_t *numbers = PyArray_DATA(array);
    int is_piled = self->now.height || self->sorted < self->slots;
    if (is_piled && sort_all(self) < 0) { Py_DECREF(array); return NULL; }
    for (Py_ssize_t i = 0; i < PyArray_SIZE(array); i++) {
        int outside = numbers[i] < 0 || numbers[i] >= self->slots;
        if (outside) PyErr_Format(PyExc_IndexError, "slot %lld of %zd", (long long)numbers[i], self->slots);
        Py_ssize_t s = (Py_ssize_t)numbers[i];
        if (outside || note_one(self, s, self->begun[s], self->digest[s], self->ended[s]) < 0) { Py_DECREF(array); return NULL; }
    }
    Py_DECREF(array);
    Py_RETURN_NONE;
}

static PyMethodDef Notes_methods[] = {
    {"note_all", (PyCFunction)Notes_note_all, METH_NOARGS, "Every slot is about to be stepped."},
    {"hold_all", (PyCFunction)Notes_hold_all, METH_NOARGS, "Copy what workers are about to write over."},
    {"note_held", (PyCFunction)Notes_note_held, METH_NOARGS, "Every slot was stepped: note from what was held."},
    {"hook", (PyCFunction)Notes_hook, METH_NOARGS, "hold_all and note_held for native callers."},
    {"note", (PyCFunction)Notes_note, METH_O, "These slots are about to be stepped."},
    {"complete", (PyCFunction)Notes_complete, METH_NOARGS, "Write into the sheets whatever is not there yet."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject NotesType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.pool._native.Notes",
    .tp_basicsize = sizeof(Notes),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Notes of requests about to be posted.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Notes_init,
    .tp_dealloc = (destructor)Notes_dealloc,
    .tp_methods = Notes_methods,
};

/* ---- copies of rows --------------------------------------------------------------------------------------------- */

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
        else copy = slots ? rows_of((PyArrayObject *)rows, PyArray_DATA(slots), PyArray_SIZE(slots)) : copy_of(rows);
        if (!copy) { Py_CLEAR(out); break; }
        PyTuple_SET_ITEM(out, i, copy);
    }
    return out;
}

/* The observation's arrays as they are in its structure: a dict by these keys, or with none of them the only one. */
static PyObject *observation_of(PyObject *parts, Py_ssize_t count, PyObject *keys) {
    if (keys == Py_None) return Py_NewRef(PyTuple_GET_ITEM(parts, 0));
    PyObject *out = PyDict_New();
    for (Py_ssize_t i = 0; out && i < count; i++)
        if (PyDict_SetItem(out, PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(parts, i)) < 0) Py_CLEAR(out);
    return out;
}

/* batch(kind, slots, some, arrays, keys, episodes) -> an object of that kind with fresh copies of all rows, or of the slots'
 * if ``some``. The last four arrays are reward, terminated, truncated and valid, those before them are the observation's.
 * The object's attributes are set one by one: the class's own __init__ takes several times as long, most of all when it has not run for a while. */
static PyObject *batch(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    static const char *names[] = {"obs", "reward", "terminated", "truncated", "valid", "slots", "infos", "episodes"};
    static PyObject *interned[8];
    if (nargs != 6 || !PyType_Check(args[0]) || !PyTuple_Check(args[3]) || PyTuple_GET_SIZE(args[3]) < (args[4] == Py_None ? 5 : 4) ||
        (args[4] != Py_None && (!PyTuple_Check(args[4]) || PyTuple_GET_SIZE(args[4]) != PyTuple_GET_SIZE(args[3]) - 4))) {
        PyErr_SetString(PyExc_TypeError, "batch(kind, slots, some, arrays, keys, episodes)");
        return NULL;
    }
    for (int i = 0; i < 8; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(names[i]))) return NULL;
    PyArrayObject *slots = args[2] == Py_True ? numbers_of(args[1]) : NULL;
    if (args[2] == Py_True && !slots) return NULL;
    PyObject *parts = copied(args[3], slots), *out = NULL;
    Py_XDECREF(slots);
    if (!parts) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(parts) - 4;
    PyObject *values[8] = {observation_of(parts, count, args[4]), PyTuple_GET_ITEM(parts, count), PyTuple_GET_ITEM(parts, count + 1),
                           PyTuple_GET_ITEM(parts, count + 2), PyTuple_GET_ITEM(parts, count + 3), args[1], PyDict_New(), args[5]};
    PyTypeObject *kind = (PyTypeObject *)args[0];
    if (values[0] && values[6]) out = kind->tp_alloc(kind, 0);
    for (int i = 0; out && i < 8; i++)
        if (PyObject_SetAttr(out, interned[i], values[i]) < 0) Py_CLEAR(out);
    Py_XDECREF(values[0]);
    Py_XDECREF(values[6]);
    Py_DECREF(parts);
    return out;
}

/* slots_of(groups, rows) -> the slots of a list of groups, end to end; rows has those of each group, all of one size. */
static PyObject *slots_of(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    PyArrayObject *rows = nargs == 2 && PyList_Check(args[0]) && PyArray_Check(args[1]) ? (PyArrayObject *)args[1] : NULL;
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

/* recv_batch(recv_some, rows, recipe, need, start, timeout_ns, until_ns) -> (groups, slots, attention, batch) once so many
 * groups are ready; None where recv_some gives none. ``recipe`` is (kind, arrays, keys, episodes); without one, and where
 * anything but plain rows has come, there is no batch (None). One call instead of ten: what runs once in a while has gone
 * cold each time. */
static PyObject *recv_batch(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    PyObject *recipe = nargs == 7 ? args[2] : NULL;
    if (!recipe || (recipe != Py_None && (!PyTuple_Check(recipe) || PyTuple_GET_SIZE(recipe) != 4))) {
        PyErr_SetString(PyExc_TypeError, "recv_batch(recv_some, rows, recipe, need, start, timeout_ns, until_ns)");
        return NULL;
    }
    PyObject *found = PyObject_Vectorcall(args[0], args + 3, 4, NULL), *slots = NULL, *made = NULL, *out = NULL;
    if (!found || found == Py_None) return found;
    if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 2) {
        PyErr_SetString(PyExc_TypeError, "recv_some must give groups and attention");
        goto end;
    }
    PyObject *groups = PyTuple_GET_ITEM(found, 0), *attention = PyTuple_GET_ITEM(found, 1);
    int is_plain = PyObject_Not(attention);
    if (is_plain < 0 || !(slots = slots_of(module, (PyObject *const[]){groups, args[1]}, 2))) goto end;
    if (is_plain && recipe != Py_None) {
        PyObject *const of[] = {PyTuple_GET_ITEM(recipe, 0), slots, Py_True, PyTuple_GET_ITEM(recipe, 1),
                                PyTuple_GET_ITEM(recipe, 2), PyTuple_GET_ITEM(recipe, 3)};
        if (!(made = batch(module, of, 6))) goto end;
    }
    out = PyTuple_Pack(4, groups, slots, attention, made ? made : Py_None);
end:
    Py_XDECREF(made);
    Py_XDECREF(slots);
    Py_DECREF(found);
    return out;
}

/* ended(slots, terminated, truncated, returns, lengths, times) -> (slots, returns, lengths, times) of those that ended.
 * Flags are by row, records by slot. */
static PyObject *ended(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (nargs != 6 || !PyArray_Check(args[i]) || PyArray_ITEMSIZE((PyArrayObject *)args[i]) != (i == 1 || i == 2 ? 1 : 8)) {
            PyErr_SetString(PyExc_TypeError, "ended(slots, terminated, truncated, returns, lengths, times)");
            return NULL;
        }
    PyArrayObject *slots = numbers_of(args[0]);
    npy_intp size = slots ? PyArray_SIZE(slots) : 0, count = 0;
    int64_t *which = slots ? PyMem_Malloc((size_t)(size + 1) * sizeof *which) : NULL;
    if (!which) { Py_XDECREF(slots); return slots ? PyErr_NoMemory() : NULL; }
    const int64_t *numbers = PyArray_DATA(slots);
    const uint8_t *terminated = PyArray_DATA((PyArrayObject *)args[1]), *truncated = PyArray_DATA((PyArrayObject *)args[2]);
    for (npy_intp row = 0; row < size; row++)
        if (terminated[row] | truncated[row]) which[count++] = numbers[row];
    PyObject *who = PyArray_SimpleNew(1, &count, NPY_INT64);
    if (who && count) memcpy(PyArray_DATA((PyArrayObject *)who), which, (size_t)count * sizeof *which);
    PyObject *out = Py_BuildValue("(NNNN)", who, rows_of((PyArrayObject *)args[3], which, count),
                                  rows_of((PyArrayObject *)args[4], which, count), rows_of((PyArrayObject *)args[5], which, count));
    PyMem_Free(which);
    Py_DECREF(slots);
    return out;
}

static PyMethodDef functions[] = {
    {"batch", (PyCFunction)(void *)batch, METH_FASTCALL, "Fresh copies of rows, as a batch."},
    {"slots_of", (PyCFunction)(void *)slots_of, METH_FASTCALL, "The slots of some groups."},
    {"recv_batch", (PyCFunction)(void *)recv_batch, METH_FASTCALL, "The next batch, where it is a common one."},
    {"ended", (PyCFunction)(void *)ended, METH_FASTCALL, "Which slots ended, with what is known of their episodes."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "What the parent does once per batch.", -1, functions};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    if (PyType_Ready(&NotesType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Notes", (PyObject *)&NotesType) < 0) { Py_DECREF(m); return NULL; }
    return m;
}
