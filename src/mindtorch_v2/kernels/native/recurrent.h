/* Gates of recurrent networks. */

WIDE static void lstm_loop(float *gates, const float *added, const float *before, float *cell, float *out,
                           Py_ssize_t rows, Py_ssize_t h) {
    for (Py_ssize_t r = 0; r < rows; r++, gates += 4 * h, added += 4 * h, before += h, cell += h, out += h) {
        for (int k = 0; k < 4; k++) {
            float *g = gates + k * h;
            const float *a = added + k * h;
            if (k == 2) {
                SIMD for (Py_ssize_t i = 0; i < h; i++) g[i] = tanh_of(g[i] + a[i]);
            } else {
                SIMD for (Py_ssize_t i = 0; i < h; i++) g[i] = 0.5f * tanh_of(g[i] + a[i]) + 0.5f;
            }
        }
        SIMD for (Py_ssize_t i = 0; i < h; i++) {
            cell[i] = gates[h + i] * before[i] + gates[i] * gates[2 * h + i];
            out[i] = tanh_of(cell[i]) * gates[3 * h + i];
        }
    }
}

/* lstm_step(gates, added, cell before, cell, out): gates of input, forget and output come at half their size. */
static PyObject *lstm_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !writable(args[0], F32) || !readable(args[1], F32) || !readable(args[2], F32) ||
        !writable(args[3], F32) || !writable(args[4], F32))
        Py_RETURN_FALSE;
    Py_ssize_t h = last_of(args[3]), total = count_of(args[3]);
    if (total == 0 || count_of(args[0]) != 4 * total || count_of(args[1]) != 4 * total ||
        count_of(args[2]) != total || count_of(args[4]) != total)
        Py_RETURN_FALSE;
    BEGIN(total)
    lstm_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(args[3]), data_of(args[4]), total / h, h);
    END
    Py_RETURN_TRUE;
}

WIDE static void gru_loop(float *gates, const float *added, const float *bias, const float *before, float *inner,
                          float *out, Py_ssize_t rows, Py_ssize_t h) {
    for (Py_ssize_t r = 0; r < rows; r++, gates += 3 * h, added += 3 * h, before += h, inner += h, out += h) {
        float *fresh = gates + 2 * h;
        SIMD for (Py_ssize_t i = 0; i < 2 * h; i++) gates[i] = 1.0f / (1.0f + exp_of(gates[i] + added[i]));
        if (bias) {
            SIMD for (Py_ssize_t i = 0; i < h; i++) inner[i] = added[2 * h + i] + bias[i];
        } else {
            memcpy(inner, added + 2 * h, h * sizeof(float));
        }
        SIMD for (Py_ssize_t i = 0; i < h; i++) {
            fresh[i] = tanh_of(fresh[i] + gates[i] * inner[i]);
            out[i] = (before[i] - fresh[i]) * gates[h + i] + fresh[i];
        }
    }
}

/* gru_step(gates, added, bias | None, state before, inner, out): gates of reset and keep come with the sign changed. */
static PyObject *gru_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 6 || !writable(args[0], F32) || !readable(args[1], F32) || !readable(args[3], F32) ||
        !writable(args[4], F32) || !writable(args[5], F32))
        Py_RETURN_FALSE;
    Py_ssize_t h = last_of(args[5]), total = count_of(args[5]);
    float *bias;
    if (total == 0 || count_of(args[0]) != 3 * total || count_of(args[1]) != 3 * total ||
        count_of(args[3]) != total || count_of(args[4]) != total || !optional_f32(args[2], h, 0, &bias))
        Py_RETURN_FALSE;
    BEGIN(total)
    gru_loop(data_of(args[0]), data_of(args[1]), bias, data_of(args[3]), data_of(args[4]), data_of(args[5]), total / h,
             h);
    END
    Py_RETURN_TRUE;
}
