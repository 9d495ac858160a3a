/* What all parts of the helper need: headers, flags, and what Python hands over when it connects. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#if !defined(__linux__) || defined(Py_GIL_DISABLED)
#error "built for Linux and interpreters with a global lock; everywhere else the Python recorder is used"
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && __has_include(<internal/pycore_frame.h>)
#define RAW_FRAMES /* frames are read where the interpreter keeps them; elsewhere each gets an object first */
#include <internal/pycore_frame.h>
#include <pthread.h>
#endif

enum { SHAPES = 1, STACKS = 2, MEMORY = 4, ROW_WIDTH = 6, MARK_WIDTH = 3 };
enum { SKIPPED = 0, HIDDEN = -1 };

/* What Python puts here. */

static struct {
    PyObject *make_lane;    /* () -> the calling thread's new lane, or None when nothing records */
    PyObject *inputs_id;    /* (arguments of an op, whether it has a schema) -> id */
    PyObject *stack_keys;   /* list: id of a stack -> chain of modules, then code and last instruction of each frame */
    PyObject *modules;      /* dict: address of a module -> (weak reference, name, event id) */
    PyObject *meet_module;  /* (module, outermost module) -> the same for one that is not there */
    PyObject *add_chain;    /* (chain of modules, name, frames below) -> the longer chain's id */
    PyObject *code_kind;    /* code -> event id, SKIPPED or HIDDEN */
    PyObject *builtin_kind; /* builtin -> event id */
    PyObject *clock;        /* a clock that replaces ours, or NULL */
    PyObject *grad_mode;    /* the ContextVar */
    PyObject *inference_mode, *namespace, *inferring; /* the ContextVar; where generated code runs, and its count of modes */
    PyObject *constants;    /* tuple of the types whose instances never change */
    PyTypeObject *tensor, *parameter, *counted, *node;
    Py_ssize_t array_offset, graph_offset, storage_offset, view_offset; /* the slots of a tensor */
    Py_ssize_t node_offsets[6]; /* edges, saved, seq, shape, dtype, hooks */
    PyTypeObject *storage, *view, *unwatched;
    Py_ssize_t base_offset, version_offset, replay_offset; /* the slots of a view */
    PyObject *composed, *view_version, *live;
    PyTypeObject *leaf, *output;
    Py_ssize_t leaf_array_offset, output_node_offset, output_number_offset;
    int recording, flags;
} globals;

/* What went wrong while recording is told and goes no further. A program at the end of its stack hears of it itself, and an
   interrupt comes again as soon as the program's own code runs. */
static void tell_error(PyObject *where) {
    int interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    if (interrupted || PyErr_ExceptionMatches(PyExc_RecursionError))
        PyErr_Clear();
    else
        PyErr_WriteUnraisable(where);
    if (interrupted)
        PyErr_SetInterrupt();
}

/* Before 3.12 Python collects garbage inside of allocations, and so runs finalizers there: between these two it does not. */
#if PY_VERSION_HEX < 0x030C0000
#define COLLECT_LATER int collecting = PyGC_Disable()
#define COLLECT_AGAIN (void)(collecting && PyGC_Enable())
#else
#define COLLECT_LATER
#define COLLECT_AGAIN
#endif

/* What lies in a slot of an object, borrowed: NULL where it was never set or was deleted. Whoever uses it after Python code
   may have run, which is after every call and every allocation of what is collected, takes a reference first. */
static inline PyObject *slot_of(PyObject *object, Py_ssize_t offset) { return *(PyObject **)((char *)object + offset); }

/* Whether a slot holds something. */
static inline int is_set(PyObject *object, Py_ssize_t offset) {
    PyObject *value = slot_of(object, offset);
    return value && value != Py_None;
}

static Py_ssize_t slot_offset(PyObject *type, const char *name) {
    PyObject *member = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (member && Py_TYPE(member) == &PyMemberDescr_Type)
        offset = ((PyMemberDescrObject *)member)->d_member->offset;
    else if (member)
        PyErr_Format(PyExc_TypeError, "expected %s to be a slot", name);
    Py_XDECREF(member);
    return offset;
}
