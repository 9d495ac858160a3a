/* Linear maps along one axis: padding and resizing. */

INLINE REAL NAMED(mapped)(const REAL *x, Py_ssize_t place, Py_ssize_t inputs) { return place == inputs ? 0 : x[place]; }

WIDE static void NAMED(map_row)(const REAL *x, REAL *out, const int64_t *places, const REAL *weight, Py_ssize_t taps,
                                Py_ssize_t outputs, Py_ssize_t inputs, Py_ssize_t inner) {
    if (taps == 1 && inner == 1 && !weight) { /* nothing but a choice */
        for (Py_ssize_t j = 0; j < outputs; j++) out[j] = NAMED(mapped)(x, place_at(places, j, inputs + 1), inputs);
        return;
    }
    for (Py_ssize_t j = 0; j < outputs; j++, out += inner) {
        int filled = 0;
        for (Py_ssize_t t = 0; t < taps; t++) {
            Py_ssize_t place = place_at(places, t * outputs + j, inputs + 1);
            if (place == inputs) continue; /* stands for a zero */
            const REAL *from = x + place * inner, w = weight ? weight[t * outputs + j] : 1;
            if (filled++) {
                SIMD for (Py_ssize_t i = 0; i < inner; i++) out[i] += from[i] * w;
            } else {
                SIMD for (Py_ssize_t i = 0; i < inner; i++) out[i] = from[i] * w;
            }
        }
        if (!filled) memset(out, 0, inner * sizeof(REAL));
    }
}

/* map_axis(x, places, weight | None, axis, out): out[o] along the axis is the sum over t of weight[t, o] x[places[t, o]];
 * the place behind the last stands for a zero. */
static PyObject *NAMED(map_axis)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !readable(args[0], KIND) || !readable(args[1], I64) ||
        !writable(args[4], KIND) || (args[2] != Py_None && !readable(args[2], KIND)))
        Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *places = (Array *)args[1], *out = (Array *)args[4];
    Py_ssize_t axis, outer = 1, inner = 1;
    if (!read_size(args[3], &axis) || axis < 0 || axis >= x->nd || places->nd != 2 || out->nd != x->nd ||
        count_of(args[0]) == 0)
        Py_RETURN_FALSE;
    Py_ssize_t taps = places->dimensions[0], outputs = places->dimensions[1], inputs = x->dimensions[axis];
    for (Py_ssize_t i = 0; i < x->nd; i++) {
        if (out->dimensions[i] != (i == axis ? outputs : x->dimensions[i])) Py_RETURN_FALSE;
        if (i < axis) outer *= x->dimensions[i];
        if (i > axis) inner *= x->dimensions[i];
    }
    if ((args[2] != Py_None && !of_one_shape(args[1], args[2])) || !in_range(data_of(args[1]), taps * outputs, inputs + 1))
        Py_RETURN_FALSE;
    const REAL *weight = args[2] == Py_None ? NULL : data_of(args[2]);
    BEGIN(outer * outputs * inner)
    for (Py_ssize_t o = 0; o < outer; o++)
        NAMED(map_row)((REAL *)x->data + o * inputs * inner, (REAL *)out->data + o * outputs * inner, data_of(args[1]),
                       weight, taps, outputs, inputs, inner);
    END
    Py_RETURN_TRUE;
}
