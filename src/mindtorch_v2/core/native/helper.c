/* The recorder's hot paths in C: rows of ops, Python functions, allocations and frees, written to the same columns that
   the Python recorder fills; and the making of tensors, views and nodes. It is optional: without it `tap`, `autograd` and
   `profiler` do the same in Python, only slower. Everything here runs with the interpreter lock held.

   The parts are one unit, so that the compiler sees through all of them; each needs those above it alone. */
#include "state.h"
#include "tracing.h"
#include "clock.h"
#include "tables.h"
#include "lanes.h"
#include "stacks.h"
#include "tensors.h"
#include "graph.h"
#include "inputs.h"
#include "ops.h"
#include "mode_exit.h"
#include "backward.h"
#include "modules.h"
#include "storage.h"
#include "performing.h"
#include "inside.h"
#include "memory_roles.h"
#include "calls.h"
#include "readers.h"
#include "result_layout.h"
#include "indices.h"
#include "operators.h"

/* Makes a class and puts it into the module, unless the module shall not name it; NULL with an exception set. */
static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base, const char *name) {
    PyObject *type = PyType_FromSpecWithBases(spec, (PyObject *)base);
    if (type && name && PyModule_AddObjectRef(module, name, type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int add_types(PyObject *module) {
    struct {
        PyTypeObject **place;
        PyType_Spec *spec;
        PyTypeObject **base;
        const char *name;
    } types[] = {{&lane_type, &lane_spec, NULL, "Lane"},
                 {&keeper_type, &keeper_spec, NULL, "Keeper"},
                 {&memory_roles_type, &memory_roles_spec, NULL, "MemoryRoles"},
                 {&globals.storage, &storage_spec, NULL, "Storage"},
                 {&globals.counted, &counted_spec, &globals.storage, "CountedStorage"},
                 {&extents_type, &extents_spec, &tuple_type, "Extents"},
                 {&operator_type, &operator_spec, NULL, NULL},
                 {&inside.type, &inside_spec, NULL, NULL}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (!(*types[i].place = add_type(module, types[i].spec, types[i].base ? *types[i].base : NULL, types[i].name)))
            return -1;
    struct {
        PyObject **place;
        const char *text;
    } names[] = {{&open_name, "open"}, {&root_name, "root"}, {&forward_name, "forward"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!(*names[i].place = PyUnicode_InternFromString(names[i].text)))
            return -1;
    return 0;
}

static PyObject *connect(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"make_lane", "inputs_id", "constants", "tensor",       "parameter", "ndarray",
                            "node",      "view",      "composed",  "view_version", "leaf",      "output",
                            "unwatched", "live",      NULL};
    static const char *node_slots[] = {"edges", "saved", "seq", "shape", "dtype", "hooks"};
    PyObject *v[14];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!OOOOOOOOOOO", names, v, v + 1, &PyTuple_Type, v + 2, v + 3, v + 4, v + 5,
                                     v + 6, v + 7, v + 8, v + 9, v + 10, v + 11, v + 12, v + 13))
        return NULL;
    for (int i = 0; i < 6; i++)
        if ((globals.node_offsets[i] = slot_offset(v[6], node_slots[i])) < 0)
            return NULL;
    struct {
        PyObject *type;
        const char *name;
        Py_ssize_t *offset;
    } slots[] = {{v[3], "_a", &globals.array_offset},      {v[3], "_ag", &globals.graph_offset},
                 {v[3], "_v", &globals.storage_offset},    {v[3], "_view", &globals.view_offset},
                 {v[7], "base", &globals.base_offset},     {v[7], "version", &globals.version_offset},
                 {v[7], "replay", &globals.replay_offset}, {v[10], "array", &globals.leaf_array_offset},
                 {v[11], "node", &globals.output_node_offset},
                 {v[11], "nr", &globals.output_number_offset}, {v[10], "grad", &engine.grad_offset}};
    for (int i = 0; i < 11; i++)
        if ((*slots[i].offset = slot_offset(slots[i].type, slots[i].name)) < 0)
            return NULL;
    if (!inputs.held && !(inputs.held = PyList_New(0)))
        return NULL;
    for (int i = 0; i < 14; i++)
        Py_INCREF(v[i]); /* for good: there is one of each */
    globals.make_lane = v[0], globals.inputs_id = v[1], globals.constants = v[2];
    globals.tensor = (PyTypeObject *)v[3], globals.parameter = (PyTypeObject *)v[4], ndarray = (PyTypeObject *)v[5];
    globals.node = (PyTypeObject *)v[6], globals.view = (PyTypeObject *)v[7], globals.composed = v[8], globals.view_version = v[9];
    globals.live = v[13], globals.leaf = (PyTypeObject *)v[10], globals.output = (PyTypeObject *)v[11], globals.unwatched = (PyTypeObject *)v[12];
    Py_RETURN_NONE;
}

static PyObject *connect_frames(PyObject *module, PyObject *args) {
    PyObject *code_kind, *builtin;
    if (!PyArg_ParseTuple(args, "OO", &code_kind, &builtin))
        return NULL;
    Py_XSETREF(globals.code_kind, Py_NewRef(code_kind));
    Py_XSETREF(globals.builtin_kind, Py_NewRef(builtin));
    Py_RETURN_NONE;
}

static PyObject *set_clock(PyObject *module, PyObject *clock) {
    PyObject *old = globals.clock;
    globals.clock = clock == Py_None ? NULL : Py_NewRef(clock);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *use_counter(PyObject *module, PyObject *unused) {
#if defined(__x86_64__)
    start_tsc();
    Py_RETURN_TRUE;
#else
    Py_RETURN_FALSE;
#endif
}

static PyMethodDef functions[] = {
    {"clock", clock_now, METH_NOARGS, "Now, in nanoseconds."},
    {"set_clock", set_clock, METH_O, "Use another clock, a callable; None goes back to the own one."},
    {"use_counter", use_counter, METH_NOARGS, "Read the clock through the CPU's time stamp counter, where it has one."},
    {"adopt", adopt, METH_O, "Make a lane the calling thread's own; None takes it away."},
    {"node", (PyCFunction)(void (*)(void))node, METH_FASTCALL, "The autograd node of a call."},
    {"wrap", wrap, METH_O, "A plain tensor on a new array."},
    {"lay", (PyCFunction)(void (*)(void))lay, METH_FASTCALL, "An op's result as a rule lays it out in memory."},
    {"connect_plain", connect_plain, METH_O, "Hand over what puts an array into row-major order."},
    {"lay_plain", lay_plain, METH_O, "An op's result in row-major order."},
    {"wrap_plain", wrap_plain, METH_O, "The same in a plain tensor."},
    {"wrap_laid", (PyCFunction)(void (*)(void))wrap_laid, METH_FASTCALL, "The same in a plain tensor."},
    {"wrap_counted", wrap_counted, METH_O, "The same, its allocation counted."},
    {"count_edges", count_edges, METH_O, "How many edges lead to each node that can be reached from some."},
    {"pass_on", (PyCFunction)(void (*)(void))pass_on, METH_FASTCALL, "Hand the results of a node on along its edges."},
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL, "Run the nodes of a backward pass that are ready."},
    {"keep_grad", (PyCFunction)(void (*)(void))keep_grad, METH_FASTCALL, "Give a leaf its first gradient."},
    {"connect_detach", connect_detach, METH_O, "Hand over the event that a leaf has as it keeps a gradient."},
    {"connect_engine", connect_engine, METH_VARARGS, "Hand over what a backward pass looks at."},
    {"all_plain", all_plain, METH_O, "Whether something is a list or tuple of plain tensors."},
    {"watched", watched, METH_O, "Whether one of these may take part in a graph."},
    {"live", live, METH_O, "The present place of a view in the graph."},
    {"look", (PyCFunction)(void (*)(void))look, METH_FASTCALL, "A tensor on a view of another's memory."},
    {"look_at_parts", (PyCFunction)(void (*)(void))look_at_parts, METH_FASTCALL, "Tensors on several views of another's memory."},
    {"attach", (PyCFunction)(void (*)(void))attach, METH_FASTCALL, "Make tensors the outputs of a node."},
    {"begin", begin, METH_O, "An op begins, with this sequence number."},
    {"begin_with", (PyCFunction)(void (*)(void))begin_with, METH_FASTCALL, "An op begins: sequence number, then inputs."},
    {"end", end, METH_O, "The op that began last ends; it was this event."},
    {"enter", (PyCFunction)(void (*)(void))enter_node, METH_FASTCALL, "Begin the region of an autograd node."},
    {"operator", operator_new, METH_O, "A method for the interpreter's operators, which passes on to a function."},
    {"reader", reader_new, METH_VARARGS, "The same for an attribute, by its name: plain tensors need no call."},
    {"writer", writer_new, METH_VARARGS, "The same for what sets an attribute."},
    {"address", address, METH_O, "Where the first element of an array lies."},
    {"split_index", (PyCFunction)(void (*)(void))split_index, METH_FASTCALL, "What an index means to NumPy, in two steps."},
    {"connect_indices", connect_indices, METH_VARARGS, "Hand over the dtypes of indices."},
    {"connect_readers", connect_readers, METH_VARARGS, "Hand over what attributes are made of."},
    {"call_module", (PyCFunction)(void (*)(void))call_module, METH_FASTCALL, "Forward of an nn.Module in its region."},
    {"open_region", (PyCFunction)(void (*)(void))open_region, METH_FASTCALL, "Begin a region that is no op."},
    {"close_region", (PyCFunction)(void (*)(void))close_region, METH_FASTCALL, "End it."},
    {"connect_modules", connect_modules, METH_VARARGS, "Hand over what names modules and chains of them."},
    {"suspend_tracing", suspend_tracing, METH_NOARGS, "Trace nothing on this thread until `resume_tracing`."},
    {"resume_tracing", resume_tracing, METH_NOARGS, "Trace again."},
    {"call_traced", (PyCFunction)(void (*)(void))call_traced, METH_FASTCALL, "Call a function, traced also where nothing is traced."},
    {"call_untraced", (PyCFunction)(void (*)(void))call_untraced, METH_FASTCALL, "Call a function untraced."},
    {"set_grad", set_grad, METH_O, "Switch grad mode."},
    {"set_inference", set_inference, METH_O, "Switch inference mode."},
    {"leaving", leaving, METH_VARARGS, "The __exit__ of a context manager, in C."},
    {"connect_modes", connect_modes, METH_VARARGS, "Hand over the ContextVars of grad and inference mode."},
    {"stack", stack_here, METH_NOARGS, "The interned id of the calling thread's Python stack."},
    {"connect_stacks", connect_stacks, METH_O, "Forget the ids of stacks; keys of those to come go into this list."},
    {"inside", inside_new, METH_VARARGS, "An op as it is run inside of another one."},
    {"connect_inside", connect_inside, METH_VARARGS, "Hand over what ops inside of others need."},
    {"without_graph", (PyCFunction)(void (*)(void))without_graph, METH_FASTCALL, "Call a function while no graph is built."},
    {"perform", perform, METH_VARARGS, "Ops on many tensors one after another, each recorded."},
    {"count", count, METH_O, "The counted storage token of a new array."},
    {"trace", trace, METH_O, "Time Python functions on the calling thread into a lane."},
    {"untrace", untrace, METH_O, "Time them no longer."},
    {"connect", (PyCFunction)(void (*)(void))connect, METH_VARARGS | METH_KEYWORDS, "Hand over what ops need."},
    {"connect_frames", connect_frames, METH_VARARGS, "Hand over what names code and builtins."},
    {"set_recording", set_recording, METH_VARARGS, "Say whether something records, and with which flags."},
    {NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_helper", "The recorder's hot paths in C.", -1, functions};

PyMODINIT_FUNC PyInit__helper(void) {
    PyObject *module = PyModule_Create(&definition);
#if defined(__x86_64__)
    read_both(&tsc.first_ticks, &tsc.first_ns);
#endif
#if defined(RAW_FRAMES)
    int unseen = 1;
#else
    int unseen = 0;
#endif
    if (module && (add_types(module) < 0 || PyModule_AddObjectRef(module, "OPS_ARE_UNSEEN", unseen ? Py_True : Py_False) < 0))
        Py_CLEAR(module);
    return module;
}
