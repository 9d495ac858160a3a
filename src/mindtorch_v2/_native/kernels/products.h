/* Products of few small matrices, whose calls of BLAS would take longer than the arithmetic. */

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
    PyObject *out = from_descr(array_type, Py_NewRef(a->descr), a->nd, shape, NULL, NULL, 0, NULL);
    if (!out) return NULL;
    char *made = data_of(out);
    for (Py_ssize_t i = 0; i < batch; i++, made += s.m * s.n * size) {
        if (size == 4) product_f32((float *)(a->data + i * a_step), (float *)(b->data + i * b_step), (float *)made, &s);
        else product_f64((double *)(a->data + i * a_step), (double *)(b->data + i * b_step), (double *)made, &s);
    }
    return out;
}
