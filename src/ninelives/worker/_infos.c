/* Infos that are numbers, into a slot's place in the slab: the twin of PyPacker in worker/infos.py, with equal bytes.
 *
 * Knows schemas that Python has learned and announced, and nothing of mailboxes. An info is compared with a schema and
 * copied in one pass over its keys, into a buffer first: the slot's place never holds half of an info that fits.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <stdint.h>
#include <string.h>

enum { INFO_BYTES = 512, MAX_FIELDS = 64, MAX_DIMS = 8, MAX_SCHEMAS = 8 };    /* spec/info_schema.py */
enum { ATTENTION_INFO = 16, UNKNOWN = -1 };
enum { KIND_INT, KIND_FLOAT, KIND_BOOL, KIND_SCALAR, KIND_ARRAY };

typedef struct {
    PyObject *key;
    PyTypeObject *scalar;       /* of KIND_SCALAR: the exact type */
    int kind, type, dims;       /* type: numpy's number of it */
    Py_ssize_t offset, bytes, shape[MAX_DIMS];
} Field;

typedef struct {
    Field fields[MAX_FIELDS];
    int count;
    uint64_t number;
} Schema;

typedef struct {
    PyObject_HEAD
    Py_buffer place, word;
    PyObject *wanted;           /* a frozenset of keys, or NULL: all */
    Schema *schemas[MAX_SCHEMAS];
    int schema_count, newest;   /* newest: the schema that fitted last */
} Packer;

/* ---- learning -------------------------------------------------------------------------------------------------- */

static int kind_from(const char *name) {
    static const char *const names[] = {"int", "float", "bool", "scalar", "array"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(name, names[i])) return i;
    PyErr_Format(PyExc_ValueError, "unknown kind %s", name);
    return -1;
}

static int read_shape(Field *field, PyObject *shape) {
    field->dims = (int)PyTuple_GET_SIZE(shape);
    if (field->dims > MAX_DIMS) {
        PyErr_SetString(PyExc_ValueError, "too many dimensions");
        return -1;
    }
    for (int i = 0; i < field->dims; i++) field->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    return PyErr_Occurred() ? -1 : 0;
}

/* description: (key, kind, dtype, shape, offset, bytes) */
static int read_field(Field *field, PyObject *description) {
    PyObject *key, *shape;
    PyArray_Descr *dtype;
    const char *kind;
    if (!PyArg_ParseTuple(description, "UsO!O!nn", &key, &kind, &PyArrayDescr_Type, &dtype, &PyTuple_Type, &shape,
                          &field->offset, &field->bytes))
        return -1;
    if ((field->kind = kind_from(kind)) < 0 || read_shape(field, shape) < 0) return -1;
    if (field->offset < 0 || field->bytes < 0 || field->offset + field->bytes > INFO_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a field outside its place");
        return -1;
    }
    field->type = dtype->type_num;
    field->scalar = dtype->typeobj;
    Py_INCREF(field->scalar);
    field->key = Py_NewRef(key);
    return 0;
}

static void free_schema(Schema *schema) {
    for (int i = 0; i < schema->count; i++) {
        Py_XDECREF(schema->fields[i].key);
        Py_XDECREF(schema->fields[i].scalar);
    }
    PyMem_Free(schema);
}

static int read_fields(Schema *schema, PyObject *layout) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(layout); i++) {
        Field *field = &schema->fields[schema->count];
        if (read_field(field, PyTuple_GET_ITEM(layout, i)) < 0) return -1;
        schema->count++;
    }
    return 0;
}

/* learn(schema): one more schema to try, an InfoSchema. */
static PyObject *Packer_learn(Packer *self, PyObject *given) {
    PyObject *layout = PyObject_GetAttrString(given, "layout"), *number = PyObject_GetAttrString(given, "number");
    Schema *schema = PyMem_Calloc(1, sizeof *schema);
    int failed = !layout || !number || !schema;
    int fits = layout && PyTuple_Check(layout) && PyTuple_GET_SIZE(layout) <= MAX_FIELDS;
    if (!failed && (!fits || self->schema_count == MAX_SCHEMAS)) {
        PyErr_SetString(PyExc_ValueError, "too many fields, or too many schemas");
        failed = 1;
    }
    if (!failed) {
        schema->number = PyLong_AsUnsignedLongLong(number);
        failed = PyErr_Occurred() || read_fields(schema, layout) < 0;
    }
    Py_XDECREF(layout);
    Py_XDECREF(number);
    if (failed) {
        if (schema) free_schema(schema);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    self->schemas[self->schema_count++] = schema;
    Py_RETURN_NONE;
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

static int copy_array(const Field *field, PyArrayObject *array, char *to) {
    if (PyArray_TYPE(array) != field->type || PyArray_NDIM(array) != field->dims) return 0;
    if (!PyArray_ISNOTSWAPPED(array)) return 0;
    for (int i = 0; i < field->dims; i++)
        if (PyArray_DIM(array, i) != field->shape[i]) return 0;
    PyArrayObject *whole = PyArray_GETCONTIGUOUS(array);
    if (!whole) {
        PyErr_Clear();
        return 0;
    }
    memcpy(to, PyArray_DATA(whole), (size_t)field->bytes);
    Py_DECREF(whole);
    return 1;
}

static int copy_int(PyObject *value, char *to) {
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    memcpy(to, &number, sizeof number);
    return !overflow;
}

/* Whether the value is exactly of the field's type; if so it is copied. Never raises. */
static int copy_value(const Field *field, PyObject *value, char *to) {
    double number;
    switch (field->kind) {
    case KIND_FLOAT:
        if (!PyFloat_CheckExact(value)) return 0;
        number = PyFloat_AS_DOUBLE(value);
        memcpy(to, &number, sizeof number);
        return 1;
    case KIND_INT:
        return PyLong_CheckExact(value) && copy_int(value, to);
    case KIND_BOOL:
        if (!PyBool_Check(value)) return 0;
        *to = value == Py_True;
        return 1;
    case KIND_SCALAR:
        if (Py_TYPE(value) != field->scalar) return 0;
        PyArray_ScalarAsCtype(value, to);
        return 1;
    default:
        return PyArray_CheckExact(value) && copy_array(field, (PyArrayObject *)value, to);
    }
}

static int is_key(const Field *field, PyObject *key) {
    return field->key == key || (PyUnicode_CheckExact(key) && PyUnicode_Compare(field->key, key) == 0);
}

/* 1: the info fits and its bytes are in ``buffer``; 0: it does not; -1: an exception. */
static int fits(const Packer *self, const Schema *schema, PyObject *info, char *buffer) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int i = 0;
    while (PyDict_Next(info, &at, &key, &value)) {
        if (i < schema->count && is_key(&schema->fields[i], key)) {
            if (!copy_value(&schema->fields[i], value, buffer + schema->fields[i].offset)) return 0;
            i++;
            continue;
        }
        int is_wanted = self->wanted ? PySet_Contains(self->wanted, key) : 1;
        if (is_wanted) return is_wanted < 0 ? -1 : 0;
    }
    return i == schema->count;
}

/* Whether an info holds anything that somebody reads; -1: an exception. */
static int has_any(const Packer *self, PyObject *info) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!self->wanted) return PyDict_GET_SIZE(info) > 0;
    while (PyDict_Next(info, &at, &key, &value)) {
        int is_wanted = PySet_Contains(self->wanted, key);
        if (is_wanted) return is_wanted;
    }
    return 0;
}

/* The schema word is read by the parent in every batch: its line is not written where nothing changes. */
static PyObject *answer(Packer *self, uint64_t number, int bits) {
    uint64_t *word = self->word.buf;
    if (*word != number) *word = number;
    return PyLong_FromLong(bits);
}

static void copy_fields(Packer *self, const Schema *schema, const char *buffer) {
    for (int i = 0; i < schema->count; i++) {
        const Field *field = &schema->fields[i];
        memcpy((char *)self->place.buf + field->offset, buffer + field->offset, (size_t)field->bytes);
    }
}

/* pack(info) -> attention bits; -1: it fits no schema. */
static PyObject *Packer_pack(Packer *self, PyObject *info) {
    _Alignas(16) char buffer[INFO_BYTES];
    if (!PyDict_CheckExact(info)) return answer(self, 0, UNKNOWN);
    for (int i = 0; i < self->schema_count; i++) {
        int n = (self->newest + i) % self->schema_count;
        int found = fits(self, self->schemas[n], info, buffer);
        if (found < 0) return NULL;
        if (!found) continue;
        self->newest = n;
        copy_fields(self, self->schemas[n], buffer);
        return answer(self, self->schemas[n]->number, ATTENTION_INFO);
    }
    int any = has_any(self, info);
    return any < 0 ? NULL : answer(self, 0, any ? UNKNOWN : 0);
}

/* ---- the type -------------------------------------------------------------------------------------------------- */

static int Packer_init(Packer *self, PyObject *args, PyObject *kwds) {
    PyObject *place, *word, *wanted;
    if (!PyArg_ParseTuple(args, "OOO", &place, &word, &wanted)) return -1;
    if (self->place.obj) {
        PyErr_SetString(PyExc_RuntimeError, "a Packer is initialised once");
        return -1;
    }
    if (wanted != Py_None && !PyFrozenSet_Check(wanted)) {
        PyErr_SetString(PyExc_TypeError, "wanted must be a frozenset or None");
        return -1;
    }
    if (PyObject_GetBuffer(place, &self->place, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return -1;
    if (PyObject_GetBuffer(word, &self->word, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return -1;
    if (self->place.len != INFO_BYTES || self->word.len != sizeof(uint64_t)) {
        PyErr_SetString(PyExc_ValueError, "a place or a word of another size");
        return -1;
    }
    self->wanted = wanted == Py_None ? NULL : Py_NewRef(wanted);
    return 0;
}

static void Packer_dealloc(Packer *self) {
    if (self->place.obj) PyBuffer_Release(&self->place);
    if (self->word.obj) PyBuffer_Release(&self->word);
    Py_XDECREF(self->wanted);
    for (int i = 0; i < self->schema_count; i++) free_schema(self->schemas[i]);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef Packer_methods[] = {
    {"pack", (PyCFunction)Packer_pack, METH_O, "Write an info that fits a schema."},
    {"learn", (PyCFunction)Packer_learn, METH_O, "One more schema to try."},
    {NULL, NULL, 0, NULL}};

static PyTypeObject PackerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ninelives.worker._infos.Packer",
    .tp_basicsize = sizeof(Packer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Writes infos that fit a known schema.",
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)Packer_init,
    .tp_dealloc = (destructor)Packer_dealloc,
    .tp_methods = Packer_methods,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_infos", "Infos into the slab.", -1, NULL};

PyMODINIT_FUNC PyInit__infos(void) {
    import_array();
    if (PyType_Ready(&PackerType) < 0) return NULL;
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (PyModule_AddObjectRef(m, "Packer", (PyObject *)&PackerType) == 0) return m;
    Py_DECREF(m);
    return NULL;
}
