/* Normalisation of rows. */

WIDE static void NAMED(layer_norm_loop)(const REAL *x, const REAL *w, const REAL *b, REAL *out, REAL *means, REAL *rstds,
                                 REAL eps, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, x += n, out += n) {
        REAL mean = (REAL)(NAMED(row_sum)(x, n) / (double)n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] - mean;
        REAL rstd = (REAL)(1.0 / sqrt(NAMED(row_dot)(out, out, n) / (double)n + (double)eps));
        means[r] = mean;
        rstds[r] = rstd;
        if (w && b) {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * rstd * w[i] + b[i];
        } else if (w) {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * rstd * w[i];
        } else {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] *= rstd;
            if (b) { SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] += b[i]; }
        }
    }
}

typedef struct {
    const REAL *x, *w, *b;
    REAL *out, *means, *rstds, eps;
    Py_ssize_t n;
} NAMED(Normalized);

static void NAMED(layer_norm_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Normalized) *a = work;
    NAMED(layer_norm_loop)(a->x + from * a->n, a->w, a->b, a->out + from * a->n, a->means + from, a->rstds + from, a->eps,
                    to - from, a->n);
}

INLINE int NAMED(optional)(PyObject *object, Py_ssize_t n, int flags, REAL **data) {
    *data = NULL;
    if (object == Py_None) return 1;
    if (!plain(object, KIND, CONTIGUOUS | ALIGNED | flags) || count_of(object) != n) return 0;
    *data = data_of(object);
    return 1;
}

/* layer_norm(x, weight | None, bias | None, eps, out, mean, rstd) */
static PyObject *NAMED(layer_norm)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 7 || !readable(args[0], KIND) || !PyFloat_CheckExact(args[3])) Py_RETURN_FALSE;
    for (int i = 4; i < 7; i++)
        if (!writable(args[i], KIND)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), rows = count_of(args[5]);
    if (total == 0 || total != count_of(args[4]) || rows != count_of(args[6]) || rows == 0 || total % rows)
        Py_RETURN_FALSE;
    Py_ssize_t n = total / rows;
    REAL *w, *b, eps = (REAL)PyFloat_AS_DOUBLE(args[3]);
    if (!NAMED(optional)(args[1], n, 0, &w) || !NAMED(optional)(args[2], n, 0, &b)) Py_RETURN_FALSE;
    NAMED(Normalized) work = {data_of(args[0]), w, b, data_of(args[4]), data_of(args[5]), data_of(args[6]), eps, n};
    BEGIN(total)
    run(NAMED(layer_norm_part), &work, rows, n, HEAVY);
    END
    Py_RETURN_TRUE;
}

#define GROUP 64 /* rows whose share in the gradient of a weight is added up in single precision */

/* `work` has room for 3 n floats. */
WIDE static void NAMED(layer_norm_backward_loop)(const REAL *g, const REAL *x, const REAL *means, const REAL *rstds,
                                          const REAL *w, REAL *dx, double *dw, double *db, REAL *work,
                                          Py_ssize_t rows, Py_ssize_t n) {
    REAL *xhat = work, *pw = work + n, *pb = work + 2 * n;
    memset(pw, 0, 2 * n * sizeof(REAL));
    for (Py_ssize_t r = 0; r < rows; r++, g += n, x += n) {
        REAL mean = means[r], rstd = rstds[r];
        SIMD for (Py_ssize_t i = 0; i < n; i++) {
            xhat[i] = (x[i] - mean) * rstd;
            pw[i] += g[i] * xhat[i];
            pb[i] += g[i];
        }
        if (dx) {
            REAL level = 0.0f, along = 0.0f;
            SIMD for (Py_ssize_t i = 0; i < n; i++) dx[i] = w ? g[i] * w[i] : g[i];
            level = (REAL)(NAMED(row_sum)(dx, n) / (double)n);
            along = (REAL)(NAMED(row_dot)(dx, xhat, n) / (double)n);
            SIMD for (Py_ssize_t i = 0; i < n; i++) dx[i] = (dx[i] - level - xhat[i] * along) * rstd;
            dx += n;
        }
        if (r % GROUP == GROUP - 1 || r == rows - 1) {
            for (Py_ssize_t i = 0; i < n; i++) {
                dw[i] += pw[i];
                db[i] += pb[i];
                pw[i] = pb[i] = 0.0f;
            }
        }
    }
}

/* layer_norm_backward(g, x, mean, rstd, weight | None, dx | None, dw | None, db | None) */
static PyObject *NAMED(layer_norm_backward)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 8) Py_RETURN_FALSE;
    for (int i = 0; i < 4; i++)
        if (!readable(args[i], KIND)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[1]), rows = count_of(args[2]);
    if (rows == 0 || total == 0 || total % rows || total != count_of(args[0]) || rows != count_of(args[3]))
        Py_RETURN_FALSE;
    Py_ssize_t n = total / rows;
    REAL *w, *dx, *dw, *db;
    if (!NAMED(optional)(args[4], n, 0, &w) || !NAMED(optional)(args[5], total, WRITEABLE, &dx) ||
        !NAMED(optional)(args[6], n, WRITEABLE, &dw) || !NAMED(optional)(args[7], n, WRITEABLE, &db))
        Py_RETURN_FALSE;
    double *sums = PyMem_RawCalloc(2 * n, sizeof(double));
    REAL *work = PyMem_RawMalloc(3 * n * sizeof(REAL));
    if (sums && work) {
        BEGIN(total)
        NAMED(layer_norm_backward_loop)(data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(args[3]), w, dx, sums,
                                 sums + n, work, rows, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            if (dw) dw[i] = (REAL)sums[i];
            if (db) db[i] = (REAL)sums[n + i];
        }
        END
    }
    int done = sums && work;
    PyMem_RawFree(sums);
    PyMem_RawFree(work);
    return PyBool_FromLong(done);
}
