/* Products of matrices: of few small ones, whose calls of BLAS would take longer than the arithmetic, by loops; of any two
 * by BLAS, which NumPy's functions call. */

/* Matrices of m x k and k x n elements; steps are counted in elements, along rows and columns. */
typedef struct {
    Py_ssize_t m, k, n, a_row, a_column, b_row, b_column;
} Matrices;

#define PRODUCT(NAME, TYPE)                                                                                            \
    WIDE static void NAME(const TYPE *a, const TYPE *b, TYPE *out, const Matrices *s) {                                \
        for (Py_ssize_t i = 0; i < s->m; i++, out += s->n) {                                                           \
            const TYPE *row = a + i * s->a_row;                                                                        \
            if (s->b_column == 1) {                                                                                    \
                for (Py_ssize_t j = 0; j < s->n; j++) out[j] = row[0] * b[j];                                          \
                for (Py_ssize_t p = 1; p < s->k; p++) {                                                                \
                    TYPE factor = row[p * s->a_column];                                                                \
                    const TYPE *other = b + p * s->b_row;                                                              \
                    for (Py_ssize_t j = 0; j < s->n; j++) out[j] += factor * other[j];                                 \
                }                                                                                                      \
            } else {                                                                                                   \
                for (Py_ssize_t j = 0; j < s->n; j++) {                                                                \
                    TYPE sum = 0;                                                                                      \
                    const TYPE *column = b + j * s->b_column;                                                          \
                    for (Py_ssize_t p = 0; p < s->k; p++) sum += row[p * s->a_column] * column[p * s->b_row];          \
                    out[j] = sum;                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

PRODUCT(product_f32, float)
PRODUCT(product_f64, double)

enum { FEW_FACTORS = 2048 };

/* The steps in elements of the last two dimensions; 0 where they are no whole ones. */
static int matrix_steps(const Array *a, Py_ssize_t size, Py_ssize_t *row, Py_ssize_t *column) {
    Py_ssize_t rows = a->strides[a->nd - 2], columns = a->strides[a->nd - 1];
    *row = rows / size;
    *column = columns / size;
    return rows % size == 0 && columns % size == 0;
}

/* Whether dimensions before the last two lie one behind the other, *step bytes from matrix to matrix. */
static int batch_step(const Array *a, Py_ssize_t *step) {
    *step = a->nd > 2 ? a->strides[a->nd - 3] : 0;
    for (int i = a->nd - 4; i >= 0; i--)
        if (a->strides[i] != a->strides[i + 1] * a->dimensions[i + 1]) return 0;
    return 1;
}

/* product(a, b): matrices of a by the matrix b, or by those of b, of which there are then as many; None for more than a few
 * factors, for other types than float32 and float64, and for sizes that do not fit. */
static PyObject *product(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != array_type || Py_TYPE(args[1]) != array_type) Py_RETURN_NONE;
    Array *a = (Array *)args[0], *b = (Array *)args[1];
    if ((a->descr != F32 && a->descr != F64) || b->descr != a->descr || !(a->flags & b->flags & ALIGNED)) Py_RETURN_NONE;
    if (a->nd < 2 || b->nd < 2 || a->nd > MOST_DIMS || (b->nd != 2 && b->nd != a->nd)) Py_RETURN_NONE;
    Py_ssize_t size = a->descr == F32 ? 4 : 8, shape[MOST_DIMS], a_step, b_step, batch = 1;
    Matrices s = {a->dimensions[a->nd - 2], a->dimensions[a->nd - 1], b->dimensions[b->nd - 1]};
    for (int i = 0; i < a->nd - 2; i++) {
        if (b->nd > 2 && b->dimensions[i] != a->dimensions[i]) Py_RETURN_NONE;
        batch *= shape[i] = a->dimensions[i];
    }
    if (s.k != b->dimensions[b->nd - 2] || s.k < 1 || s.m > FEW_FACTORS || s.k > FEW_FACTORS || s.n > FEW_FACTORS ||
        batch > FEW_FACTORS || s.m * s.k * s.n > FEW_FACTORS || batch * s.m * s.k * s.n > FEW_FACTORS)
        Py_RETURN_NONE;
    if (!matrix_steps(a, size, &s.a_row, &s.a_column) || !matrix_steps(b, size, &s.b_row, &s.b_column)) Py_RETURN_NONE;
    if (!batch_step(a, &a_step) || !batch_step(b, &b_step)) Py_RETURN_NONE;
    shape[a->nd - 2] = s.m;
    shape[a->nd - 1] = s.n;
    PyObject *out = new_array(a->descr, a->nd, shape);
    if (!out) return NULL;
    char *made = data_of(out);
    for (Py_ssize_t i = 0; i < batch; i++, made += s.m * s.n * size) {
        if (size == 4) product_f32((float *)(a->data + i * a_step), (float *)(b->data + i * b_step), (float *)made, &s);
        else product_f64((double *)(a->data + i * a_step), (double *)(b->data + i * b_step), (double *)made, &s);
    }
    return out;
}

static PyObject *numpy_matmul, *array_dot, *copy_name, *out_names;
/* NumPy's context variable of what becomes of floating point flags, and the setting that ignores them. */
static PyObject *flags_variable, *flags_ignored;
/* As in `products.py`. */
enum { FEW_ROWS = 64, WORTH_TURNING = 1 << 14 };

/* ignore_flags(variable, setting): hand both over. */
static PyObject *ignore_flags(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "expected a variable and a setting, got %zd arguments", count);
    Py_XSETREF(flags_variable, Py_NewRef(args[0]));
    Py_XSETREF(flags_ignored, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

/* Whether flags are ignored here; -1 for an error. */
static int ignores_flags(void) {
    PyObject *setting = NULL;
    if (!flags_variable) return 0;
    if (PyContextVar_Get(flags_variable, NULL, &setting) < 0) return -1;
    Py_XDECREF(setting);
    return setting == flags_ignored;
}

static int can_multiply(PyObject *left, PyObject *right) {
    Array *a = (Array *)left, *b = (Array *)right;
    return Py_TYPE(left) == array_type && Py_TYPE(right) == array_type && (a->descr == F32 || a->descr == F64) &&
           a->descr == b->descr && a->nd == 2 && b->nd == 2 && a->dimensions[1] == b->dimensions[0];
}

static int is_quick_turned(const Array *a, const Array *b) {
    Py_ssize_t rows = a->dimensions[0], inner = a->dimensions[1], columns = b->dimensions[1], size = a->descr == F32 ? 4 : 8;
    return rows >= 16 && inner / 6 >= rows && columns / 4 >= rows && inner * columns >= WORTH_TURNING &&
           b->strides[0] == size && a->strides[1] == size;
}

/* a @ b as (b.T @ a.T).T, whose columns are side by side. */
static PyObject *turned_product(PyObject *a, PyObject *b) {
    PyObject *factors[] = {with_swapped(b, 0, 1), with_swapped(a, 0, 1)};
    PyObject *made = factors[0] && factors[1] ? call_numpy(array_dot, factors, 2, NULL) : NULL;
    PyObject *turned = made ? with_swapped(made, 0, 1) : NULL;
    Py_XDECREF(factors[0]);
    Py_XDECREF(factors[1]);
    Py_XDECREF(made);
    return turned;
}

static PyObject *straight_product(PyObject *const *factors) {
    int few = ((Array *)factors[0])->dimensions[0] <= FEW_ROWS;
    return call_numpy(few ? array_dot : numpy_matmul, factors, 2, NULL);
}

/* times(a, b): the product of two matrices of float32 or float64, its rows side by side; None for anything else, and where
 * NumPy may have to tell of flags. */
static PyObject *times(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !can_multiply(args[0], args[1])) Py_RETURN_NONE;
    PyObject *few = product(module, args, count); /* so that a few factors have one product, as a matrix or as several */
    if (few != Py_None) return few;
    Py_DECREF(few);
    if (is_quick_turned((Array *)args[0], (Array *)args[1])) {
        PyObject *turned = turned_product(args[0], args[1]);
        PyObject *made = turned ? PyObject_CallMethodNoArgs(turned, copy_name) : NULL;
        Py_XDECREF(turned);
        return made;
    }
    int silent = ((Array *)args[0])->dimensions[0] <= FEW_ROWS ? 1 : ignores_flags();
    return silent > 0 ? straight_product(args) : silent < 0 ? NULL : Py_NewRef(Py_None);
}

static int is_one(PyObject *number) {
    int64_t value;
    return read_whole(number, &value) && value == 1;
}

/* add_product(c, a, b, beta, alpha): `a @ b + c` where both factors are 1 and all are of float32 or float64; None for
 * anything else, and for a sum that does not fit. */
static PyObject *add_product(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !can_multiply(args[1], args[2]) || !is_one(args[3]) || !is_one(args[4])) Py_RETURN_NONE;
    if (!plain(args[0], ((Array *)args[1])->descr, 0)) Py_RETURN_NONE;
    PyObject *made = NULL, *sum = NULL;
    if (is_quick_turned((Array *)args[1], (Array *)args[2])) {
        made = turned_product(args[1], args[2]);
        Array *a = (Array *)made;
        PyObject *out = made ? new_array(a->descr, 2, a->dimensions) : NULL;
        PyObject *terms[] = {made, args[0], out}; /* adding puts rows side by side on the way */
        if (out) sum = call_numpy(numpy_add, terms, 2, out_names);
        Py_XDECREF(out);
    } else if ((made = straight_product(args + 1))) {
        PyObject *terms[] = {made, args[0], made};
        sum = add(module, terms, 2, out_names);
    }
    Py_XDECREF(made);
    if (sum || !PyErr_ExceptionMatches(PyExc_ValueError)) return sum;
    PyErr_Clear(); /* who asked says what does not fit */
    Py_RETURN_NONE;
}
