/* Arrays of NumPy, and what a loop may read and write of them. */

typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} Array;

enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

static PyTypeObject *array_type;
static PyObject *F32, *F64, *I64, *F16, *BF16, *BOOL, *I32;

/* An uninitialised array of the shape of another and of the type given (a reference that is taken over), or of its own
 * type: NumPy's function, at its place in the table of functions that NumPy's ABI fixes. */
typedef PyObject *(*NewLike)(PyObject *prototype, int order, PyObject *descr, int subok);
typedef int (*CopyInto)(PyObject *to, PyObject *from);
enum { NEW_LIKE = 277, COPY_INTO = 50, KEEP_ORDER = 2 };
static NewLike new_like;
static CopyInto copy_into; /* another array of the shape; it runs no Python for numbers */

/* A function of NumPy. Its ufuncs return NULL without an exception where some of their memory could not be had, of which the
 * interpreter makes a SystemError. */
static PyObject *call_numpy(PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *made = PyObject_Vectorcall(function, args, count, names);
    if (!made && PyErr_ExceptionMatches(PyExc_SystemError)) PyErr_NoMemory();
    return made;
}

INLINE int plain(PyObject *object, PyObject *descr, int flags) {
    Array *a = (Array *)object;
    return Py_TYPE(object) == array_type && a->descr == descr && (a->flags & flags) == flags;
}

INLINE int readable(PyObject *object, PyObject *descr) { return plain(object, descr, CONTIGUOUS | ALIGNED); }
INLINE int writable(PyObject *object, PyObject *descr) {
    return plain(object, descr, CONTIGUOUS | ALIGNED | WRITEABLE);
}

INLINE Py_ssize_t count_of(PyObject *object) {
    Array *a = (Array *)object;
    Py_ssize_t count = 1;
    for (int i = 0; i < a->nd; i++) count *= a->dimensions[i];
    return count;
}

/* Bytes of an element; 0 for types that are not known here. */
INLINE Py_ssize_t size_of_element(PyObject *descr) {
    if (descr == F32) return 4;
    if (descr == F64 || descr == I64) return 8;
    return descr == BOOL ? 1 : descr == F16 || descr == BF16 ? 2 : 0;
}

/* Whether two arrays of so many bytes are one and the same memory, or share none: a loop may write one from the other. */
INLINE int apart(PyObject *x, PyObject *out, Py_ssize_t bytes) {
    char *a = ((Array *)x)->data, *b = ((Array *)out)->data;
    return a == b || a + bytes <= b || b + bytes <= a;
}

/* Whether two arrays of so many bytes have none in common. */
INLINE int disjoint(PyObject *x, Py_ssize_t bytes, PyObject *y, Py_ssize_t others) {
    char *a = ((Array *)x)->data, *b = ((Array *)y)->data;
    return a + bytes <= b || b + others <= a;
}

INLINE int of_one_shape(PyObject *x, PyObject *y) {
    Array *a = (Array *)x, *b = (Array *)y;
    if (a->nd != b->nd) return 0;
    for (int i = 0; i < a->nd; i++)
        if (a->dimensions[i] != b->dimensions[i]) return 0;
    return 1;
}

INLINE void *data_of(PyObject *object) { return ((Array *)object)->data; }
INLINE Py_ssize_t last_of(PyObject *object) {
    Array *a = (Array *)object;
    return a->nd ? a->dimensions[a->nd - 1] : 1;
}
