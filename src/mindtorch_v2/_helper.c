/* The recorder's hot paths in C: rows of ops, Python functions, allocations and frees, written to the same columns that
   the Python recorder fills; and the making of tensors, views and nodes. It is optional: without it `_tap`, `autograd` and
   `profiler` do the same in Python, only slower. Everything here runs with the interpreter lock held.

   The parts are one unit, so that the compiler sees through all of them; each needs those above it alone. */
#include "_native/helper/given.h"
#include "_native/helper/tracing.h"
#include "_native/helper/clock.h"
#include "_native/helper/tables.h"
#include "_native/helper/lanes.h"
#include "_native/helper/stacks.h"
#include "_native/helper/tensors.h"
#include "_native/helper/graph.h"
#include "_native/helper/inputs.h"
#include "_native/helper/ops.h"
#include "_native/helper/backward.h"
#include "_native/helper/modules.h"
#include "_native/helper/storage.h"
#include "_native/helper/performing.h"
#include "_native/helper/inside.h"
#include "_native/helper/sightings.h"
#include "_native/helper/calls.h"
#include "_native/helper/readers.h"
#include "_native/helper/indices.h"
#include "_native/helper/operators.h"

static int add_types(PyObject *module) {
    PyObject *lane = PyType_FromSpec(&lane_spec), *storage = PyType_FromSpec(&storage_spec);
    PyObject *sightings = PyType_FromSpec(&sightings_spec);
    PyObject *bases = storage ? PyTuple_Pack(1, storage) : NULL;
    PyObject *counted = bases ? PyType_FromSpecWithBases(&counted_spec, bases) : NULL;
    given.counted = (PyTypeObject *)counted, given.storage = (PyTypeObject *)storage;
    operator_type = (PyTypeObject *)PyType_FromSpec(&operator_spec);
    inside.type = (PyTypeObject *)PyType_FromSpec(&inside_spec);
    PyObject *extents = PyType_FromSpecWithBases(&extents_spec, (PyObject *)&PyTuple_Type);
    open_name = PyUnicode_InternFromString("open"), root_name = PyUnicode_InternFromString("root");
    forward_name = PyUnicode_InternFromString("forward");
    int failed = !lane || !counted || !sightings || !operator_type || !inside.type || !open_name || !root_name || !forward_name ||
                 !extents || PyModule_AddObjectRef(module, "Extents", extents) < 0 ||
                 PyModule_AddObjectRef(module, "Lane", lane) < 0 ||
                 PyModule_AddObjectRef(module, "Storage", storage) < 0 ||
                 PyModule_AddObjectRef(module, "Sightings", sightings) < 0 ||
                 PyModule_AddObjectRef(module, "CountedStorage", counted) < 0;
    Py_XDECREF(lane);
    Py_XDECREF(storage);
    Py_XDECREF(bases);
    Py_XDECREF(extents);
    Py_XDECREF(sightings);
    return failed ? -1 : 0;
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
        if ((given.node_offsets[i] = slot_offset(v[6], node_slots[i])) < 0)
            return NULL;
    struct {
        PyObject *type;
        const char *name;
        Py_ssize_t *offset;
    } slots[] = {{v[3], "_a", &given.array_offset},      {v[3], "_ag", &given.graph_offset},
                 {v[3], "_v", &given.storage_offset},    {v[3], "_view", &given.view_offset},
                 {v[7], "base", &given.base_offset},     {v[7], "version", &given.version_offset},
                 {v[7], "replay", &given.replay_offset}, {v[10], "array", &given.leaf_array_offset},
                 {v[11], "node", &given.output_node_offset},
                 {v[11], "nr", &given.output_number_offset}, {v[10], "grad", &engine.grad_offset}};
    for (int i = 0; i < 11; i++)
        if ((*slots[i].offset = slot_offset(slots[i].type, slots[i].name)) < 0)
            return NULL;
    if (!inputs.held && !(inputs.held = PyList_New(0)))
        return NULL;
    for (int i = 0; i < 14; i++)
        Py_INCREF(v[i]); /* for good: there is one of each */
    given.make_lane = v[0], given.inputs_id = v[1], given.constants = v[2];
    given.tensor = (PyTypeObject *)v[3], given.parameter = (PyTypeObject *)v[4], ndarray = (PyTypeObject *)v[5];
    given.view = (PyTypeObject *)v[7], given.composed = v[8], given.view_version = v[9];
    given.live = v[13], given.leaf = (PyTypeObject *)v[10], given.output = (PyTypeObject *)v[11], given.unwatched = (PyTypeObject *)v[12];
    Py_RETURN_NONE;
}

static PyObject *connect_frames(PyObject *module, PyObject *args) {
    PyObject *code_kind, *builtin;
    if (!PyArg_ParseTuple(args, "OO", &code_kind, &builtin))
        return NULL;
    Py_XSETREF(given.code_kind, Py_NewRef(code_kind));
    Py_XSETREF(given.builtin_kind, Py_NewRef(builtin));
    Py_RETURN_NONE;
}

static PyObject *set_clock(PyObject *module, PyObject *clock) {
    PyObject *old = given.clock;
    given.clock = clock == Py_None ? NULL : Py_NewRef(clock);
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
    {"wrap_counted", wrap_counted, METH_O, "The same, its allocation counted."},
    {"count_edges", count_edges, METH_O, "How many edges lead to each node that can be reached from some."},
    {"pass_on", (PyCFunction)(void (*)(void))pass_on, METH_FASTCALL, "Hand the results of a node on along its edges."},
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL, "Run the nodes of a backward pass that are ready."},
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
    {"hush", hush, METH_NOARGS, "Trace nothing on this thread until `speak`."},
    {"speak", speak, METH_NOARGS, "Trace again."},
    {"aloud", (PyCFunction)(void (*)(void))aloud, METH_FASTCALL, "Call a function, traced also where nothing is traced."},
    {"quietly", (PyCFunction)(void (*)(void))quietly, METH_FASTCALL, "Call a function untraced."},
    {"set_grad", set_grad, METH_O, "Switch grad mode."},
    {"set_inference", (PyCFunction)(void (*)(void))set_inference, METH_FASTCALL, "Switch inference mode."},
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
