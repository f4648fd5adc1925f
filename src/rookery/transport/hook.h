/* A native function that one module hands to another inside a capsule: called without a trip through the interpreter.
 *
 * The capsule's context is the Python object that owns the function's data; the capsule keeps it alive.
 */
#ifndef ROOKERY_HOOK_H
#define ROOKERY_HOOK_H

#include <Python.h>

#define HOOK_NAME "rookery.hook"

typedef int (*HookFunction)(PyObject *owner);             /* -1 with an exception set if it failed */
typedef struct { HookFunction function; } Hook;

static inline void hook_dealloc(PyObject *capsule) { Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule)); }

/* ``hook`` lies in memory that is never freed. */
static inline PyObject *hook_capsule(Hook *hook, PyObject *owner) {
    PyObject *capsule = PyCapsule_New(hook, HOOK_NAME, hook_dealloc);
    if (capsule && PyCapsule_SetContext(capsule, Py_NewRef(owner)) < 0) Py_CLEAR(capsule);
    return capsule;
}

/* Calls a hook, or any other callable. */
static inline int hook_called(PyObject *callable) {
    if (PyCapsule_IsValid(callable, HOOK_NAME)) {
        Hook *hook = PyCapsule_GetPointer(callable, HOOK_NAME);
        return hook->function((PyObject *)PyCapsule_GetContext(callable));
    }
    PyObject *done = PyObject_CallNoArgs(callable);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

#endif
