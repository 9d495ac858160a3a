/* Elements by their index: gathered, scattered, compared, sampled. */

/* Whether all lie in [0, size): one of the two differences is negative for those outside, which a sign tells. */
WIDE static int in_range(const int64_t *index, Py_ssize_t count, Py_ssize_t size) {
    uint64_t last = (uint64_t)size - 1, signs = 0;
    if (size <= 0) return count == 0;
    SIMD_SUM(omp simd reduction(| : signs)) for (Py_ssize_t i = 0; i < count; i++)
        signs |= (uint64_t)index[i] | (last - (uint64_t)index[i]);
    return signs >> 63 == 0;
}

/* The i-th index once more: 0 if it is outside by now, as other threads may write indices that have been looked at. */
INLINE Py_ssize_t place_at(const int64_t *index, Py_ssize_t i, Py_ssize_t size) {
    int64_t place = __atomic_load_n(index + i, __ATOMIC_RELAXED);
    if (__builtin_expect((uint64_t)place >= (uint64_t)size, 0)) return 0;
    return (Py_ssize_t)place;
}

/* inside(index, size): whether all of index lies in [0, size); None where index is not plain memory of int64, or
 * size no int. */
static PyObject *inside(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t size;
    if (count != 2 || !readable(args[0], I64) || !read_size(args[1], &size)) Py_RETURN_NONE;
    return PyBool_FromLong(in_range(data_of(args[0]), count_of(args[0]), size));
}

/* Rows of n elements in memory, m places in each; `wide` elements have eight bytes. */
typedef struct {
    const int64_t *index;
    const void *x;
    void *out;
    Py_ssize_t n, m;
    int wide, *outside;
} Places;

static void in_range_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    if (!in_range(a->index + from * a->m, (to - from) * a->m, a->n)) __atomic_store_n(a->outside, 1, __ATOMIC_RELAXED);
}

/* Each index is read once, so that it is looked at and followed in one pass. */
#define GATHER(TYPE)                                                                                                   \
    for (Py_ssize_t r = from; r < to; r++) {                                                                           \
        const TYPE *row = (const TYPE *)a->x + r * n;                                                                  \
        for (Py_ssize_t i = r * m; i < r * m + m; i++) {                                                               \
            int64_t place = __atomic_load_n(a->index + i, __ATOMIC_RELAXED);                                           \
            if (__builtin_expect((uint64_t)place >= (uint64_t)n, 0)) goto outside;                                     \
            ((TYPE *)a->out)[i] = row[place];                                                                          \
        }                                                                                                              \
    }

static void gather_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    Py_ssize_t n = a->n, m = a->m;
    if (a->wide) { GATHER(uint64_t) } else { GATHER(uint32_t) }
    return;
outside:
    __atomic_store_n(a->outside, 1, __ATOMIC_RELAXED);
}

#define ADD_PLACES(TYPE)                                                                                               \
    for (Py_ssize_t r = from; r < to; r++)                                                                             \
        for (Py_ssize_t i = 0; i < m; i++) ((TYPE *)a->out)[r * n + place_at(a->index, r * m + i, n)] += ((const TYPE *)a->x)[r * m + i];

static void index_add_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    Py_ssize_t n = a->n, m = a->m;
    if (a->wide) { ADD_PLACES(double) } else { ADD_PLACES(float) }
}

/* gather(x, index, out): along the last dimension; the others are the same. False, and anything in `out`, where a place lies
 * outside. */
static PyObject *gather(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !readable(args[1], I64)) Py_RETURN_FALSE;
    int single = readable(args[0], F32) && writable(args[2], F32);
    if (!single && !(readable(args[0], F64) && writable(args[2], F64)) &&
        !(readable(args[0], I64) && writable(args[2], I64)))
        Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = last_of(args[1]), total = count_of(args[1]);
    if (total == 0 || total != count_of(args[2]) || n == 0 || count_of(args[0]) / n * m != total) Py_RETURN_FALSE;
    int outside = 0;
    Places work = {data_of(args[1]), data_of(args[0]), data_of(args[2]), n, m, !single, &outside};
    BEGIN(total)
    run(gather_part, &work, total / m, m, HEAVY);
    END
    return PyBool_FromLong(!outside);
}

/* index_add(target, index, values): target[..., index] += values along the last dimension, repeated indices counted. */
static PyObject *index_add(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !readable(args[1], I64)) Py_RETURN_FALSE;
    int single = writable(args[0], F32) && readable(args[2], F32);
    if (!single && !(writable(args[0], F64) && readable(args[2], F64))) Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = last_of(args[1]), total = count_of(args[1]);
    if (total == 0 || total != count_of(args[2]) || m != last_of(args[2]) || n == 0 || count_of(args[0]) / n * m != total)
        Py_RETURN_FALSE;
    int outside = 0;
    Places work = {data_of(args[1]), data_of(args[2]), data_of(args[0]), n, m, !single, &outside};
    BEGIN(total)
    run(in_range_part, &work, total / m, m, LIGHT);
    if (!outside) run(index_add_part, &work, total / m, m, HEAVY);
    END
    return PyBool_FromLong(!outside);
}

typedef struct {
    const float *planes, *weights;
    const int64_t *places;
    float *out;
    Py_ssize_t channels, size, n;
} Sampled;

static void add_sampled_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Sampled *a = work;
    for (Py_ssize_t p = from; p < to; p++) {
        const float *plane = a->planes + p * a->size, *weights = a->weights + p / a->channels * a->n;
        const int64_t *places = a->places + p / a->channels * a->n;
        float *out = a->out + p * a->n;
        for (Py_ssize_t i = 0; i < a->n; i++) out[i] += plane[place_at(places, i, a->size)] * weights[i];
    }
}

/* add_sampled(planes, places, weights, out): out[i, c] += planes[i, c, places[i]] * weights[i]. */
static PyObject *add_sampled(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !readable(args[1], I64) || !readable(args[2], F32) ||
        !writable(args[3], F32) || ((Array *)args[0])->nd != 3 || ((Array *)args[1])->nd != 2)
        Py_RETURN_FALSE;
    Py_ssize_t *shape = ((Array *)args[0])->dimensions, n = last_of(args[1]), planes = shape[0] * shape[1];
    if (n == 0 || planes == 0 || count_of(args[1]) != shape[0] * n || count_of(args[2]) != shape[0] * n ||
        count_of(args[3]) != planes * n || !in_range(data_of(args[1]), shape[0] * n, shape[2]))
        Py_RETURN_FALSE;
    Sampled work = {data_of(args[0]), data_of(args[2]), data_of(args[1]), data_of(args[3]), shape[1], shape[2], n};
    BEGIN(planes * n)
    run(add_sampled_part, &work, planes, n, HEAVY);
    END
    Py_RETURN_TRUE;
}

WIDE static void add_rows_loop(float *out, const int64_t *index, const float *rows, Py_ssize_t m, Py_ssize_t n,
                               Py_ssize_t size) {
    for (Py_ssize_t r = 0; r < m; r++, rows += n) {
        float *row = out + place_at(index, r, size) * n;
        SIMD for (Py_ssize_t i = 0; i < n; i++) row[i] += rows[i];
    }
}

/* add_rows(target, index, rows): target[index] += rows for (n, d) and (m, d) arrays, repeated indices counted. */
static PyObject *add_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !writable(args[0], F32) || !readable(args[1], I64) || !readable(args[2], F32)) Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = count_of(args[1]), total = count_of(args[0]);
    if (((Array *)args[0])->nd != 2 || total == 0 || count_of(args[2]) != m * n) Py_RETURN_FALSE;
    int fits;
    BEGIN(m * n)
    fits = in_range(data_of(args[1]), m, total / n);
    if (fits) add_rows_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), m, n, total / n);
    END
    return PyBool_FromLong(fits);
}

/* swap_in_turn(order, targets): order[i] and order[targets[i]] change places, for one i after the other. */
static PyObject *swap_in_turn(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !writable(args[0], I64) || !readable(args[1], I64)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]), m = count_of(args[1]);
    int64_t *order = data_of(args[0]);
    const int64_t *targets = data_of(args[1]);
    if (m > n || !in_range(targets, m, n)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < m; i++) {
        Py_ssize_t other = place_at(targets, i, n);
        int64_t held = order[i];
        order[i] = order[other];
        order[other] = held;
    }
    Py_RETURN_TRUE;
}

typedef struct {
    const unsigned char *mask;
    const void *x, *y;
    void *out;
} Choice;

#define CHOOSE(NAME, TYPE)                                                                                             \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Choice *c = work;                                                                                        \
        const TYPE *x = c->x, *y = c->y;                                                                               \
        TYPE *out = c->out;                                                                                            \
        SIMD for (Py_ssize_t i = from; i < to; i++) out[i] = c->mask[i] ? x[i] : y[i];                                 \
    }

CHOOSE(choose_f32, int32_t)
CHOOSE(choose_f64, int64_t)

/* The same where x or y is one number for all places. */
#define CHOOSE_NUMBER(TYPE)                                                                                            \
    for (Py_ssize_t i = 0; i < n; i++)                                                                                 \
        ((TYPE *)c->out)[i] = c->mask[i] ? ((const TYPE *)c->x)[i * x_step] : ((const TYPE *)c->y)[i * y_step];

static void choose_numbers(const Choice *c, Py_ssize_t n, int wide, int x_step, int y_step) {
    if (wide) { CHOOSE_NUMBER(int64_t) } else { CHOOSE_NUMBER(int32_t) }
}

/* chosen(mask, x, y): an array with the element of x where the mask holds, else that of y; x and y may be without
 * dimensions. None where it does not know the arrays. */
static PyObject *chosen(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *descr = count == 3 && Py_TYPE(args[1]) == array_type ? ((Array *)args[1])->descr : NULL;
    if (descr == NULL || (descr != F32 && descr != F64 && descr != I64)) Py_RETURN_NONE;
    if (!readable(args[0], BOOL) || !readable(args[1], descr) || !readable(args[2], descr)) Py_RETURN_NONE;
    int x_step = ((Array *)args[1])->nd > 0, y_step = ((Array *)args[2])->nd > 0;
    if ((x_step && !of_one_shape(args[0], args[1])) || (y_step && !of_one_shape(args[0], args[2]))) Py_RETURN_NONE;
    PyObject *out = new_like(args[0], KEEP_ORDER, Py_NewRef(descr), 0);
    if (!out) return NULL;
    Py_ssize_t n = count_of(out);
    Choice work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(out)};
    BEGIN(n)
    if (x_step && y_step) run(descr == F32 ? choose_f32 : choose_f64, &work, n, 1, LIGHT);
    else choose_numbers(&work, n, descr != F32, x_step, y_step);
    END
    return out;
}

#define FIND_PLACES(TYPE)                                                                                              \
    for (Py_ssize_t i = 0; i < n; i++)                                                                                 \
        if (((const TYPE *)a->data)[i] != 0) places[found++] = (uint16_t)i;

/* nonzero(x): where the elements are that are not zero, in their order: an array of one row for each dimension. None for
 * more than a few, and for what is not plain memory of a known type. */
static PyObject *nonzero(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 1 || !is_plain(args[0]) || ((Array *)args[0])->nd == 0 || count_of(args[0]) > TURNED) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t n = count_of(args[0]), found = 0;
    uint16_t places[TURNED]; /* among all elements, found in one go: other threads may write them */
    if (a->descr == F32) { FIND_PLACES(float) }
    else if (a->descr == F64) { FIND_PLACES(double) }
    else if (a->descr == I64) { FIND_PLACES(int64_t) }
    else if (a->descr == BOOL) { FIND_PLACES(uint8_t) }
    else Py_RETURN_NONE;
    Py_ssize_t shape[] = {a->nd, found};
    PyObject *made = new_array(I64, 2, shape);
    if (!made) return NULL;
    int64_t *rows = data_of(made);
    for (Py_ssize_t i = 0; i < found; i++) {
        uint32_t flat = places[i];
        for (int d = a->nd - 1; d > 0; d--) {
            uint32_t size = (uint32_t)a->dimensions[d];
            rows[d * found + i] = flat % size;
            flat /= size;
        }
        rows[i] = flat;
    }
    return made;
}
