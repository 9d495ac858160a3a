/* Sorting of short rows. */

#define SHORT 64 /* longer rows are sorted by NumPy, whose sort does not compare each with each */

/* Whether y comes before x: nan counts as the largest. */
INLINE int comes_before(float y, float x, int descending) {
    if (descending) return x == x && (y > x || y != y);
    return y == y && (y < x || x != x);
}

/* sort_rows(x, values, places, descending): as many of each row of x, in order, as a row of values has, and where they
 * stood; equal ones keep their order. */
static PyObject *sort_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !writable(args[1], F32) || !writable(args[2], I64) ||
        !of_one_shape(args[1], args[2]))
        Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), k = last_of(args[1]), all = count_of(args[0]);
    if (!((Array *)args[0])->nd || n > SHORT || k > n || !all || all / n * k != count_of(args[1])) Py_RETURN_FALSE;
    int descending = PyObject_IsTrue(args[3]);
    const float *x = data_of(args[0]);
    float *values = data_of(args[1]), sorted[SHORT];
    int64_t *places = data_of(args[2]), order[SHORT];
    for (Py_ssize_t row = 0; row < all / n; row++, x += n, values += k, places += k) {
        for (Py_ssize_t i = 0; i < n; i++) {
            Py_ssize_t j = i;
            for (; j && comes_before(x[i], sorted[j - 1], descending); j--) {
                sorted[j] = sorted[j - 1];
                order[j] = order[j - 1];
            }
            sorted[j] = x[i];
            order[j] = i;
        }
        memcpy(values, sorted, k * sizeof(float));
        memcpy(places, order, k * sizeof(int64_t));
    }
    Py_RETURN_TRUE;
}

/* triangle(x, diagonal, lower, out): x on and below a diagonal of each matrix, or on and above it, and 0 elsewhere. */
static PyObject *triangle(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !writable(args[3], F32) || !of_one_shape(args[0], args[3]) ||
        !PyLong_Check(args[1]) || ((Array *)args[0])->nd < 2)
        Py_RETURN_FALSE;
    Py_ssize_t diagonal = PyLong_AsSsize_t(args[1]), columns = last_of(args[0]), all = count_of(args[0]);
    if (diagonal == -1 && PyErr_Occurred()) return NULL;
    Py_ssize_t rows = ((Array *)args[0])->dimensions[((Array *)args[0])->nd - 2];
    int lower = PyObject_IsTrue(args[2]);
    const float *x = data_of(args[0]);
    float *out = data_of(args[3]);
    for (Py_ssize_t i = 0; i * columns < all; i++, x += columns, out += columns)
        for (Py_ssize_t j = 0; j < columns; j++) {
            Py_ssize_t beyond = j - i % rows;
            out[j] = (lower ? beyond <= diagonal : beyond >= diagonal) ? x[j] : 0.0f;
        }
    Py_RETURN_TRUE;
}
