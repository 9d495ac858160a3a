/* Pooling of lines and planes, window by window. A line is a plane of one row. */

/* The largest of a window and its place: the first of equals, the last nan. */
static void NAMED(max_windows)(const REAL *x, REAL *out, int64_t *places, const Windows *w) {
    Py_ssize_t top, bottom, left, right;
    for (Py_ssize_t plane = 0; plane < w->planes; plane++, x += w->size[0] * w->size[1])
        for (Py_ssize_t row = 0; row < w->count[0]; row++) {
            reach(w, 0, row, &top, &bottom);
            for (Py_ssize_t column = 0; column < w->count[1]; column++) {
                reach(w, 1, column, &left, &right);
                Py_ssize_t place = top * w->size[1] + left;
                REAL most = -INFINITY;
                for (Py_ssize_t i = top; i < bottom; i += w->dilation[0])
                    for (Py_ssize_t j = left; j < right; j += w->dilation[1]) {
                        REAL value = x[i * w->size[1] + j];
                        if (value > most || value != value) most = value, place = i * w->size[1] + j;
                    }
                *out++ = most;
                if (places) *places++ = place;
            }
        }
}

/* max_pool(kernel, stride, padding, dilation, x, out, places): places may be None. */
static PyObject *NAMED(max_pool)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Windows w;
    if (count != 7 || !readable(args[4], KIND) || !writable(args[5], KIND)) Py_RETURN_FALSE;
    int placed = args[6] != Py_None;
    if (placed && !(writable(args[6], I64) && of_one_shape(args[5], args[6]))) Py_RETURN_FALSE;
    if (!windows_of(args, args[4], args[5], &w)) Py_RETURN_FALSE;
    NAMED(max_windows)(data_of(args[4]), data_of(args[5]), placed ? data_of(args[6]) : NULL, &w);
    Py_RETURN_TRUE;
}

typedef struct {
    const REAL *values;
    const int64_t *places;
    REAL *out;
    Py_ssize_t count, size; /* values and elements of a plane */
} NAMED(Placed);

static void NAMED(put_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Placed) *a = work;
    for (Py_ssize_t plane = from; plane < to; plane++) {
        const REAL *values = a->values + plane * a->count;
        const int64_t *places = a->places + plane * a->count;
        REAL *out = a->out + plane * a->size;
        memset(out, 0, a->size * sizeof(REAL));
        for (Py_ssize_t i = 0; i < a->count; i++) out[place_at(places, i, a->size)] += values[i];
    }
}

/* max_unpool(values, places, out, planes): out, so many planes, is zero but for each plane's values added up at their places. */
static PyObject *NAMED(max_unpool)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t planes;
    if (count != 4 || !readable(args[0], KIND) || !readable(args[1], I64) || !writable(args[2], KIND) ||
        !of_one_shape(args[0], args[1]) || !read_size(args[3], &planes))
        Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]), all = count_of(args[2]);
    if (planes < 1 || n % planes || all % planes || !in_range(data_of(args[1]), n, all / planes)) Py_RETURN_FALSE;
    NAMED(Placed) work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), n / planes, all / planes};
    BEGIN(all)
    run(NAMED(put_part), &work, planes, all / planes, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* Sums of windows, divided; or, backwards, a share of what each window gives to each of its places. */
static void NAMED(mean_windows)(REAL *x, REAL *out, const Windows *w, int padded, Py_ssize_t divisor, int backwards) {
    Py_ssize_t top, bottom, left, right;
    for (Py_ssize_t plane = 0; plane < w->planes; plane++, x += w->size[0] * w->size[1])
        for (Py_ssize_t row = 0; row < w->count[0]; row++) {
            reach(w, 0, row, &top, &bottom);
            for (Py_ssize_t column = 0; column < w->count[1]; column++, out++) {
                reach(w, 1, column, &left, &right);
                Py_ssize_t by = divisor;
                if (!by) by = divisor_of(w, row, column, padded, (bottom - top) * (right - left));
                REAL sum = 0.0f, share = *out / (REAL)by;
                for (Py_ssize_t i = top; i < bottom; i++)
                    for (Py_ssize_t j = left; j < right; j++)
                        if (backwards)
                            x[i * w->size[1] + j] += share;
                        else
                            sum += x[i * w->size[1] + j];
                if (!backwards) *out = sum / (REAL)by;
            }
        }
}

/* Whether all windows lie inside, none of them reaching beyond an edge. */
INLINE int NAMED(all_whole)(const Windows *w) {
    for (int i = 0; i < 2; i++)
        if (w->padding[i] || w->stride[i] < 1 || w->dilation[i] != 1 ||
            (w->count[i] - 1) * w->stride[i] + w->kernel[i] > w->size[i])
            return 0;
    return 1;
}

/* The same sums, divided, where all windows are whole. */
static void NAMED(mean_whole)(const REAL *x, REAL *out, const Windows *w, REAL by) {
    Py_ssize_t width = w->size[1];
    for (Py_ssize_t plane = 0; plane < w->planes; plane++, x += w->size[0] * width)
        for (Py_ssize_t row = 0; row < w->count[0]; row++) {
            const REAL *window = x + row * w->stride[0] * width;
            for (Py_ssize_t column = 0; column < w->count[1]; column++, window += w->stride[1]) {
                REAL sum = 0.0f;
                for (Py_ssize_t i = 0; i < w->kernel[0]; i++)
                    for (Py_ssize_t j = 0; j < w->kernel[1]; j++) sum += window[i * width + j];
                *out++ = sum / by;
            }
        }
}

INLINE PyObject *NAMED(mean_pool)(PyObject *const *args, Py_ssize_t count, int backwards) {
    Windows w;
    Py_ssize_t divisor;
    int padded;
    if (count != 8 || !read_truth(args[6], &padded) || !read_size(args[7], &divisor)) Py_RETURN_FALSE;
    PyObject *x = args[4], *out = args[5];
    if (!(backwards ? writable(x, KIND) && readable(out, KIND) : readable(x, KIND) && writable(out, KIND)) ||
        !windows_of(args, x, out, &w))
        Py_RETURN_FALSE;
    if (backwards) memset(data_of(x), 0, count_of(x) * sizeof(REAL));
    if (!backwards && NAMED(all_whole)(&w)) {
        NAMED(mean_whole)(data_of(x), data_of(out), &w, (REAL)(divisor ? divisor : w.kernel[0] * w.kernel[1]));
        Py_RETURN_TRUE;
    }
    NAMED(mean_windows)(data_of(x), data_of(out), &w, padded, divisor, backwards);
    Py_RETURN_TRUE;
}

/* avg_pool(kernel, stride, padding, dilation, x, out, count_include_pad, divisor): a divisor of 0 is the window's size. */
static PyObject *NAMED(avg_pool)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return NAMED(mean_pool)(args, count, 0);
}

/* avg_pool_backward: the same, with x to be written and out to be read. */
static PyObject *NAMED(avg_pool_backward)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return NAMED(mean_pool)(args, count, 1);
}
