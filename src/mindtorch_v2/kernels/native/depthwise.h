/* Convolutions of each channel for itself. */

typedef struct {
    Py_ssize_t h, w, out_h, out_w, taps_h, taps_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} Window;

/* One plane: each row of the result is a sum of rows of the input, moved and scaled, where they lie inside. */
WIDE static void depthwise_loop(const float *x, const float *taps, float *out, Window g) {
    for (Py_ssize_t y = 0; y < g.out_h; y++, out += g.out_w) {
        memset(out, 0, g.out_w * sizeof(float));
        for (Py_ssize_t i = 0; i < g.taps_h; i++) {
            Py_ssize_t at = y * g.stride_h + i * g.dilation_h - g.pad_h, s = g.stride_w;
            if (at < 0 || at >= g.h) continue;
            for (Py_ssize_t j = 0; j < g.taps_w; j++) {
                Py_ssize_t move = j * g.dilation_w - g.pad_w;
                Py_ssize_t start = move < 0 ? (s - 1 - move) / s : 0, stop = move < g.w ? (g.w - 1 - move) / s + 1 : 0;
                const float *row = x + at * g.w + move;
                float tap = taps[i * g.taps_w + j];
                if (stop > g.out_w) stop = g.out_w;
                if (s == 1) {
                    SIMD for (Py_ssize_t k = start; k < stop; k++) out[k] += tap * row[k];
                } else {
                    SIMD for (Py_ssize_t k = start; k < stop; k++) out[k] += tap * row[k * s];
                }
            }
        }
    }
}

typedef struct {
    const float *x, *taps;
    float *out;
    Py_ssize_t channels, made; /* of the input and of the result */
    Window g;
} Planes;

static void depthwise_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Planes *a = work;
    Window g = a->g;
    for (Py_ssize_t p = from; p < to; p++) {
        Py_ssize_t image = p / a->made, channel = p % a->made / (a->made / a->channels);
        depthwise_loop(a->x + (image * a->channels + channel) * g.h * g.w, a->taps + p % a->made * g.taps_h * g.taps_w,
                       a->out + p * g.out_h * g.out_w, g);
    }
}

/* depthwise(x, weight, out, strides, dilations, pads before): (n, c, h, w) with (c * m, 1, i, j), each pair as two. */
static PyObject *depthwise(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 9 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *w = (Array *)args[1], *out = (Array *)args[2];
    Py_ssize_t given[6];
    for (int i = 0; i < 6; i++)
        if (!read_size(args[3 + i], &given[i]) || given[i] > FURTHEST || given[i] < -FURTHEST) Py_RETURN_FALSE;
    if (x->nd != 4 || w->nd != 4 || out->nd != 4 || w->dimensions[1] != 1 || given[0] < 1 || given[1] < 1) Py_RETURN_FALSE;
    Py_ssize_t channels = x->dimensions[1], made = out->dimensions[1], planes = x->dimensions[0] * made;
    if (channels == 0 || made % channels || w->dimensions[0] != made || out->dimensions[0] != x->dimensions[0])
        Py_RETURN_FALSE;
    Window g = {x->dimensions[2], x->dimensions[3], out->dimensions[2], out->dimensions[3], w->dimensions[2],
                w->dimensions[3], given[0], given[1], given[2], given[3], given[4], given[5]};
    Planes work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), channels, made, g};
    BEGIN(count_of(args[2]))
    run(depthwise_part, &work, planes, g.out_h * g.out_w, HEAVY);
    END
    Py_RETURN_TRUE;
}
