/* Products of few rows with one matrix, again and again: BLAS would lay the matrix out anew for each product, which takes
 * about as long as the product does. Here it is laid out once, as panels of columns that are read from end to end. */

enum { COLUMNS = 16, TILE = 6, SHARED = 1 << 21 }; /* products of two numbers from which on threads share them */

#ifdef CLONES

/* Twice eight columns of TILE rows are sums in twelve registers of 256 bits; without these BLAS is faster. */
typedef float Eight __attribute__((vector_size(32)));
typedef float EightAnywhere __attribute__((vector_size(32), aligned(4), may_alias));

static int has_wide_registers(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

/* `rows` (a number known to the compiler) of the product with one panel, into a tile of their own. */
INLINE void tile(const float *x, Py_ssize_t step, const float *panel, Py_ssize_t depth, float *out, int rows) {
    Eight left[TILE], right[TILE];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) left[r] = right[r] = (Eight){0};
    for (Py_ssize_t k = 0; k < depth; k++, panel += COLUMNS) {
        Eight a = *(const EightAnywhere *)panel, b = *(const EightAnywhere *)(panel + 8);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            left[r] += x[r * step + k] * a;
            right[r] += x[r * step + k] * b;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        *(EightAnywhere *)(out + r * COLUMNS) = left[r];
        *(EightAnywhere *)(out + r * COLUMNS + 8) = right[r];
    }
}

WIDE static void tile_of(const float *x, Py_ssize_t step, const float *panel, Py_ssize_t depth, float *out, int rows) {
    switch (rows) {
        case 1: tile(x, step, panel, depth, out, 1); break;
        case 2: tile(x, step, panel, depth, out, 2); break;
        case 3: tile(x, step, panel, depth, out, 3); break;
        case 4: tile(x, step, panel, depth, out, 4); break;
        case 5: tile(x, step, panel, depth, out, 5); break;
        default: tile(x, step, panel, depth, out, TILE);
    }
}

#else

static int has_wide_registers(void) { return 0; }
static void tile_of(const float *x, Py_ssize_t step, const float *panel, Py_ssize_t depth, float *out, int rows) {}

#endif

typedef struct {
    const float *x, *panels;
    float *out;
    Py_ssize_t rows, step, depth, columns;
} Product;

static void product_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Product *a = work;
    float sums[TILE * COLUMNS];
    for (Py_ssize_t p = from; p < to; p++) {
        Py_ssize_t left = a->columns - p * COLUMNS, width = left < COLUMNS ? left : COLUMNS;
        for (Py_ssize_t i = 0; i < a->rows; i += TILE) {
            int rows = a->rows - i < TILE ? (int)(a->rows - i) : TILE;
            tile_of(a->x + i * a->step, a->step, a->panels + p * a->depth * COLUMNS, a->depth, sums, rows);
            for (int r = 0; r < rows; r++)
                memcpy(a->out + (i + r) * a->columns + p * COLUMNS, sums + r * COLUMNS, width * sizeof(float));
        }
    }
}

/* Whether an array is a matrix of float32, in which one finds elements by whole steps. */
INLINE int is_matrix(PyObject *object) {
    Array *a = (Array *)object;
    return plain(object, F32, ALIGNED) && a->nd == 2 && count_of(object) > 0 && a->strides[0] % 4 == 0 &&
           a->strides[1] % 4 == 0;
}

/* pack(matrix): its columns in panels of (depth, COLUMNS), the last one filled up with 0; None for what is no matrix of
 * float32, and where products are left to BLAS. */
static PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 1 || !has_wide_registers() || !is_matrix(args[0])) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t depth = a->dimensions[0], columns = a->dimensions[1], down = a->strides[0] / 4, across = a->strides[1] / 4;
    Py_ssize_t shape[] = {(columns + COLUMNS - 1) / COLUMNS, depth, COLUMNS};
    PyObject *made = new_array(F32, 3, shape);
    if (!made) return NULL;
    float *panel = data_of(made);
    for (Py_ssize_t p = 0; p < shape[0]; p++, panel += depth * COLUMNS)
        for (Py_ssize_t j = 0; j < COLUMNS; j++) {
            const float *x = (const float *)a->data + (p * COLUMNS + j) * across;
            int inside = p * COLUMNS + j < columns;
            for (Py_ssize_t k = 0; k < depth; k++) panel[k * COLUMNS + j] = inside ? x[k * down] : 0.0f;
        }
    return made;
}

/* times_packed(x, panels, columns): the product of x with a packed matrix of so many columns; None for what is no matrix of
 * float32 whose rows lie in memory from end to end, or does not fit. */
static PyObject *times_packed(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t columns;
    if (count != 3 || !has_wide_registers() || !is_matrix(args[0]) || !readable(args[1], F32)) Py_RETURN_NONE;
    if (((Array *)args[1])->nd != 3 || last_of(args[1]) != COLUMNS || !read_size(args[2], &columns)) Py_RETURN_NONE;
    Array *x = (Array *)args[0];
    Py_ssize_t *panels = ((Array *)args[1])->dimensions;
    if (columns < 1 || x->strides[1] != 4 || x->dimensions[1] != panels[1] || columns <= (panels[0] - 1) * COLUMNS ||
        columns > panels[0] * COLUMNS)
        Py_RETURN_NONE;
    Py_ssize_t shape[] = {x->dimensions[0], columns};
    PyObject *out = new_array(F32, 2, shape);
    if (!out) return NULL;
    Product work = {data_of(args[0]), data_of(args[1]), data_of(out), shape[0], x->strides[0] / 4, panels[1], columns};
    BEGIN(shape[0] * columns * panels[1])
    run(product_part, &work, panels[0], shape[0] * COLUMNS * panels[1], SHARED);
    END
    return out;
}
