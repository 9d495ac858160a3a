/* Sums of columns. */

/* So many columns at a time, whose sums stay in the first cache; after so many rows they are added up in doubles. */
enum { NAMED(STRIP) = 512, NAMED(STRETCH_OF_ROWS) = 64 };

typedef struct {
    const REAL *x;
    REAL *out;
    Py_ssize_t rows, columns;
} NAMED(Matrix);

/* Add rows to the sums of a strip, four at a time. */
WIDE static void NAMED(add_rows)(const REAL *x, Py_ssize_t rows, Py_ssize_t step, REAL *sums, Py_ssize_t width) {
    Py_ssize_t row = 0;
    for (; row + 4 <= rows; row += 4, x += 4 * step) {
        const REAL *second = x + step, *third = second + step, *fourth = third + step;
        SIMD for (Py_ssize_t i = 0; i < width; i++) sums[i] += (x[i] + second[i]) + (third[i] + fourth[i]);
    }
    for (; row < rows; row++, x += step)
        SIMD for (Py_ssize_t i = 0; i < width; i++) sums[i] += x[i];
}

static void NAMED(columns_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Matrix) *a = work;
    REAL sums[NAMED(STRIP)];
    double totals[NAMED(STRIP)];
    for (Py_ssize_t start = from; start < to; start += NAMED(STRIP)) {
        Py_ssize_t width = to - start < NAMED(STRIP) ? to - start : NAMED(STRIP);
        memset(totals, 0, sizeof(totals));
        for (Py_ssize_t row = 0; row < a->rows; row += NAMED(STRETCH_OF_ROWS)) {
            Py_ssize_t rows = a->rows - row < NAMED(STRETCH_OF_ROWS) ? a->rows - row : NAMED(STRETCH_OF_ROWS);
            memset(sums, 0, width * sizeof(REAL));
            NAMED(add_rows)(a->x + row * a->columns + start, rows, a->columns, sums, width);
            for (Py_ssize_t i = 0; i < width; i++) totals[i] += sums[i];
        }
        for (Py_ssize_t i = 0; i < width; i++) a->out[start + i] = (REAL)totals[i];
    }
}

/* sum_columns(x, out): out has one element for each column of x, whose first dimensions are all rows. */
static PyObject *NAMED(sum_columns)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !readable(args[0], KIND) || !writable(args[1], KIND)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), columns = count_of(args[1]);
    if (columns == 0 || total % columns) Py_RETURN_FALSE;
    NAMED(Matrix) work = {data_of(args[0]), data_of(args[1]), total / columns, columns};
    BEGIN(total)
    run(NAMED(columns_part), &work, columns, work.rows, LIGHT);
    END
    Py_RETURN_TRUE;
}
