/* Native functions that one module hands to another inside a capsule: called without a trip through the interpreter.
 *
 * The capsule's context is the Python object that owns the functions' data; the capsule keeps it alive.
 */
#ifndef NINELIVES_HOOK_H
#define NINELIVES_HOOK_H

#include <Python.h>

#define JOURNAL_HOOK "ninelives.journal"

/* What writes the journal of a whole batch; each gets the owner, and returns -1 with an exception set if it failed. */
typedef struct {
    int (*hold)(PyObject *owner);      /* before anything is sent */
    int (*note)(PyObject *owner);      /* while the workers are busy */
} JournalHook;

static inline void hook_dealloc(PyObject *capsule) { Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule)); }

/* ``hook`` lies in memory that is never freed. */
static inline PyObject *hook_capsule(JournalHook *hook, PyObject *owner) {
    PyObject *capsule = PyCapsule_New(hook, JOURNAL_HOOK, hook_dealloc);
    if (capsule && PyCapsule_SetContext(capsule, Py_NewRef(owner)) < 0) Py_CLEAR(capsule);
    return capsule;
}

#endif
