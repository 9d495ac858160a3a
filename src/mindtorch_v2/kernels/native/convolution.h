/* Small convolutions of lines and planes, tap by tap: the output, the input's gradient, or the weight's gradient. */

enum { NAMED(GATHER), NAMED(SCATTER), NAMED(WEIGHT_GRAD) };

/* The windows along one axis whose tap at `offset` lies inside: from *from, up to *to. */
static void NAMED(windows_inside)(Py_ssize_t offset, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t windows,
                                  Py_ssize_t *from, Py_ssize_t *to) {
    *from = offset < 0 ? (-offset + stride - 1) / stride : 0;
    *to = offset < size ? (size - 1 - offset) / stride + 1 : 0;
    if (*to > windows) *to = windows;
}

/* One tap of one pair of channels: x are its places (rows `width` apart), out the windows. */
WIDE static REAL NAMED(tap)(REAL *x, REAL *out, REAL w, int what, const Windows *s, Py_ssize_t ky, Py_ssize_t kx) {
    Py_ssize_t top, bottom, left, right, y = ky * s->dilation[0] - s->padding[0], step = s->stride[1];
    Py_ssize_t shift = kx * s->dilation[1] - s->padding[1];
    NAMED(windows_inside)(y, s->stride[0], s->size[0], s->count[0], &top, &bottom);
    NAMED(windows_inside)(shift, step, s->size[1], s->count[1], &left, &right);
    REAL sum = 0;
    for (Py_ssize_t row = top; row < bottom; row++) {
        REAL *places = x + (row * s->stride[0] + y) * s->size[1] + shift, *windows = out + row * s->count[1];
        if (what == NAMED(GATHER))
            for (Py_ssize_t i = left; i < right; i++) windows[i] += w * places[i * step];
        else if (what == NAMED(SCATTER))
            for (Py_ssize_t i = left; i < right; i++) places[i * step] += w * windows[i];
        else
            for (Py_ssize_t i = left; i < right; i++) sum += places[i * step] * windows[i];
    }
    return sum;
}

/* convolve(kernel, stride, padding, dilation, x, out, weight, bias | None, groups, what): out = correlation of x with the
 * weight and the bias; or, by `what`, x = out spread by the weight and the bias; or the weight that x and out give. False
 * where the numbers of images, channels and taps do not agree. */
static PyObject *NAMED(convolve)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Windows s;
    Py_ssize_t groups, what;
    if (count != 10 || !writable(args[4], KIND) || !writable(args[5], KIND) || !writable(args[6], KIND)) Py_RETURN_FALSE;
    if ((args[7] != Py_None && !readable(args[7], KIND)) || !read_size(args[8], &groups) || !read_size(args[9], &what))
        Py_RETURN_FALSE;
    Array *a = (Array *)args[4], *b = (Array *)args[5], *c = (Array *)args[6];
    if (!PyTuple_CheckExact(args[0]) || a->nd != PyTuple_GET_SIZE(args[0]) + 2 || a->nd != b->nd || a->nd != c->nd)
        Py_RETURN_FALSE;
    Py_ssize_t images = a->dimensions[0], inputs = a->dimensions[1], outputs = b->dimensions[1];
    Py_ssize_t own = c->dimensions[1];
    if (!read_windows(args, 1, &s) || groups < 1 || inputs / groups != own || inputs % groups || outputs % groups)
        Py_RETURN_FALSE;
    s.size[0] = s.count[0] = 1;
    for (int i = 2, at = 4 - a->nd; i < a->nd; i++) {
        s.size[i - 2 + at] = a->dimensions[i];
        s.count[i - 2 + at] = b->dimensions[i];
    }
    Py_ssize_t place = s.size[0] * s.size[1], window = s.count[0] * s.count[1], taps = s.kernel[0] * s.kernel[1];
    if (b->dimensions[0] != images || (double)outputs * (double)own * (double)taps != (double)count_of(args[6])) Py_RETURN_FALSE;
    if (taps == 1 && s.stride[0] == 1 && s.stride[1] == 1 && s.padding[0] == 0 && s.padding[1] == 0 && place == window) {
        s.size[0] = s.count[0] = 1; /* windows of one place: a plane is a line */
        s.size[1] = s.count[1] = place;
    }
    if (args[7] != Py_None && count_of(args[7]) != (what == NAMED(SCATTER) ? inputs : outputs)) Py_RETURN_FALSE;
    REAL *x = (REAL *)a->data, *out = (REAL *)b->data, *weight = (REAL *)c->data;
    const REAL *bias = args[7] == Py_None ? NULL : data_of(args[7]);
    int written = what == NAMED(GATHER) ? 5 : what == NAMED(SCATTER) ? 4 : 6;
    memset(data_of(args[written]), 0, count_of(args[written]) * sizeof(REAL));
    for (Py_ssize_t r = 0; bias && written == 5 && r < images * outputs; r++)
        for (Py_ssize_t i = 0; i < window; i++) out[r * window + i] = bias[r % outputs];
    for (Py_ssize_t r = 0; bias && written == 4 && r < images * inputs; r++)
        for (Py_ssize_t i = 0; i < place; i++) x[r * place + i] = bias[r % inputs];
    for (Py_ssize_t n = 0; n < images; n++)
        for (Py_ssize_t o = 0; o < outputs; o++)
            for (Py_ssize_t k = 0; k < own; k++) {
                REAL *from = x + (n * inputs + o / (outputs / groups) * own + k) * place;
                REAL *to = out + (n * outputs + o) * window, *w = weight + (o * own + k) * taps;
                for (Py_ssize_t t = 0; t < taps; t++) {
                    REAL sum = NAMED(tap)(from, to, w[t], (int)what, &s, t / s.kernel[1], t % s.kernel[1]);
                    if (written == 6) w[t] += sum;
                }
            }
    Py_RETURN_TRUE;
}
