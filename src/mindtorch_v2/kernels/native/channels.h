/* Normalisation, pooling and sums by channel. */

/* What a loop over channels reads and writes: arrays of that layout, then one REAL for each channel. */
typedef struct {
    const REAL *g, *x;
    REAL *out;
    const REAL *means, *as, *bs, *ds;
    REAL *first, *second;
    Layout s;
} NAMED(Channels);

/* Channels side by side, as in rows of features: so many at a time, a row after the other. */
enum { NAMED(ABREAST) = 64 };

WIDE static void NAMED(moments_abreast)(const NAMED(Channels) *a, Py_ssize_t from, Py_ssize_t to) {
    Py_ssize_t channels = a->s.channels, batch = a->s.batch, n = to - from;
    double sums[NAMED(ABREAST)] = {0}, squares[NAMED(ABREAST)] = {0};
    REAL *means = a->first + from;
    for (Py_ssize_t b = 0; b < batch; b++)
        SIMD for (Py_ssize_t k = 0; k < n; k++) sums[k] += a->x[b * channels + from + k];
    for (Py_ssize_t k = 0; k < n; k++) means[k] = (REAL)(sums[k] / (double)batch);
    for (Py_ssize_t b = 0; b < batch; b++)
        SIMD for (Py_ssize_t k = 0; k < n; k++) {
            REAL d = a->x[b * channels + from + k] - means[k];
            squares[k] += d * d;
        }
    for (Py_ssize_t k = 0; k < n; k++) a->second[from + k] = (REAL)(squares[k] / (double)batch);
}

WIDE static void NAMED(products_abreast)(const NAMED(Channels) *a, Py_ssize_t from, Py_ssize_t to) {
    Py_ssize_t channels = a->s.channels, n = to - from;
    double sums[NAMED(ABREAST)] = {0}, products[NAMED(ABREAST)] = {0};
    for (Py_ssize_t b = 0; b < a->s.batch; b++)
        SIMD for (Py_ssize_t k = 0; k < n; k++) {
            REAL g = a->g[b * channels + from + k];
            sums[k] += g;
            products[k] += g * (a->x[b * channels + from + k] - a->means[from + k]);
        }
    for (Py_ssize_t k = 0; k < n; k++) a->first[from + k] = (REAL)sums[k], a->second[from + k] = (REAL)products[k];
}

/* The elements of one row from `from` on, up to `to` at most; where they end. */
WIDE static Py_ssize_t NAMED(affine_abreast)(const NAMED(Channels) *a, Py_ssize_t from, Py_ssize_t to) {
    Py_ssize_t c = from % a->s.channels, n = to - from < a->s.channels - c ? to - from : a->s.channels - c;
    SIMD for (Py_ssize_t k = 0; k < n; k++) a->out[from + k] = a->x[from + k] * a->as[c + k] + a->ds[c + k];
    return from + n;
}

WIDE static Py_ssize_t NAMED(mix_abreast)(const NAMED(Channels) *a, Py_ssize_t from, Py_ssize_t to) {
    Py_ssize_t c = from % a->s.channels, n = to - from < a->s.channels - c ? to - from : a->s.channels - c;
    SIMD for (Py_ssize_t k = 0; k < n; k++)
        a->out[from + k] =
            a->g[from + k] * a->as[c + k] + (a->x[from + k] - a->means[c + k]) * a->bs[c + k] + a->ds[c + k];
    return from + n;
}

/* Calls a loop over channels that lie side by side, so many at a time. */
#define ABREAST(LOOP)                                                                                                  \
    if (a->s.places == 1) {                                                                                            \
        for (Py_ssize_t c = from; c < to; c += NAMED(ABREAST))                                                         \
            LOOP(a, c, to - c < NAMED(ABREAST) ? to : c + NAMED(ABREAST));                                             \
        return;                                                                                                        \
    }

WIDE static void NAMED(moments_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Channels) *a = work;
    ABREAST(NAMED(moments_abreast))
    Layout s = a->s;
    double count = (double)(s.batch * s.places);
    for (Py_ssize_t c = from; c < to; c++) {
        double sum = 0.0, squares = 0.0;
        for (Py_ssize_t b = 0; b < s.batch; b++) sum += NAMED(sum_of)(a->x + (b * s.channels + c) * s.places, s.places);
        REAL mean = (REAL)(sum / count);
        for (Py_ssize_t b = 0; b < s.batch; b++)
            squares += NAMED(spread_of)(a->x + (b * s.channels + c) * s.places, mean, s.places);
        a->first[c] = mean;
        a->second[c] = (REAL)(squares / count);
    }
}

/* out = x * a + d */
WIDE static void NAMED(affine_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Channels) *a = work;
    Py_ssize_t places = a->s.places;
    while (places == 1 && from < to) from = NAMED(affine_abreast)(a, from, to);
    for (Py_ssize_t r = from; r < to; r++) {
        const REAL *x = a->x + r * places, scale = a->as[r % a->s.channels], shift = a->ds[r % a->s.channels];
        REAL *out = a->out + r * places;
        SIMD for (Py_ssize_t i = 0; i < places; i++) out[i] = x[i] * scale + shift;
    }
}

/* For each channel the sum of g and that of g (x - mean). */
WIDE static void NAMED(products_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Channels) *a = work;
    ABREAST(NAMED(products_abreast))
    Layout s = a->s;
    for (Py_ssize_t c = from; c < to; c++) {
        double sum = 0.0, product = 0.0;
        REAL mean = a->means[c];
        for (Py_ssize_t b = 0; b < s.batch; b++) {
            const REAL *gs = a->g + (b * s.channels + c) * s.places, *xs = a->x + (b * s.channels + c) * s.places;
            for (Py_ssize_t start = 0; start < s.places; start += PART) {
                Py_ssize_t stop = s.places - start < PART ? s.places : start + PART;
                REAL p = 0.0f, q = 0.0f;
                SIMD_SUM(omp simd reduction(+ : p, q)) for (Py_ssize_t i = start; i < stop; i++) {
                    p += gs[i];
                    q += gs[i] * (xs[i] - mean);
                }
                sum += p;
                product += q;
            }
        }
        a->first[c] = (REAL)sum;
        a->second[c] = (REAL)product;
    }
}

/* out = g * a + (x - mean) * b + d */
WIDE static void NAMED(mix_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Channels) *w = work;
    Py_ssize_t places = w->s.places;
    while (places == 1 && from < to) from = NAMED(mix_abreast)(w, from, to);
    for (Py_ssize_t r = from; r < to; r++) {
        Py_ssize_t c = r % w->s.channels;
        const REAL *g = w->g + r * places, *x = w->x + r * places;
        REAL *out = w->out + r * places, mean = w->means[c], a = w->as[c], b = w->bs[c], d = w->ds[c];
        SIMD for (Py_ssize_t i = 0; i < places; i++) out[i] = g[i] * a + (x[i] - mean) * b + d;
    }
}

#undef ABREAST

/* Whether args[first] to args[last - 1] are vectors of one REAL for each channel; WRITEABLE, where they are written. */
INLINE int NAMED(vectors)(PyObject *const *args, int first, int last, Py_ssize_t channels, int flags) {
    for (int i = first; i < last; i++)
        if (!plain(args[i], KIND, CONTIGUOUS | ALIGNED | flags) || count_of(args[i]) != channels) return 0;
    return 1;
}

/* channel_moments(x, mean, variance) */
static PyObject *NAMED(channel_moments)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 3 || !readable(args[0], KIND) || !layout_of(args[0], &s) ||
        !NAMED(vectors)(args, 1, 3, s.channels, WRITEABLE))
        Py_RETURN_FALSE;
    NAMED(Channels) work = {.x = data_of(args[0]), .first = data_of(args[1]), .second = data_of(args[2]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(NAMED(moments_part), &work, s.channels, s.batch * s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_affine(x, scale, shift, out) */
static PyObject *NAMED(channel_affine)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 4 || !readable(args[0], KIND) || !layout_of(args[0], &s) || !NAMED(vectors)(args, 1, 3, s.channels, 0) ||
        !writable(args[3], KIND) || count_of(args[3]) != count_of(args[0]))
        Py_RETURN_FALSE;
    NAMED(Channels) work = {.x = data_of(args[0]), .as = data_of(args[1]), .ds = data_of(args[2]), .out = data_of(args[3]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(NAMED(affine_part), &work, s.batch * s.channels, s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_products(g, x, mean, sums, products) */
static PyObject *NAMED(channel_products)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 5 || !readable(args[0], KIND) || !readable(args[1], KIND) || !layout_of(args[1], &s) ||
        count_of(args[0]) != count_of(args[1]) || !NAMED(vectors)(args, 2, 3, s.channels, 0) ||
        !NAMED(vectors)(args, 3, 5, s.channels, WRITEABLE))
        Py_RETURN_FALSE;
    NAMED(Channels) work = {.g = data_of(args[0]), .x = data_of(args[1]), .means = data_of(args[2]),
                     .first = data_of(args[3]), .second = data_of(args[4]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(NAMED(products_part), &work, s.channels, s.batch * s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_mix(g, x, mean, a, b, d, out) */
static PyObject *NAMED(channel_mix)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 7 || !readable(args[0], KIND) || !readable(args[1], KIND) || !layout_of(args[1], &s) ||
        count_of(args[0]) != count_of(args[1]) || !NAMED(vectors)(args, 2, 6, s.channels, 0) || !writable(args[6], KIND) ||
        count_of(args[6]) != count_of(args[1]))
        Py_RETURN_FALSE;
    NAMED(Channels) work = {.g = data_of(args[0]), .x = data_of(args[1]), .means = data_of(args[2]), .as = data_of(args[3]),
                     .bs = data_of(args[4]), .ds = data_of(args[5]), .out = data_of(args[6]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(NAMED(mix_part), &work, s.batch * s.channels, s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* One channel: out = (x - mean) * scale + shift */
WIDE static void NAMED(shift_channel)(const REAL *x, REAL *out, REAL mean, REAL scale, REAL shift, Layout s) {
    for (Py_ssize_t b = 0; b < s.batch; b++, x += s.channels * s.places, out += s.channels * s.places)
        SIMD for (Py_ssize_t i = 0; i < s.places; i++) out[i] = (x[i] - mean) * scale + shift;
}

INLINE int NAMED(vector_or_none)(PyObject *object, Py_ssize_t channels) {
    return object == Py_None || (writable(object, KIND) && count_of(object) == channels);
}

/* batch_norm(x, weight, bias, running_mean, running_var, momentum, eps, out, mean, invstd): normalise by the moments of
 * the batch, which are written into the last two, and move the running ones towards them; by the running ones, which stay,
 * where momentum is None. Weight, bias and, with momentum, running moments may be None. */
static PyObject *NAMED(batch_norm)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 10 || !readable(args[0], KIND) || !layout_of(args[0], &s) || !writable(args[7], KIND) ||
        count_of(args[7]) != count_of(args[0]))
        Py_RETURN_FALSE;
    int training = args[5] != Py_None;
    for (int i = 1; i < 5; i++)
        if (!NAMED(vector_or_none)(args[i], s.channels) || (!training && i > 2 && args[i] == Py_None)) Py_RETURN_FALSE;
    if (training && !NAMED(vectors)(args, 8, 10, s.channels, WRITEABLE)) Py_RETURN_FALSE;
    double momentum = 0.0, eps;
    if ((training && !read_number(args[5], &momentum)) || !read_number(args[6], &eps)) Py_RETURN_FALSE;
    const REAL *x = data_of(args[0]);
    REAL *vector[4], *out = data_of(args[7]);
    for (int i = 0; i < 4; i++) vector[i] = args[i + 1] == Py_None ? NULL : data_of(args[i + 1]);
    REAL *mean = data_of(args[training ? 8 : 3]), *var = data_of(args[training ? 9 : 4]);
    double n = (double)(s.batch * s.places);
    if (training) NAMED(moments_part)(&(NAMED(Channels)){.x = x, .first = mean, .second = var, .s = s}, 0, s.channels);
    for (Py_ssize_t c = 0; c < s.channels; c++) {
        double batch[] = {mean[c], var[c] * (n / (n - 1))};
        for (int i = 0; training && i < 2; i++)
            if (vector[2 + i]) vector[2 + i][c] = (REAL)(vector[2 + i][c] * (1 - momentum) + batch[i] * momentum);
        REAL invstd = (REAL)(1 / sqrt(var[c] + eps));
        if (training) var[c] = invstd;
        REAL scale = vector[0] ? invstd * vector[0][c] : invstd, shift = vector[1] ? vector[1][c] : 0.0f;
        NAMED(shift_channel)(x + c * s.places, out + c * s.places, mean[c], scale, shift, s);
    }
    Py_RETURN_TRUE;
}
