/* Shapes that loops over images go by: channels of samples, and windows of planes. */

/* Arrays of (batch, channels, places), as three counts. A channel of one sample is a run of memory. */
typedef struct {
    Py_ssize_t batch, channels, places;
} Layout;

INLINE int layout_of(PyObject *object, Layout *shape) {
    Array *a = (Array *)object;
    if (a->nd < 2) return 0;
    shape->batch = a->dimensions[0];
    shape->channels = a->dimensions[1];
    shape->places = 1;
    for (int i = 2; i < a->nd; i++) shape->places *= a->dimensions[i];
    return shape->batch * shape->channels * shape->places > 0;
}

typedef struct {
    Py_ssize_t planes, size[2], count[2]; /* places and windows along each axis */
    Py_ssize_t kernel[2], stride[2], padding[2], dilation[2];
} Windows;

/* Windows beyond these are left to others, so that no product of two such numbers overflows. */
#define FURTHEST ((Py_ssize_t)1 << 24)
#define MOST_WINDOWS ((Py_ssize_t)1 << 31)

/* One or two numbers of a tuple, each at least so large, into the last places of a pair. */
INLINE int read_pair(PyObject *numbers, Py_ssize_t least, Py_ssize_t absent, Py_ssize_t *pair) {
    if (!PyTuple_CheckExact(numbers)) return 0;
    Py_ssize_t n = PyTuple_GET_SIZE(numbers);
    if (n < 1 || n > 2) return 0;
    pair[0] = absent;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t *number = &pair[2 - n + i];
        if (!read_size(PyTuple_GET_ITEM(numbers, i), number) || *number < least || *number > FURTHEST) return 0;
    }
    return 1;
}

/* Kernel, stride, padding and dilation of args[0] to args[3]. */
INLINE int read_windows(PyObject *const *args, Py_ssize_t least_stride, Windows *w) {
    return read_pair(args[0], 1, 1, w->kernel) && read_pair(args[1], least_stride, 1, w->stride) &&
           read_pair(args[2], 0, 0, w->padding) && read_pair(args[3], 1, 1, w->dilation);
}

/* What args[0] to args[3] say of windows; x holds the places, out one for a window. */
INLINE int windows_of(PyObject *const *args, PyObject *x, PyObject *out, Windows *w) {
    Array *a = (Array *)x, *b = (Array *)out;
    if (!read_windows(args, 0, w)) return 0;
    int n = (int)PyTuple_GET_SIZE(args[0]);
    if (a->nd < n || a->nd != b->nd || count_of(x) == 0) return 0;
    w->planes = 1;
    w->size[0] = w->count[0] = 1;
    for (int i = 0; i < a->nd - n; i++) {
        if (a->dimensions[i] != b->dimensions[i]) return 0;
        w->planes *= a->dimensions[i];
    }
    for (int i = 0; i < n; i++) {
        w->size[2 - n + i] = a->dimensions[a->nd - n + i];
        w->count[2 - n + i] = b->dimensions[b->nd - n + i];
    }
    for (int i = 0; i < 2; i++)
        if (w->size[i] > MOST_WINDOWS || w->count[i] > MOST_WINDOWS) return 0;
    return 1;
}

/* The places of a window along one axis: from, to, in steps of the dilation. Windows with a stride of 0 together cover the
 * axis evenly, whatever their kernel. */
INLINE void reach(const Windows *w, int axis, Py_ssize_t window, Py_ssize_t *from, Py_ssize_t *to) {
    if (w->stride[axis] == 0) {
        *from = window * w->size[axis] / w->count[axis];
        *to = ((window + 1) * w->size[axis] + w->count[axis] - 1) / w->count[axis];
        return;
    }
    *from = window * w->stride[axis] - w->padding[axis];
    *to = *from + (w->kernel[axis] - 1) * w->dilation[axis] + 1;
    if (*to > w->size[axis]) *to = w->size[axis];
    if (*from < 0) *from += (w->dilation[axis] - 1 - *from) / w->dilation[axis] * w->dilation[axis];
}

/* What the sum of a window is divided by. */
INLINE Py_ssize_t divisor_of(const Windows *w, Py_ssize_t row, Py_ssize_t column, int padded, Py_ssize_t inside) {
    if (!padded) return inside;
    Py_ssize_t windows[] = {row, column}, area = 1;
    for (int i = 0; i < 2; i++) {
        Py_ssize_t from = windows[i] * w->stride[i] - w->padding[i], to = from + w->kernel[i];
        Py_ssize_t end = w->size[i] + w->padding[i];
        area *= (to > end ? end : to) - from;
    }
    return area;
}
