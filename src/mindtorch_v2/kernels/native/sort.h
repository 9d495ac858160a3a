/* Few elements in order along an axis; equal ones keep their order, and nan counts as the largest. */

enum { LONGEST = 1024, RUN = 16, PICKED = 64 };

#define COMES_BEFORE(Y, X) (descending ? (X) == (X) && ((Y) > (X) || (Y) != (Y)) : (Y) == (Y) && ((Y) < (X) || (X) != (X)))

/* The k first along the lines of x, and their places. */
typedef struct {
    const void *x;
    void *out;
    int64_t *places;
    Lines at;
    Py_ssize_t k;
    int descending;
} Ordering;

/* Elements from `from` to `to` are put in order among the `made` ones, of which no more than k are kept: how many these are
 * then. */
#define INSERT(TYPE)                                                                                                   \
    static Py_ssize_t insert_##TYPE(const TYPE *x, Py_ssize_t step, Py_ssize_t from, Py_ssize_t to, Py_ssize_t made,   \
                                    Py_ssize_t k, int descending, TYPE *values, int64_t *places) {                     \
        for (Py_ssize_t i = from; i < to; i++) {                                                                       \
            TYPE y = x[i * step];                                                                                      \
            if (made == k && !COMES_BEFORE(y, values[k - 1])) continue;                                                \
            Py_ssize_t j = made < k ? made++ : k - 1;                                                                  \
            for (; j && COMES_BEFORE(y, values[j - 1]); j--) values[j] = values[j - 1], places[j] = places[j - 1];     \
            values[j] = y, places[j] = i;                                                                              \
        }                                                                                                              \
        return made;                                                                                                   \
    }

/* Whether one of RUN elements may come before the last that is kept, asked of all at once. */
#define ANY_OF_RUN(HOLDS)                                                                                              \
    int any = 0;                                                                                                       \
    SIMD_SUM(omp simd reduction(| : any)) for (int j = 0; j < RUN; j++) any |= HOLDS;                                  \
    return any;

/* The k first of a row, k from 1 to PICKED. Soon nearly no run has one of them, so that few elements are looked at. */
#define PICK(TYPE)                                                                                                     \
    INLINE int may_be_larger_##TYPE(const TYPE *x, TYPE last) { ANY_OF_RUN((x[j] > last) | (x[j] != x[j])) }           \
    INLINE int may_be_smaller_##TYPE(const TYPE *x, TYPE last) { ANY_OF_RUN((x[j] < last) | (last != last)) }          \
    WIDE static void pick_##TYPE(const TYPE *x, Py_ssize_t n, Py_ssize_t k, int descending, TYPE *values,              \
                                 int64_t *places) {                                                                    \
        Py_ssize_t made = 0;                                                                                           \
        for (Py_ssize_t i = 0; i < n; i += RUN) {                                                                      \
            Py_ssize_t to = i + RUN < n ? i + RUN : n;                                                                 \
            if (made == k && to == i + RUN) {                                                                          \
                TYPE last = values[k - 1];                                                                             \
                if (!(descending ? may_be_larger_##TYPE(x + i, last) : may_be_smaller_##TYPE(x + i, last))) continue;  \
            }                                                                                                          \
            made = insert_##TYPE(x, 1, i, to, made, k, descending, values, places);                                    \
        }                                                                                                              \
    }

/* The k first of n elements in order, and where they stood; the others are left out on the way. Few are inserted one by
 * one, many in runs that are merged. */
#define ORDER(TYPE)                                                                                                    \
    INSERT(TYPE)                                                                                                       \
    PICK(TYPE)                                                                                                         \
    static void order_##TYPE(const TYPE *x, Py_ssize_t step, Py_ssize_t n, Py_ssize_t k, int descending,              \
                             TYPE *values, int64_t *places) {                                                         \
        if (k == 0) return;                                                                                            \
        if (k <= PICKED && step == 1 && n >= 8 * k) {                                                                  \
            pick_##TYPE(x, n, k, descending, values, places);                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        if (k <= RUN) {                                                                                                \
            insert_##TYPE(x, step, 0, n, 0, k, descending, values, places);                                            \
            return;                                                                                                    \
        }                                                                                                              \
        TYPE others[LONGEST];                                                                                          \
        int64_t other_places[LONGEST];                                                                                 \
        for (Py_ssize_t i = 0; i < n; i += RUN)                                                                        \
            insert_##TYPE(x, step, i, i + RUN < n ? i + RUN : n, 0, RUN, descending, values + i, places + i);          \
        for (Py_ssize_t run = RUN; run < n; run *= 2) {                                                                \
            memcpy(others, values, n * sizeof(TYPE));                                                                  \
            memcpy(other_places, places, n * sizeof(int64_t));                                                         \
            for (Py_ssize_t i = 0; i + run < n; i += 2 * run) {                                                        \
                Py_ssize_t a = i, b = i + run, end = i + 2 * run < n ? i + 2 * run : n;                                \
                for (Py_ssize_t j = i; j < end; j++) {                                                                 \
                    int second = a == i + run || (b < end && COMES_BEFORE(others[b], others[a]));                      \
                    Py_ssize_t taken = second ? b++ : a++;                                                             \
                    values[j] = others[taken], places[j] = other_places[taken];                                        \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void ordered_##TYPE(const void *work, Py_ssize_t from, Py_ssize_t to) {                                     \
        const Ordering *a = work;                                                                                      \
        Py_ssize_t n = a->at.n, wide = a->at.inner, k = a->k;                                                          \
        TYPE values[LONGEST], *out = a->out;                                                                           \
        int64_t places[LONGEST];                                                                                       \
        for (Py_ssize_t line = from; line < to; line++) {                                                              \
            Py_ssize_t outer = line / wide, inner = line % wide;                                                       \
            order_##TYPE((const TYPE *)a->x + outer * n * wide + inner, wide, n, k, a->descending, values, places);    \
            for (Py_ssize_t j = 0; j < k; j++) {                                                                       \
                Py_ssize_t place = (outer * k + j) * wide + inner;                                                     \
                out[place] = values[j], a->places[place] = places[j];                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void ranked_##TYPE(const TYPE *x, TYPE *out, int64_t *where, Lines at, Py_ssize_t rank, int nan_first) {   \
        TYPE values[LONGEST];                                                                                          \
        int64_t places[LONGEST];                                                                                       \
        for (Py_ssize_t line = 0; line < at.outer * at.inner; line++) {                                                \
            Py_ssize_t outer = line / at.inner, inner = line % at.inner, at_rank = rank;                               \
            order_##TYPE(x + outer * at.n * at.inner + inner, at.inner, at.n, at.n, 0, values, places);               \
            if (nan_first && values[at.n - 1] != values[at.n - 1])                                                     \
                for (at_rank = 0; values[at_rank] == values[at_rank];) at_rank++;                                      \
            out[line] = values[at_rank], where[line] = places[at_rank];                                                \
        }                                                                                                              \
    }

ORDER(float)
ORDER(double)
ORDER(int64_t)
ORDER(uint8_t)

/* What `call` gives for arrays of one of these types, or nothing at all. */
#define BY_TYPE(DESCR, NAME, X, OUT, ...)                                                                              \
    if (DESCR == F32) NAME##_float(data_of(X), data_of(OUT), __VA_ARGS__);                                             \
    else if (DESCR == F64) NAME##_double(data_of(X), data_of(OUT), __VA_ARGS__);                                       \
    else if (DESCR == I64) NAME##_int64_t(data_of(X), data_of(OUT), __VA_ARGS__);                                      \
    else NAME##_uint8_t(data_of(X), data_of(OUT), __VA_ARGS__);

INLINE int has_order(PyObject *x, PyObject *axis, Lines *at) {
    if (!is_plain(x)) return 0;
    PyObject *descr = ((Array *)x)->descr;
    if (descr != F32 && descr != F64 && descr != I64 && descr != BOOL) return 0;
    if (axis == Py_None) *at = (Lines){1, count_of(x), 1};
    else if (!lines_or_number(x, axis, at)) return 0;
    return at->n > 0;
}

/* ordered(x, axis, k, descending): the k first along an axis (all for None) in order, and where they stood; None for arrays
 * it does not take. */
static PyObject *ordered(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Lines at;
    int descending;
    if (count != 4 || args[1] == Py_None || !has_order(args[0], args[1], &at) || !read_truth(args[3], &descending))
        Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t k = at.n, shape[MOST_DIMS];
    int axis = read_dim(args[1], a->nd); /* -1 for a number, which has none */
    if (args[2] != Py_None && !read_size(args[2], &k)) Py_RETURN_NONE;
    if (k < 0 || k > at.n || a->nd > MOST_DIMS || (k == 0 && a->nd == 0)) Py_RETURN_NONE;
    if (at.n > LONGEST && (k > PICKED || 8 * k > at.n || at.inner > 1)) Py_RETURN_NONE; /* what `nll_loss` takes is taken */
    for (int i = 0; i < a->nd; i++) shape[i] = i == axis ? k : a->dimensions[i];
    PyObject *values = new_array(a->descr, a->nd, shape);
    PyObject *places = values ? new_array(I64, a->nd, shape) : NULL;
    if (!places) {
        Py_XDECREF(values);
        return NULL;
    }
    Ordering work = {a->data, data_of(values), data_of(places), at, k, descending};
    PyObject *descr = a->descr;
    Part part = descr == F32   ? ordered_float
                : descr == F64 ? ordered_double
                : descr == I64 ? ordered_int64_t
                               : ordered_uint8_t;
    BEGIN(at.outer * at.n * at.inner)
    run(part, &work, at.outer * at.inner, at.n, HEAVY);
    END
    return Py_BuildValue("NN", values, places);
}

/* ranked(x, axis, keepdim, rank, nan_first): what stands at a rank (the middle one for None) along an axis, or in all of x
 * for None, and its place; with nan_first the first nan where there is one. None for arrays it does not take. */
static PyObject *ranked(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Lines at;
    int nan_first;
    if (count != 5 || !has_order(args[0], args[1], &at) || ((Array *)args[0])->descr == BOOL) Py_RETURN_NONE;
    Py_ssize_t rank = (at.n - 1) / 2;
    if ((args[3] != Py_None && !read_size(args[3], &rank)) || !read_truth(args[4], &nan_first)) Py_RETURN_NONE;
    if (rank < 0 || rank >= at.n || at.n > LONGEST) Py_RETURN_NONE;
    PyObject *descr = ((Array *)args[0])->descr, *values = new_reduced(args[0], args[1], args[2], descr, &at);
    PyObject *places = values ? new_reduced(args[0], args[1], args[2], I64, &at) : NULL;
    if (!places) {
        Py_XDECREF(values);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    BY_TYPE(descr, ranked, args[0], values, data_of(places), at, rank, nan_first)
    return Py_BuildValue("NN", values, places);
}

/* triangle(x, diagonal, lower, out): x on and below a diagonal of each matrix, or on and above it, and 0 elsewhere. */
static PyObject *triangle(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t diagonal;
    int lower;
    if (count != 4 || !readable(args[0], F32) || !writable(args[3], F32) || !of_one_shape(args[0], args[3]) ||
        !read_size(args[1], &diagonal) || !read_truth(args[2], &lower) || ((Array *)args[0])->nd < 2)
        Py_RETURN_FALSE;
    Py_ssize_t columns = last_of(args[0]), all = count_of(args[0]);
    Py_ssize_t rows = ((Array *)args[0])->dimensions[((Array *)args[0])->nd - 2];
    const float *x = data_of(args[0]);
    float *out = data_of(args[3]);
    for (Py_ssize_t i = 0; i * columns < all; i++, x += columns, out += columns)
        for (Py_ssize_t j = 0; j < columns; j++) {
            Py_ssize_t beyond = j - i % rows;
            out[j] = (lower ? beyond <= diagonal : beyond >= diagonal) ? x[j] : 0.0f;
        }
    Py_RETURN_TRUE;
}
