/* Removes the all-zero blocks from bytes that are mostly zeros. Twin of sparse.squeeze_in_python with the same output,
 * in a third of its time: removed blocks are read once and never copied. sparse.py documents the format.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024, SIZE_BYTES = 8, MOST_PARTS = 64 };

/* A position in several buffers that are read one after the other. */
typedef struct {
    const Py_buffer *part, *end;
    Py_ssize_t at;
} Reader;

/* The next block in place; a block that spans several buffers, or is not full, is assembled in `room`. */
static const uint8_t *next_block(Reader *reader, uint8_t *room) {
    Py_ssize_t filled = 0;
    while (reader->part < reader->end && filled < BLOCK) {
        const uint8_t *here = (const uint8_t *)reader->part->buf + reader->at;
        Py_ssize_t left = reader->part->len - reader->at, taken = left < BLOCK - filled ? left : BLOCK - filled;
        reader->at += taken;
        if (taken == BLOCK) return here;
        if (taken == left) { reader->part++; reader->at = 0; }
        if (taken) memcpy(room + filled, here, (size_t)taken);
        filled += taken;
    }
    memset(room + filled, 0, (size_t)(BLOCK - filled));
    return room;
}

static int is_empty(const uint8_t *block) {
    uint64_t words[8];
    for (int i = 0; i < BLOCK; i += (int)sizeof words) {
        memcpy(words, block + i, sizeof words);
        if (words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) return 0;
    }
    return 1;
}

/* Writes to `out`, which is large enough for everything, and returns the number of bytes written. */
static Py_ssize_t squeeze_into(uint8_t *out, const Py_buffer *parts, Py_ssize_t count, Py_ssize_t size) {
    Reader reader = {parts, parts + count, 0};
    const Py_ssize_t blocks = (size + BLOCK - 1) / BLOCK;
    uint8_t room[BLOCK], *bits = out + SIZE_BYTES, *end = bits + (blocks + 7) / 8;
    for (int i = 0; i < SIZE_BYTES; i++) out[i] = (uint8_t)((uint64_t)size >> 8 * i);
    memset(bits, 0, (size_t)(end - bits));
    for (Py_ssize_t i = 0; i < blocks; i++) {
        const uint8_t *block = next_block(&reader, room);
        if (is_empty(block)) continue;
        bits[i / 8] |= (uint8_t)(0x80 >> i % 8);
        memcpy(end, block, BLOCK);
        end += BLOCK;
    }
    return end - out;
}

static PyObject *squeezed(const Py_buffer *parts, Py_ssize_t count) {
    Py_ssize_t size = 0;
    for (Py_ssize_t i = 0; i < count; i++) size += parts[i].len;
    const Py_ssize_t blocks = (size + BLOCK - 1) / BLOCK;
    PyObject *out = PyBytes_FromStringAndSize(NULL, SIZE_BYTES + (blocks + 7) / 8 + blocks * BLOCK);
    if (!out) return NULL;
    const Py_ssize_t written = squeeze_into((uint8_t *)PyBytes_AS_STRING(out), parts, count, size);
    return _PyBytes_Resize(&out, written) < 0 ? NULL : out;
}

static PyObject *squeeze(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    Py_buffer parts[MOST_PARTS];
    Py_ssize_t held = 0;
    if (nargs > MOST_PARTS) return PyErr_Format(PyExc_ValueError, "%zd parts are more than %d", nargs, MOST_PARTS);
    while (held < nargs && PyObject_GetBuffer(args[held], &parts[held], PyBUF_SIMPLE) == 0) held++;
    PyObject *out = held == nargs ? squeezed(parts, nargs) : NULL;
    while (held) PyBuffer_Release(&parts[--held]);
    return out;
}

static PyMethodDef methods[] = {
    {"squeeze", (PyCFunction)(void *)squeeze, METH_FASTCALL, "Join all parts and remove their empty blocks."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sparse", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sparse(void) { return PyModule_Create(&module); }
