/* Slot numbers that native code is given: an array of 64-bit integers, checked once. */
#ifndef NINELIVES_SLOT_NUMBERS_H
#define NINELIVES_SLOT_NUMBERS_H

/* A new reference to ``slots`` as contiguous int64; usually that is the same object. */
static inline PyArrayObject *slot_numbers(PyObject *slots) {
    PyArrayObject *array = (PyArrayObject *)slots;
    if (PyArray_CheckExact(slots) && PyArray_TYPE(array) == NPY_INT64 && PyArray_NDIM(array) == 1 &&
        PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISBEHAVED_RO(array))
        return (PyArrayObject *)Py_NewRef(slots);
    return (PyArrayObject *)PyArray_ContiguousFromAny(slots, NPY_INT64, 1, 1);
}

#endif
