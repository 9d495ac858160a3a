/* Optional kernels: loops over memory that NumPy can only do in several passes, each in one; threads that share large
 * loops; and stand-ins for NumPy's own functions of elements, whose calls take longer than small arrays do.
 *
 * Every function takes NumPy arrays that the caller has made, writes into the last ones, and returns True; or False,
 * with nothing written, where the arrays are not plain memory of the types it knows. Stand-ins make their result, and
 * call the function they stand for where they do not know the arrays; views, reductions and sums of terms give None instead. The kernels in NumPy are the source of truth:
 * results agree with theirs up to rounding. Nothing here knows tensors or operators.
 *
 * Arrays are read by the layout of their structure, which NumPy has kept since 1.7; `setup` compares it with the buffer
 * protocol on a sample and refuses where they differ, so no NumPy header is needed to build.
 *
 * The parts are one unit, so that the compiler sees through all of them; each needs those above it alone.
 */
#include "loops.h"
#include "threads.h"
#include "arguments.h"
#include "arrays.h"
#include "views.h"
#include "result_layout.h"

/* Products and sums may be fused into one rounding from here on. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif
#include "functions.h"
#include "elementwise.h"
#include "arithmetic.h"
#include "rows.h"
#include "reductions.h"
#include "minmax.h"
#include "gather_scatter.h"
#include "grid_sample.h"
#include "values.h"
#include "glu.h"
#include "products.h"
#include "index_axis.h"
#include "shapes.h"
#define REAL float
#define KIND F32
#define NAMED(NAME) NAME##_f32
#include "reals.h"
#undef REAL
#undef KIND
#undef NAMED
#define REAL double
#define KIND F64
#define NAMED(NAME) NAME##_f64
#include "reals.h"

/* A function that goes by the dtype of one of its arrays. */
#define EITHER(NAME, PLACE)                                                                                            \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        int twofold = count > PLACE && plain(args[PLACE], F64, 0);                                                     \
        return twofold ? NAME##_f64(module, args, count) : NAME##_f32(module, args, count);                            \
    }
EITHER(sum_columns, 0)
EITHER(layer_norm, 0)
EITHER(layer_norm_backward, 0)
EITHER(channel_moments, 0)
EITHER(channel_affine, 0)
EITHER(channel_products, 0)
EITHER(channel_mix, 0)
EITHER(batch_norm, 0)
EITHER(max_pool, 4)
EITHER(max_unpool, 0)
EITHER(avg_pool, 4)
EITHER(avg_pool_backward, 4)
EITHER(nll_loss_sum, 0)
EITHER(nll_loss, 0)
EITHER(nll_loss_grad, 0)
EITHER(map_axis, 0)
EITHER(convolve, 4)
EITHER(conv_direct, 0)
EITHER(conv_weight_grad, 0)
EITHER(attention_weights, 0)
EITHER(attention_weights_backward, 0)
EITHER(attention, 0)

#include "sort.h"
#include "cat.h"
#include "recurrent.h"
#include "packed_matmul.h"
#include "depthwise.h"

/* Sums of products, steps of optimizers and random numbers round after every operation. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#include "fused_pointwise.h"
#include "losses.h"
#include "optimizers.h"
#include "random.h"
#include "distributions.h"

static const struct {
    const char *name;
    PyObject **function;
} borrowed[] = {
    {"exp", &numpy_exp}, {"tanh", &numpy_tanh}, {"add", &numpy_add},
    {"subtract", &numpy_subtract}, {"multiply", &numpy_multiply}, {"divide", &numpy_divide}, {"equal", &numpy_equal},
    {"not_equal", &numpy_not_equal}, {"less", &numpy_less}, {"less_equal", &numpy_less_equal},
    {"greater", &numpy_greater}, {"greater_equal", &numpy_greater_equal}, {"maximum", &numpy_maximum},
    {"minimum", &numpy_minimum}, {"negative", &numpy_negative}, {"absolute", &numpy_absolute}, {"sqrt", &numpy_sqrt_},
    {"square", &numpy_square}, {"reciprocal", &numpy_reciprocal}, {"matmul", &numpy_matmul},
};

/* Whether NumPy's table of functions makes an array like the sample, and a view of it. */
static int find_functions(PyObject *table, PyObject *sample) {
    void **functions = PyCapsule_GetPointer(table, NULL); /* NumPy gives its tables no name */
    if (!functions) return -1;
    new_like = (NewLike)functions[NEW_LIKE];
    copy_into = (CopyInto)functions[COPY_INTO];
    from_descr = (FromDescr)functions[FROM_DESCR];
    set_base = (SetBase)functions[SET_BASE];
    Array *a = (Array *)sample;
    PyObject *made = new_like(sample, KEEP_ORDER, NULL, 0), *view = view_of(sample, a->nd, a->dimensions, a->strides);
    int fits = made && view ? 1 : -1;
    if (fits > 0)
        fits = Py_TYPE(made) == Py_TYPE(sample) && ((Array *)made)->descr == a->descr && of_one_shape(made, sample) &&
               ((Array *)view)->base == sample && ((Array *)view)->data == a->data && of_one_shape(view, sample);
    Py_XDECREF(made);
    Py_XDECREF(view);
    return fits;
}

/* Whether a writable (2, 3) array of float32, whose dtype that is, is laid out as assumed; -1 for an error. */
static int is_laid_out_as_assumed(PyObject *sample, PyObject *descr) {
    Py_buffer view;
    if (PyObject_GetBuffer(sample, &view, PyBUF_RECORDS) < 0) return -1;
    Array *a = (Array *)sample;
    int flags = CONTIGUOUS | ALIGNED | WRITEABLE;
    int fits = Py_TYPE(sample)->tp_basicsize >= (Py_ssize_t)sizeof(Array) && a->data == view.buf && a->nd == 2 &&
               view.ndim == 2 && a->dimensions[0] == view.shape[0] && a->dimensions[1] == view.shape[1] &&
               a->strides[0] == view.strides[0] && a->strides[1] == view.strides[1] && a->descr == descr &&
               (a->flags & flags) == flags;
    PyBuffer_Release(&view);
    return fits;
}

/* What is kept of NumPy and of names; -1 for an error. */
static int keep_names(PyObject *numpy) {
    for (size_t i = 0; i < sizeof borrowed / sizeof *borrowed; i++) {
        PyObject *function = PyObject_GetAttrString(numpy, borrowed[i].name);
        if (!function) return -1;
        Py_XSETREF(*borrowed[i].function, function);
    }
    out_name = PyUnicode_InternFromString("out");
    copy_name = PyUnicode_InternFromString("copy");
    out_names = out_name ? PyTuple_Pack(1, out_name) : NULL;
    array_dot = PyObject_GetAttrString((PyObject *)array_type, "dot");
    return out_names && copy_name && array_dot ? 0 : -1;
}

/* setup(sample, numpy, table, dtypes of float64, int64, float16, bfloat16, bool, int32): whether arrays are laid out as
 * assumed; sample is a writable (2, 3) array of float32, table what NumPy keeps its functions for C in. Until it has said so
 * no function takes an array, and afterwards nothing changes it. */
static PyObject *setup(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (array_type) Py_RETURN_TRUE;
    if (count != 9) Py_RETURN_FALSE;
    PyObject *descr = PyObject_GetAttrString(args[0], "dtype");
    if (!descr) return NULL;
    int fits = is_laid_out_as_assumed(args[0], descr);
    if (fits > 0) {
        array_type = Py_TYPE(args[0]);
        fits = find_functions(args[2], args[0]);
        if (fits > 0 && keep_names(args[1]) < 0) fits = -1;
    }
    if (fits <= 0) {
        array_type = NULL;
        Py_DECREF(descr);
        return fits < 0 ? NULL : Py_NewRef(Py_False);
    }
    half_instructions = has_half_instructions();
    F32 = descr;
    PyObject **dtypes[] = {&F64, &I64, &F16, &BF16, &BOOL, &I32};
    for (int i = 0; i < 6; i++) *dtypes[i] = Py_NewRef(args[3 + i]);
    Py_RETURN_TRUE;
}

/* set_threads(n) */
static PyObject *set_threads(PyObject *module, PyObject *number) {
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    use_threads(n);
    Py_RETURN_NONE;
}

#define METHOD(NAME, FUNCTION) {NAME, (PyCFunction)(void (*)(void))FUNCTION, METH_FASTCALL, NULL}

#define PAIR(NAME)                                                                                                     \
    {#NAME, (PyCFunction)(void (*)(void))NAME, METH_FASTCALL | METH_KEYWORDS, #NAME "(x, y, /, out=None)\n--\n\n"}

#define STAND_IN(NAME, FUNCTION)                                                                                       \
    {NAME, (PyCFunction)(void (*)(void))FUNCTION, METH_FASTCALL | METH_KEYWORDS, NAME "(x, /, out=None)\n--\n\n"}

static PyMethodDef methods[] = {
    METHOD("setup", setup),
    {"set_threads", set_threads, METH_O, NULL},
    STAND_IN("exp", exp_),
    STAND_IN("tanh", tanh_),
    PAIR(add),
    PAIR(subtract),
    PAIR(multiply),
    PAIR(divide),
    PAIR(equal),
    PAIR(not_equal),
    PAIR(less),
    PAIR(less_equal),
    PAIR(greater),
    PAIR(greater_equal),
    PAIR(maximum),
    PAIR(minimum),
    STAND_IN("negative", negative),
    STAND_IN("absolute", absolute),
    STAND_IN("sqrt", sqrt_),
    STAND_IN("square", square),
    STAND_IN("reciprocal", reciprocal),
    {"row_major", is_row_major, METH_O, NULL},
    {"lay_out_by", lay_out_by, METH_O, NULL},
    METHOD("settle", settle),
    METHOD("expand", expand),
    METHOD("reshape", reshape),
    METHOD("look", look),
    METHOD("stride", stride),
    METHOD("swap", swap),
    {"turn", turn, METH_O, NULL},
    METHOD("unsqueeze", unsqueeze),
    METHOD("sigmoid", sigmoid),
    METHOD("gelu", gelu),
    METHOD("gelu_tanh", gelu_tanh),
    METHOD("silu", silu),
    METHOD("relu", relu),
    METHOD("sign", sign),
    METHOD("rsqrt", rsqrt),
    METHOD("hardswish", hardswish),
    METHOD("log_sigmoid", log_sigmoid),
    METHOD("mish", mish),
    METHOD("erf", erf_),
    METHOD("erfc", erfc_),
    METHOD("ndtr", ndtr),
    METHOD("gelu_backward", gelu_backward),
    METHOD("gelu_tanh_backward", gelu_tanh_backward),
    METHOD("sum_rows", sum_rows),
    METHOD("sum_columns", sum_columns),
    METHOD("add_up", add_up),
    METHOD("softmax", softmax),
    METHOD("log_softmax", log_softmax),
    METHOD("softmax_backward", softmax_backward),
    METHOD("log_softmax_backward", log_softmax_backward),
    METHOD("attention", attention),
    METHOD("attention_weights", attention_weights),
    METHOD("attention_weights_backward", attention_weights_backward),
    METHOD("layer_norm", layer_norm),
    METHOD("layer_norm_backward", layer_norm_backward),
    METHOD("channel_moments", channel_moments),
    METHOD("channel_affine", channel_affine),
    METHOD("channel_products", channel_products),
    METHOD("channel_mix", channel_mix),
    METHOD("batch_norm", batch_norm),
    METHOD("max_pool", max_pool),
    METHOD("max_unpool", max_unpool),
    METHOD("avg_pool", avg_pool),
    METHOD("avg_pool_backward", avg_pool_backward),
    METHOD("cumsum", cumsum),
    METHOD("cumprod", cumprod),
    METHOD("running_extremes", running_extremes),
    METHOD("ordered", ordered),
    METHOD("ranked", ranked),
    METHOD("triangle", triangle),
    METHOD("swap_in_turn", swap_in_turn),
    METHOD("seed_words", seed_words),
    METHOD("random_words", random_words),
    METHOD("random_below", random_below),
    METHOD("random_order", random_order),
    METHOD("random_normals", random_normals),
    METHOD("random_uniforms", random_uniforms),
    METHOD("random_coins", random_coins),
    METHOD("random_coins_of", random_coins_of),
    METHOD("random_waits", random_waits),
    METHOD("random_whole", random_whole),
    METHOD("new_normals", new_normals),
    METHOD("new_uniforms", new_uniforms),
    METHOD("new_below", new_below),
    METHOD("draw_from", draw_from),
    METHOD("stretch", stretch),
    METHOD("normals", normals),
    METHOD("length", length),
    METHOD("running_sum", running_sum),
    METHOD("log_sum_exp", log_sum_exp),
    METHOD("variance", variance),
    METHOD("multiply_up", multiply_up),
    METHOD("extreme", extreme),
    METHOD("extreme_rows", extreme_rows),
    METHOD("extreme_and_place", extreme_and_place),
    METHOD("inside", inside),
    METHOD("nonzero", nonzero),
    METHOD("chosen", chosen),
    METHOD("same", same),
    METHOD("glu", glu),
    METHOD("prelu", prelu),
    METHOD("isin", isin),
    METHOD("x_log_y", x_log_y),
    METHOD("binary_losses", binary_losses),
    METHOD("take_along_axis", take_along_axis),
    METHOD("put_along_axis", put_along_axis),
    METHOD("put_slices", put_slices),
    METHOD("product", product),
    METHOD("times", times),
    METHOD("add_product", add_product),
    METHOD("ignore_flags", ignore_flags),
    METHOD("filled", filled),
    METHOD("converted", converted),
    METHOD("put", put),
    METHOD("gather", gather),
    METHOD("index_add", index_add),
    METHOD("add_rows", add_rows),
    METHOD("add_sampled", add_sampled),
    METHOD("sample", sample),
    METHOD("nll_loss_sum", nll_loss_sum),
    METHOD("nll_loss", nll_loss),
    METHOD("nll_loss_grad", nll_loss_grad),
    METHOD("roll", roll),
    METHOD("clear", clear),
    METHOD("map_axis", map_axis),
    METHOD("convolve", convolve),
    METHOD("conv_direct", conv_direct),
    METHOD("conv_weight_grad", conv_weight_grad),
    METHOD("cat", cat),
    METHOD("stack", stack),
    METHOD("line_up", line_up),
    METHOD("lay_out", lay_out),
    METHOD("lstm_step", lstm_step),
    METHOD("gru_step", gru_step),
    METHOD("pack", pack),
    METHOD("times_packed", times_packed),
    METHOD("depthwise", depthwise),
    METHOD("add_scaled", add_scaled),
    METHOD("addcmul", addcmul),
    METHOD("addcdiv", addcdiv),
    METHOD("lerp", lerp),
    METHOD("linspace", linspace),
    METHOD("threshold", threshold),
    METHOD("threshold_backward", threshold_backward),
    METHOD("leaky_relu", leaky_relu),
    METHOD("leaky_relu_backward", leaky_relu_backward),
    METHOD("hardtanh", hardtanh),
    METHOD("hardtanh_backward", hardtanh_backward),
    METHOD("hardsigmoid", hardsigmoid),
    METHOD("hardsigmoid_backward", hardsigmoid_backward),
    METHOD("hardswish_backward", hardswish_backward),
    METHOD("hardshrink", hardshrink),
    METHOD("hardshrink_backward", hardshrink_backward),
    METHOD("softshrink", softshrink),
    METHOD("elu", elu),
    METHOD("cube", cube),
    METHOD("frac", frac),
    METHOD("bent", bent),
    METHOD("elu_slope", elu_slope),
    METHOD("softplus", softplus),
    METHOD("softplus_backward", softplus_backward),
    METHOD("log_sigmoid_backward", log_sigmoid_backward),
    METHOD("silu_backward", silu_backward),
    METHOD("sigmoid_backward", sigmoid_backward),
    METHOD("tanh_backward", tanh_backward),
    METHOD("binary_slope", binary_slope),
    METHOD("adam", adam),
    METHOD("sgd", sgd),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", "Optional compiled kernels.", -1, methods};

PyMODINIT_FUNC PyInit__kernels(void) {
    /* What stands for a function of NumPy calls None, which is a TypeError, where nothing was set up. */
    for (size_t i = 0; i < sizeof borrowed / sizeof *borrowed; i++) *borrowed[i].function = Py_NewRef(Py_None);
#ifdef POOL
    pthread_atfork(NULL, NULL, forget_threads);
#endif
    PyObject *module = PyModule_Create(&definition);
    if (module && add_laid(module) < 0) Py_CLEAR(module);
    return module;
}
