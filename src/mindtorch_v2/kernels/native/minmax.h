/* Extremes of long rows of floats. */

/* Rows of n elements, of `total` in all: the last one may be shorter. */
typedef struct {
    const void *x;
    void *out;
    Py_ssize_t n, total;
} LongRows;

enum { BESTS = 32 };

/* The best of a row, found in many columns side by side of which none waits for another; nan where there is one, for which
 * two elements are asked at once. What is left at the end is taken with some that have been seen. */
#define EXTREME_ROW(NAME, TYPE, BETTER)                                                                                \
    INLINE TYPE NAME##_of(const TYPE *x, Py_ssize_t n) {                                                               \
        TYPE bests[BESTS];                                                                                             \
        int odds[BESTS] = {0};                                                                                         \
        for (int k = 0; k < BESTS; k++) bests[k] = x[0];                                                               \
        if (n < 2 * BESTS) {                                                                                           \
            for (Py_ssize_t i = 0; i < n; i++) {                                                                       \
                bests[0] = x[i] BETTER bests[0] ? x[i] : bests[0];                                                     \
                odds[0] |= x[i] != x[i];                                                                               \
            }                                                                                                          \
            return odds[0] ? (TYPE)NAN : bests[0];                                                                     \
        }                                                                                                              \
        for (Py_ssize_t i = 0; i < n; i += 2 * BESTS) {                                                                \
            const TYPE *some = x + (i < n - 2 * BESTS ? i : n - 2 * BESTS);                                            \
            for (int k = 0; k < BESTS; k++) {                                                                          \
                TYPE y = some[k], z = some[BESTS + k];                                                                 \
                odds[k] |= __builtin_isunordered(y, z);                                                                \
                y = y BETTER z ? y : z;                                                                                \
                bests[k] = y BETTER bests[k] ? y : bests[k];                                                           \
            }                                                                                                          \
        }                                                                                                              \
        for (int width = BESTS / 2; width; width /= 2)                                                                 \
            for (int k = 0; k < width; k++) {                                                                          \
                bests[k] = bests[k + width] BETTER bests[k] ? bests[k + width] : bests[k];                             \
                odds[k] |= odds[k + width];                                                                            \
            }                                                                                                          \
        return odds[0] ? (TYPE)NAN : bests[0];                                                                         \
    }                                                                                                                  \
    WIDE static void NAME##_rows(const void *work, Py_ssize_t from, Py_ssize_t to) {                                   \
        const LongRows *e = work;                                                                                      \
        for (Py_ssize_t r = from; r < to; r++) {                                                                       \
            Py_ssize_t start = r * e->n, left = e->total - start;                                                      \
            ((TYPE *)e->out)[r] = NAME##_of((const TYPE *)e->x + start, left < e->n ? left : e->n);                    \
        }                                                                                                              \
    }

EXTREME_ROW(largest_f32, float, >)
EXTREME_ROW(largest_f64, double, >)
EXTREME_ROW(least_f32, float, <)
EXTREME_ROW(least_f64, double, <)

/* Rows that threads take parts of: the extreme of a row is that of the extremes of its parts. */
static void long_extremes(Part part, LongRows rows, Py_ssize_t element) {
    union {
        float single[MOST_PARTS];
        double twice[MOST_PARTS];
    } found;
    Py_ssize_t piece = part_of_row(rows.n), parts = (rows.n + piece - 1) / piece;
    for (Py_ssize_t r = 0; r * rows.n < rows.total; r++) {
        LongRows row = {(const char *)rows.x + r * rows.n * element, &found, piece, rows.n};
        run(part, &row, parts, piece, LIGHT);
        LongRows last = {&found, (char *)rows.out + r * element, parts, parts};
        part(&last, 0, 1);
    }
}

/* extreme_rows(x, least, out): the largest or least along the last dimensions, as many as out is without. */
static PyObject *extreme_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) Py_RETURN_FALSE;
    int single = readable(args[0], F32) && writable(args[2], F32);
    if (!single && !(readable(args[0], F64) && writable(args[2], F64))) Py_RETURN_FALSE;
    Py_ssize_t rows = count_of(args[2]), total = count_of(args[0]);
    if (rows == 0 || total == 0 || total % rows) Py_RETURN_FALSE;
    LongRows work = {data_of(args[0]), data_of(args[2]), total / rows, total};
    int least = args[1] == Py_True;
    Part part = single ? (least ? least_f32_rows : largest_f32_rows) : (least ? least_f64_rows : largest_f64_rows);
    BEGIN(total)
    if (work.n < LONG_ROW) run(part, &work, rows, work.n, LIGHT);
    else long_extremes(part, work, single ? 4 : 8);
    END
    Py_RETURN_TRUE;
}
