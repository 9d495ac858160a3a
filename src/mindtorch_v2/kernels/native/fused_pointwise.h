/* Functions of the elements of one to three arrays and of some numbers in one pass. They round after every operation, as
 * the passes they stand for do. */

enum { MOST_VALUES = 3 };

typedef struct {
    const void *a, *b, *c;
    void *out;
    double values[MOST_VALUES];
} Fused;

/* A loop over RULE, whose names are x, y and z for elements of the arrays, value, second and third for the numbers. */
#define TERMS(NAME, TYPE, RULE)                                                                                        \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Fused *t = work;                                                                                         \
        const TYPE *a = t->a, *b = t->b, *c = t->c;                                                                    \
        const TYPE value = (TYPE)t->values[0], second = (TYPE)t->values[1], third = (TYPE)t->values[2];                \
        TYPE *out = t->out;                                                                                            \
        (void)value, (void)second, (void)third;                                                                        \
        SIMD for (Py_ssize_t i = from; i < to; i++) {                                                                  \
            const TYPE x = a[i], y = b[i], z = c[i];                                                                   \
            (void)y, (void)z;                                                                                          \
            out[i] = RULE;                                                                                             \
        }                                                                                                              \
    }

#define BOTH(NAME, RULE)                                                                                               \
    TERMS(NAME##_f32, float, RULE)                                                                                     \
    TERMS(NAME##_f64, double, RULE)                                                                                    \
    static const Part NAME##_loops[2] = {NAME##_f32, NAME##_f64};

/* The result of so many arrays, numbers and an array for it or None; None where it does not know them. */
static PyObject *sum_fused(const Part *loops, int arrays, int numbers, const double *values, PyObject *const *args) {
    PyObject *out = args[arrays + numbers], *descr = Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || (descr != F32 && descr != F64)) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[0]), bytes = n * (descr == F32 ? 4 : 8);
    int fresh = out == Py_None, fits = fresh || (writable(out, descr) && of_one_shape(args[0], out));
    for (int i = 0; i < arrays && fits; i++)
        fits = readable(args[i], descr) && of_one_shape(args[0], args[i]) && (fresh || apart(args[i], out, bytes));
    if (!fits) Py_RETURN_NONE;
    out = fresh ? new_like(args[0], KEEP_ORDER, NULL, 0) : Py_NewRef(out);
    if (!out) return NULL;
    Fused work = {data_of(args[0]), data_of(args[arrays > 1]), data_of(args[arrays - 1]), data_of(out), {0}};
    memcpy(work.values, values, numbers * sizeof(double));
    BEGIN(n)
    run(loops[descr == F64], &work, n, 1, LIGHT);
    END
    return out;
}

/* Whether args are so many arrays, Python numbers (into values) and what the result goes into. */
static int fused_arguments(PyObject *const *args, Py_ssize_t count, int arrays, int numbers, double *values) {
    if (count != arrays + numbers + 1) return 0;
    for (int i = 0; i < numbers; i++)
        if (!PyFloat_CheckExact(args[arrays + i]) && !PyLong_CheckExact(args[arrays + i])) return 0;
    return read_numbers(args + arrays, numbers, values);
}

#define FUSED(NAME, ARRAYS, NUMBERS, RULE)                                                                             \
    BOTH(NAME, RULE)                                                                                                   \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        double values[MOST_VALUES] = {0};                                                                              \
        if (!fused_arguments(args, count, ARRAYS, NUMBERS, values)) Py_RETURN_NONE;                                        \
        return sum_fused(NAME##_loops, ARRAYS, NUMBERS, values, args);                                                 \
    }

FUSED(add_scaled, 2, 1, x + y * value)
FUSED(addcmul, 3, 1, x + y * z * value)
FUSED(addcdiv, 3, 1, x + y * value / z)

BOTH(lerp_near, x + (y - x) * value)
BOTH(lerp_far, y - (y - x) * value)

/* From the nearer end, so that both are exact. */
static PyObject *lerp(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double weight;
    if (!fused_arguments(args, count, 2, 1, &weight)) Py_RETURN_NONE;
    int near = fabs(weight) < 0.5;
    weight = near ? weight : 1 - weight;
    return sum_fused(near ? lerp_near_loops : lerp_far_loops, 2, 1, &weight, args);
}

/* Activations; nan stays nan. Slopes take the gradient of the result first, then what it was made of. */
FUSED(threshold, 1, 2, x <= value ? second : x)
FUSED(threshold_backward, 2, 1, y <= value ? 0 : x)
FUSED(leaky_relu, 1, 1, x > 0 ? x : x * value)
FUSED(leaky_relu_backward, 2, 1, y > 0 ? x : x * value)
FUSED(hardtanh, 1, 2, (x < value ? value : x) > second ? second : x < value ? value : x)
FUSED(hardtanh_backward, 2, 2, y > value && y < second ? x : 0)
FUSED(hardsigmoid, 1, 0, (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6)
FUSED(hardsigmoid_backward, 2, 0, y > -3 && y < 3 ? x / 6 : 0)
FUSED(hardswish_backward, 2, 0, y >= 3 ? x : y <= -3 ? 0 : (y / 3 + 0.5f) * x)
FUSED(hardshrink, 1, 1, x >= -value && x <= value ? 0 : x)
FUSED(hardshrink_backward, 2, 1, y < -value || y > value ? x : 0)
FUSED(softshrink, 1, 1, x - (x < -value ? -value : x > value ? value : x))
FUSED(elu, 1, 3, x > 0 ? x * second : EXPM1((x > 0 ? 0 : x) * third) * value)
FUSED(elu_slope, 2, 3, y > 0 ? x * second : EXP((y > 0 ? 0 : y) * third) * value * x)
FUSED(softplus, 1, 2, x * value > second ? x : ((x * value < 0 ? 0 : x * value) + LOG_TAIL(x * value)) / value)
FUSED(softplus_backward, 2, 2, y * value > second ? x : x / (EXP(-(y * value)) + 1))
FUSED(log_sigmoid_backward, 2, 0, x / (EXP(y) + 1))
FUSED(sigmoid_backward, 2, 0, x * ((1 - y) * y))
FUSED(tanh_backward, 2, 0, x * (1 - y * y))
FUSED(silu_backward, 2, 0, x * ((1 + y * (1 - 1 / (1 + EXP(-y)))) / (1 + EXP(-y))))

/* Of probabilities and what they should be: gradient of the loss, least spread, number of elements or 1. */
FUSED(binary_slope, 2, 3, value * (x - y) / ((1 - x) * x < second ? second : (1 - x) * x) / third)

#define TRUNC(X) _Generic((X), float: truncf, double: trunc)(X)
#undef SIZE
#define SIZE(X) ((X) < 0 ? -(X) : (X))
FUSED(cube, 1, 0, x * x * x)
FUSED(frac, 1, 0, x - TRUNC(x))
FUSED(bent, 1, 1, SIZE(x) > value ? (SIZE(x) - value * 0.5f) * value : SIZE(x) * 0.5f * SIZE(x))

/* linspace(start, end, steps): so many numbers of float32 from start to end, each counted from the end that is nearer; None
 * for fewer than two, and for many. */
static PyObject *linspace(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t steps;
    double ends[2];
    if (count != 3 || !read_size(args[2], &steps) || steps < 2 || steps > 4096 || !read_numbers(args, 2, ends)) Py_RETURN_NONE;
    Py_ssize_t half = steps / 2;
    float start = (float)ends[0], end = (float)ends[1];
    PyObject *made = new_array(F32, 1, &steps);
    if (!made) return NULL;
    float *out = data_of(made), step = (end - start) / (float)(steps - 1);
    for (Py_ssize_t i = 0; i < half; i++) out[i] = (float)i * step + start;
    for (Py_ssize_t i = half; i < steps; i++) out[i] = (float)(i - steps + 1) * step + end;
    return made;
}
