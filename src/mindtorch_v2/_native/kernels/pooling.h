/* Pooling of lines and planes, window by window. A line is a plane of one row. */

typedef struct {
    Py_ssize_t planes, size[2], count[2]; /* places and windows along each axis */
    Py_ssize_t kernel[2], stride[2], padding[2], dilation[2];
} Windows;

/* One or two numbers of a tuple into the last places of a pair. */
INLINE int read_pair(PyObject *numbers, Py_ssize_t absent, Py_ssize_t *pair) {
    if (!PyTuple_CheckExact(numbers)) return 0;
    Py_ssize_t n = PyTuple_GET_SIZE(numbers);
    if (n < 1 || n > 2) return 0;
    pair[0] = absent;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *number = PyTuple_GET_ITEM(numbers, i);
        if (!PyLong_CheckExact(number)) return 0;
        pair[2 - n + i] = PyLong_AsSsize_t(number);
    }
    return !PyErr_Occurred();
}

/* What args[0] to args[3] say of windows: kernel, stride, padding, dilation; x holds the places, out one for a window. */
INLINE int windows_of(PyObject *const *args, PyObject *x, PyObject *out, Windows *w) {
    Array *a = (Array *)x, *b = (Array *)out;
    if (!read_pair(args[0], 1, w->kernel) || !read_pair(args[1], 1, w->stride) || !read_pair(args[2], 0, w->padding) ||
        !read_pair(args[3], 1, w->dilation))
        return 0;
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
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->padding[i] < 0 || w->dilation[i] < 1) return 0;
    return 1;
}

/* The places of a window along one axis: from, to, in steps of the dilation. */
INLINE void reach(const Windows *w, int axis, Py_ssize_t window, Py_ssize_t *from, Py_ssize_t *to) {
    *from = window * w->stride[axis] - w->padding[axis];
    *to = *from + (w->kernel[axis] - 1) * w->dilation[axis] + 1;
    if (*to > w->size[axis]) *to = w->size[axis];
    while (*from < 0) *from += w->dilation[axis];
}

/* The largest of a window and its place: the first of equals, the last nan. */
static void max_windows(const float *x, float *out, int64_t *places, const Windows *w) {
    Py_ssize_t top, bottom, left, right;
    for (Py_ssize_t plane = 0; plane < w->planes; plane++, x += w->size[0] * w->size[1])
        for (Py_ssize_t row = 0; row < w->count[0]; row++) {
            reach(w, 0, row, &top, &bottom);
            for (Py_ssize_t column = 0; column < w->count[1]; column++) {
                reach(w, 1, column, &left, &right);
                Py_ssize_t place = top * w->size[1] + left;
                float most = -INFINITY;
                for (Py_ssize_t i = top; i < bottom; i += w->dilation[0])
                    for (Py_ssize_t j = left; j < right; j += w->dilation[1]) {
                        float value = x[i * w->size[1] + j];
                        if (value > most || value != value) most = value, place = i * w->size[1] + j;
                    }
                *out++ = most;
                if (places) *places++ = place;
            }
        }
}

/* max_pool(kernel, stride, padding, dilation, x, out, places): places may be None. */
static PyObject *max_pool(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Windows w;
    if (count != 7 || !readable(args[4], F32) || !writable(args[5], F32)) Py_RETURN_FALSE;
    int placed = args[6] != Py_None;
    if (placed && !(writable(args[6], I64) && of_one_shape(args[5], args[6]))) Py_RETURN_FALSE;
    if (!windows_of(args, args[4], args[5], &w)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    max_windows(data_of(args[4]), data_of(args[5]), placed ? data_of(args[6]) : NULL, &w);
    Py_RETURN_TRUE;
}

/* put_places(values, places, out, planes): out, so many planes, is zero but for each plane's values added up at their places. */
static PyObject *put_places(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !readable(args[1], I64) || !writable(args[2], F32) ||
        !of_one_shape(args[0], args[1]) || !PyLong_Check(args[3]))
        Py_RETURN_FALSE;
    Py_ssize_t planes = PyLong_AsSsize_t(args[3]), n = count_of(args[0]), all = count_of(args[2]);
    if (planes == -1 && PyErr_Occurred()) return NULL;
    if (planes < 1 || n % planes || all % planes) Py_RETURN_FALSE;
    const float *values = data_of(args[0]);
    const int64_t *places = data_of(args[1]);
    float *out = data_of(args[2]);
    Py_ssize_t size = all / planes;
    if (!in_range(places, n, size)) Py_RETURN_FALSE;
    memset(out, 0, all * sizeof(float));
    for (Py_ssize_t plane = 0; plane < planes; plane++, out += size)
        for (Py_ssize_t i = 0; i < n / planes; i++) out[*places++] += *values++;
    Py_RETURN_TRUE;
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

/* Sums of windows, divided; or, backwards, a share of what each window gives to each of its places. */
static void mean_windows(float *x, float *out, const Windows *w, int padded, Py_ssize_t divisor, int backwards) {
    Py_ssize_t top, bottom, left, right;
    for (Py_ssize_t plane = 0; plane < w->planes; plane++, x += w->size[0] * w->size[1])
        for (Py_ssize_t row = 0; row < w->count[0]; row++) {
            reach(w, 0, row, &top, &bottom);
            for (Py_ssize_t column = 0; column < w->count[1]; column++, out++) {
                reach(w, 1, column, &left, &right);
                Py_ssize_t by = divisor;
                if (!by) by = divisor_of(w, row, column, padded, (bottom - top) * (right - left));
                float sum = 0.0f, share = *out / (float)by;
                for (Py_ssize_t i = top; i < bottom; i++)
                    for (Py_ssize_t j = left; j < right; j++)
                        if (backwards)
                            x[i * w->size[1] + j] += share;
                        else
                            sum += x[i * w->size[1] + j];
                if (!backwards) *out = sum / (float)by;
            }
        }
}

INLINE PyObject *mean_pool(PyObject *const *args, Py_ssize_t count, int backwards) {
    Windows w;
    if (count != 8 || !PyLong_Check(args[6]) || !PyLong_Check(args[7])) Py_RETURN_FALSE;
    PyObject *x = args[4], *out = args[5];
    if (!(backwards ? writable(x, F32) && readable(out, F32) : readable(x, F32) && writable(out, F32)) ||
        !windows_of(args, x, out, &w)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    Py_ssize_t divisor = PyLong_AsSsize_t(args[7]);
    if (divisor == -1 && PyErr_Occurred()) return NULL;
    if (backwards) memset(data_of(x), 0, count_of(x) * sizeof(float));
    mean_windows(data_of(x), data_of(out), &w, PyObject_IsTrue(args[6]), divisor, backwards);
    Py_RETURN_TRUE;
}

/* avg_pool(kernel, stride, padding, dilation, x, out, count_include_pad, divisor): a divisor of 0 is the window's size. */
static PyObject *avg_pool(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return mean_pool(args, count, 0);
}

/* avg_pool_backward: the same, with x to be written and out to be read. */
static PyObject *avg_pool_backward(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return mean_pool(args, count, 1);
}
