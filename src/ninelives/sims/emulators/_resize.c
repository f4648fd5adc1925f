/* Resizes gray images by area: each target pixel is the weighted mean of the pixels it covers. resize.py computes
 * those pixels and their weights; this file only multiplies and adds, in the same order as OpenCV, because the order
 * decides how halves are rounded.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_PIXELS = 4096 }; /* in a row or column */

typedef struct {
    const int32_t *first; /* for each target pixel: the first source pixel it covers */
    const float *weights; /* `taps` rows of `count`; padding weights are zero, and adding zero changes nothing */
    Py_ssize_t count, taps;
} Axis;

/* Buffers for the one image being resized; the GIL is held, so one set is enough. */
static float line[MOST_PIXELS], mixed[MOST_PIXELS], sum[MOST_PIXELS];

#ifdef __SSE2__
#include <emmintrin.h>

/* Computes four neighbouring pixels at once and returns how many are done. Four source pixels are loaded for each of
   them, and the four vectors are transposed: the first tap of all four, then the second, ... */
static Py_ssize_t mix_fours(const Axis *across) {
    const Py_ssize_t count = across->count;
    if (across->taps != 4) return 0;
    const float *weights = across->weights;
    Py_ssize_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const int32_t *first = across->first + i;
        __m128 one = _mm_loadu_ps(line + first[0]), two = _mm_loadu_ps(line + first[1]);
        __m128 three = _mm_loadu_ps(line + first[2]), four = _mm_loadu_ps(line + first[3]);
        _MM_TRANSPOSE4_PS(one, two, three, four);
        __m128 total = _mm_mul_ps(one, _mm_loadu_ps(weights + i));
        total = _mm_add_ps(total, _mm_mul_ps(two, _mm_loadu_ps(weights + count + i)));
        total = _mm_add_ps(total, _mm_mul_ps(three, _mm_loadu_ps(weights + 2 * count + i)));
        total = _mm_add_ps(total, _mm_mul_ps(four, _mm_loadu_ps(weights + 3 * count + i)));
        _mm_storeu_ps(mixed + i, total);
    }
    return i;
}
#else
static Py_ssize_t mix_fours(const Axis *across) {
    (void)across;
    return 0;
}
#endif

/* Resizes one row of the source to the width of the target. */
static void mix(const uint8_t *row, Py_ssize_t width, const Axis *across) {
    for (Py_ssize_t i = 0; i < width; i++) line[i] = row[i];
    for (Py_ssize_t i = mix_fours(across); i < across->count; i++) {
        const float *at = line + across->first[i], *weight = across->weights + i;
        float total = 0;
        for (Py_ssize_t tap = 0; tap < across->taps; tap++, weight += across->count) total += at[tap] * *weight;
        mixed[i] = total;
    }
}

/* Rounds to the nearest integer, halves to even: a float of this size has no fractional bits. */
static uint8_t rounded(float value) {
    float shifted = value + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits -= 0x4B400000;
    return (uint8_t)(bits > 255 ? 255 : bits);
}

static void resize(const uint8_t *source, Py_ssize_t width, uint8_t *target, const Axis *down, const Axis *across) {
    Py_ssize_t mixed_row = -1;
    const Py_ssize_t columns = across->count;
    for (Py_ssize_t y = 0; y < down->count; y++, target += columns) {
        memset(sum, 0, (size_t)columns * sizeof *sum);
        for (Py_ssize_t tap = 0; tap < down->taps; tap++) {
            const Py_ssize_t row = down->first[y] + tap;
            const float weight = down->weights[tap * down->count + y];
            if (weight == 0) continue;
            if (row != mixed_row) mix(source + row * width, width, across);
            mixed_row = row; /* a source row shared by two target rows is computed once */
            for (Py_ssize_t x = 0; x < columns; x++) sum[x] += mixed[x] * weight;
        }
        for (Py_ssize_t x = 0; x < columns; x++) target[x] = rounded(sum[x]);
    }
}

/* Fills in an axis and checks that every pixel it refers to is inside the image, so that nothing else is read. */
static int fits(Axis *axis, const Py_buffer *first, const Py_buffer *weights, Py_ssize_t pixels) {
    axis->first = first->buf;
    axis->weights = weights->buf;
    axis->count = first->len / (Py_ssize_t)sizeof(int32_t);
    if (axis->count < 1 || axis->count > MOST_PIXELS || pixels > MOST_PIXELS) return 0;
    axis->taps = weights->len / (Py_ssize_t)sizeof(float) / axis->count;
    for (Py_ssize_t i = 0; i < axis->count; i++)
        if (axis->first[i] < 0 || axis->first[i] + axis->taps > pixels) return 0;
    return axis->taps > 0;
}

static PyObject *resize_area(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer source, target, rows, row_weights, columns, column_weights;
    Py_ssize_t width;
    if (!PyArg_ParseTuple(args, "y*nw*y*y*y*y*", &source, &width, &target, &rows, &row_weights, &columns,
                          &column_weights))
        return NULL;
    Axis down, across;
    const int good = width > 0 && source.len % width == 0 && fits(&down, &rows, &row_weights, source.len / width) &&
                     fits(&across, &columns, &column_weights, width) && target.len == down.count * across.count;
    if (good) resize(source.buf, width, target.buf, &down, &across);
    Py_buffer *all[] = {&source, &target, &rows, &row_weights, &columns, &column_weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (good) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the images do not match the plan");
    return NULL;
}

static PyMethodDef methods[] = {
    {"resize_area", resize_area, METH_VARARGS, "Resize source into target."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_resize", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__resize(void) { return PyModule_Create(&module); }
