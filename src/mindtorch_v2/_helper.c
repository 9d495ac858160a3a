/* The recorder's hot paths in C: rows of ops, Python functions, allocations and frees, written to the same columns that
   the Python recorder fills. It is optional: without it `_tap` and `profiler` do the same in Python, only slower.
   Everything here runs with the interpreter lock held. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#if !defined(__linux__) || defined(Py_GIL_DISABLED)
#error "built for Linux and interpreters with a global lock; everywhere else the Python recorder is used"
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && __has_include(<internal/pycore_frame.h>)
#define RAW_FRAMES /* frames are read where the interpreter keeps them; elsewhere each gets an object first */
#include <internal/pycore_frame.h>
#endif

enum { SHAPES = 1, STACKS = 2, MEMORY = 4, ROW_WIDTH = 6, MARK_WIDTH = 3 };
enum { SKIPPED = 0, MUTED = -1 };

/* --- what Python puts here ---------------------------------------------------------------------------------------- */

static struct {
    PyObject *make_lane;    /* () -> the calling thread's new lane, or None when nothing records */
    PyObject *inputs_id;    /* (arguments of an op, whether it has a schema) -> id */
    PyObject *add_stack;    /* (chain of modules, frame) -> id */
    PyObject *modules;      /* dict: address of a module -> (weak reference, name, event id) */
    PyObject *meet_module;  /* (module, outermost module) -> the same for one that is not there */
    PyObject *add_chain;    /* (chain of modules, name, frames below) -> the longer chain's id */
    PyObject *code_kind;    /* code -> event id, SKIPPED or MUTED */
    PyObject *builtin_kind; /* builtin -> event id */
    PyObject *clock;        /* a clock that replaces ours, or NULL */
    PyObject *grad_mode;    /* the ContextVar */
    PyObject *constants;    /* tuple of the types whose instances never change */
    PyTypeObject *tensor, *parameter, *counted;
    Py_ssize_t array_offset, graph_offset, storage_offset, view_offset; /* the slots of a tensor */
    Py_ssize_t node_offsets[6]; /* edges, saved, seq, shape, dtype, hooks */
    PyTypeObject *storage, *view;
    Py_ssize_t base_offset, version_offset, replay_offset; /* the slots of a view */
    PyObject *composed, *view_version;
    PyTypeObject *leaf, *output;
    Py_ssize_t leaf_array_offset, output_node_offset;
    int recording, flags;
} given;

/* --- tracing, switched off for a while ------------------------------------------------------------------------------- */

static void trace_nothing(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_EnterTracing(thread);
#else
    thread->tracing++;
    thread->cframe->use_tracing = 0;
#endif
}

static void trace_again(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_LeaveTracing(thread);
#else
    thread->tracing--;
    thread->cframe->use_tracing = !thread->tracing && (thread->c_tracefunc != NULL || thread->c_profilefunc != NULL);
#endif
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static int64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)
/* CLOCK_MONOTONIC read through the time stamp counter, which takes half as long. Every 50 ms the two are compared: the
   clock is set to the true time, or where it would have to go back, its rate so that they agree 50 ms later. */
static struct {
    int usable;
    uint64_t ticks;
    int64_t ns;
    double rate; /* ns a tick */
    uint64_t first_ticks;
    int64_t first_ns;
    uint64_t interval;
} tsc;

static void read_both(uint64_t *ticks, int64_t *ns) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t before = __rdtsc();
        int64_t now = monotonic();
        uint64_t after = __rdtsc();
        if (after - before < best) {
            best = after - before;
            *ticks = before + (after - before) / 2;
            *ns = now;
        }
    }
}

static int64_t settle_tsc(void) {
    uint64_t ticks;
    int64_t ns;
    read_both(&ticks, &ns);
    double true_rate = (double)(ns - tsc.first_ns) / (double)(ticks - tsc.first_ticks);
    /* Nobody has been shown a later time than this, as later readings come here. */
    int64_t latest = tsc.ns + (int64_t)((double)tsc.interval * tsc.rate);
    int64_t ahead = latest - ns;
    if (ahead < 0 || ahead > 1000000) /* as it should be, or the machine slept */
        ahead = 0, latest = ns;
    tsc.ticks = ticks;
    tsc.ns = latest;
    tsc.rate = true_rate - (double)ahead / (double)tsc.interval;
    return latest;
}

static void start_tsc(void) {
    uint64_t ticks;
    int64_t ns;
    do {
        read_both(&ticks, &ns);
    } while (ns - tsc.first_ns < 1000000);
    tsc.rate = (double)(ns - tsc.first_ns) / (double)(ticks - tsc.first_ticks);
    tsc.interval = (uint64_t)(50e6 / tsc.rate);
    tsc.ticks = ticks;
    tsc.ns = ns;
    tsc.usable = 1;
}
#endif

static int64_t now(void) {
    if (given.clock) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback); /* a token may end while an exception is on its way */
        trace_nothing();
        PyObject *value = PyObject_CallNoArgs(given.clock);
        trace_again();
        int64_t found = value ? PyLong_AsLongLong(value) : 0;
        Py_XDECREF(value);
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(given.clock);
        PyErr_Restore(type, error, traceback);
        return found;
    }
#if defined(__x86_64__)
    if (tsc.usable) {
        uint64_t ticks = __rdtsc() - tsc.ticks;
        return ticks > tsc.interval ? settle_tsc() : tsc.ns + (int64_t)((double)ticks * tsc.rate);
    }
#endif
    return monotonic();
}

static PyObject *clock_now(PyObject *module, PyObject *unused) {
    return PyLong_FromLongLong(now());
}

/* --- growing arrays of ints ------------------------------------------------------------------------------------------ */

typedef struct {
    int64_t *data;
    Py_ssize_t used, room;
} Ints;

static int64_t *extend(Ints *ints, Py_ssize_t count) {
    if (ints->used + count > ints->room) {
        Py_ssize_t room = ints->room ? ints->room * 2 : 1024;
        int64_t *data = PyMem_RawRealloc(ints->data, room * sizeof(int64_t));
        if (!data)
            return NULL;
        ints->data = data;
        ints->room = room;
    }
    int64_t *place = ints->data + ints->used;
    ints->used += count;
    return place;
}

static PyObject *cut(Ints *ints) {
    PyObject *bytes = PyBytes_FromStringAndSize((char *)ints->data, ints->used * sizeof(int64_t));
    if (bytes) {
        ints->used = 0;
        if (ints->room > 1 << 20) { /* 8 MB: a burst need not be kept */
            PyMem_RawFree(ints->data);
            ints->data = NULL;
            ints->room = 0;
        }
    }
    return bytes;
}

/* --- lanes ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    int64_t start, seq, inputs, stack, nbytes, block;
    int hushes; /* how often tracing was switched off when it began */
} Open;

typedef struct {
    PyObject_HEAD
    Ints rows, marks, frames;
    Open *open;
    int depth, room;
    char grad, listening, tracing, fresh;
    int muted;
    long long chain;
} Lane;

static __thread Lane *current;

static Lane *lane_here(void) {
    if (!current && given.make_lane) {
        PyObject *made = PyObject_CallNoArgs(given.make_lane);
        if (!made)
            PyErr_WriteUnraisable(given.make_lane);
        Py_XDECREF(made); /* the thread holds it, and `adopt` has noted it */
    }
    return current;
}

static void put_row(Lane *lane, int64_t start, int64_t end, int64_t event, int64_t seq, int64_t inputs, int64_t stack) {
    int64_t *row = lane->listening ? extend(&lane->rows, ROW_WIDTH) : NULL;
    if (row) {
        row[0] = start, row[1] = end, row[2] = event, row[3] = seq, row[4] = inputs, row[5] = stack;
    }
}

static void put_mark(Lane *lane, int64_t time, int64_t nbytes, int64_t block) {
    int64_t *mark = lane->listening ? extend(&lane->marks, MARK_WIDTH) : NULL;
    if (mark) {
        mark[0] = time, mark[1] = nbytes, mark[2] = block;
    }
}

static void lane_dealloc(Lane *lane) {
    PyTypeObject *type = Py_TYPE(lane);
    if (current == lane)
        current = NULL;
    PyMem_RawFree(lane->rows.data);
    PyMem_RawFree(lane->marks.data);
    PyMem_RawFree(lane->frames.data);
    PyMem_RawFree(lane->open);
    type->tp_free((PyObject *)lane);
    Py_DECREF(type);
}

static PyObject *lane_take(Lane *lane, PyObject *unused) {
    PyObject *rows = cut(&lane->rows), *marks = rows ? cut(&lane->marks) : NULL;
    if (!marks) {
        Py_XDECREF(rows);
        return NULL;
    }
    return Py_BuildValue("(NN)", rows, marks);
}

static int read_ints(PyObject *row, int64_t *values, Py_ssize_t count) {
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != count) {
        PyErr_Format(PyExc_TypeError, "expected a tuple of %zd ints, got %R", count, row);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(row, i));
        if (values[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *lane_write(Lane *lane, PyObject *row) {
    int64_t v[ROW_WIDTH];
    if (read_ints(row, v, ROW_WIDTH) < 0)
        return NULL;
    put_row(lane, v[0], v[1], v[2], v[3], v[4], v[5]);
    Py_RETURN_NONE;
}

static PyObject *lane_note(Lane *lane, PyObject *mark) {
    int64_t v[MARK_WIDTH];
    if (read_ints(mark, v, MARK_WIDTH) < 0)
        return NULL;
    put_mark(lane, v[0], v[1], v[2]);
    Py_RETURN_NONE;
}

static PyObject *lane_listen(Lane *lane, PyObject *wanted) {
    int truth = PyObject_IsTrue(wanted);
    if (truth < 0)
        return NULL;
    lane->listening = truth;
    Py_RETURN_NONE;
}

static PyObject *frames_get(Lane *lane, void *unused) {
    PyObject *list = PyList_New(lane->frames.used);
    for (Py_ssize_t i = 0; list && i < lane->frames.used; i++) {
        PyObject *value = PyLong_FromLongLong(lane->frames.data[i]);
        if (!value) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, value);
    }
    return list;
}

static int frames_set(Lane *lane, PyObject *list, void *unused) {
    lane->frames.used = 0;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        int64_t value = PyLong_AsLongLong(PyList_GET_ITEM(list, i));
        if (value == -1 && PyErr_Occurred())
            return -1;
        int64_t *place = extend(&lane->frames, 1);
        if (!place) {
            PyErr_NoMemory();
            return -1;
        }
        *place = value;
    }
    return 0;
}

static PyMethodDef lane_methods[] = {
    {"take", (PyCFunction)lane_take, METH_NOARGS, "What the thread has written, rows and memory, as native 64-bit ints."},
    {"write", (PyCFunction)lane_write, METH_O, "Add the row of a region that has ended."},
    {"note", (PyCFunction)lane_note, METH_O, "Add an allocation or a free."},
    {"listen", (PyCFunction)lane_listen, METH_O, "Keep (or drop) what the thread writes from now on."},
    {NULL}};
static PyMemberDef lane_members[] = {
    {"grad", T_BOOL, offsetof(Lane, grad), 0, NULL},      {"listening", T_BOOL, offsetof(Lane, listening), 0, NULL},
    {"muted", T_INT, offsetof(Lane, muted), 0, NULL},     {"chain", T_LONGLONG, offsetof(Lane, chain), 0, NULL},
    {"tracing", T_BOOL, offsetof(Lane, tracing), 0, NULL}, {NULL}};
static PyGetSetDef lane_properties[] = {{"frames", (getter)frames_get, (setter)frames_set, NULL, NULL}, {NULL}};
static PyType_Slot lane_slots[] = {{Py_tp_dealloc, lane_dealloc},    {Py_tp_methods, lane_methods},
                                   {Py_tp_members, lane_members},    {Py_tp_getset, lane_properties},
                                   {Py_tp_new, PyType_GenericNew},   {0, NULL}};
static PyType_Spec lane_spec = {"mindtorch_v2._helper.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                lane_slots};

static PyObject *adopt(PyObject *module, PyObject *lane) {
    current = lane == Py_None ? NULL : (Lane *)lane;
    Py_RETURN_NONE;
}

/* --- stacks ------------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
}

/* Ids of sequences of ints; equal sequences have one. */
typedef struct {
    struct Slot {
        uint64_t hash;
        Py_ssize_t at, length;
        int64_t id;
    } *slots;
    size_t room, used;
    Ints pool;
} Table;

static uint64_t hash_of(const Ints *key) {
    uint64_t hash = 0;
    for (Py_ssize_t i = 0; i < key->used; i++)
        hash = mix(hash, (uint64_t)key->data[i]);
    return hash;
}

static int64_t find(const Table *table, const Ints *key, uint64_t hash) {
    for (size_t i = hash; table->room; i++) {
        struct Slot *known = &table->slots[i & (table->room - 1)];
        if (!known->id)
            break;
        if (known->hash == hash && known->length == key->used &&
            !memcmp(table->pool.data + known->at, key->data, key->used * sizeof(int64_t)))
            return known->id;
    }
    return 0;
}

static int grow(Table *table) {
    size_t room = table->room ? table->room * 2 : 1024;
    struct Slot *slots = PyMem_RawCalloc(room, sizeof(struct Slot));
    if (!slots)
        return -1;
    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].id) {
            size_t place = table->slots[i].hash & (room - 1);
            while (slots[place].id)
                place = (place + 1) & (room - 1);
            slots[place] = table->slots[i];
        }
    PyMem_RawFree(table->slots);
    table->slots = slots;
    table->room = room;
    return 0;
}

/* Without memory it is forgotten, and asked for again. */
static void keep(Table *table, const Ints *key, uint64_t hash, int64_t id) {
    if (table->used * 2 >= table->room && grow(table) < 0)
        return;
    Py_ssize_t at = table->pool.used;
    for (Py_ssize_t i = 0; i < key->used; i++) {
        int64_t *place = extend(&table->pool, 1);
        if (!place) {
            table->pool.used = at;
            return;
        }
        *place = key->data[i];
    }
    size_t slot = hash & (table->room - 1);
    while (table->slots[slot].id)
        slot = (slot + 1) & (table->room - 1);
    table->slots[slot] = (struct Slot){hash, at, key->used, id};
    table->used++;
}

static inline void put(Ints *key, int64_t value) {
    if (key->used < key->room) {
        key->data[key->used++] = value;
    } else {
        int64_t *place = extend(key, 1);
        if (place)
            *place = value;
    }
}

/* A copy of a key, for while Python code runs, which may come back here. */
static Ints copied(const Ints *key) {
    Ints copy = {PyMem_RawMalloc(key->used * sizeof(int64_t)), key->used, key->used};
    if (copy.data)
        memcpy(copy.data, key->data, key->used * sizeof(int64_t));
    else
        copy.used = 0;
    return copy;
}

/* --- stacks ------------------------------------------------------------------------------------------------------------ */

static Table stacks, chains;

static void forget(Table *table) {
    PyMem_RawFree(table->slots);
    table->slots = NULL;
    table->room = table->used = 0;
    table->pool.used = 0;
}

static PyObject *forget_stacks(PyObject *module, PyObject *unused) {
    forget(&stacks);
    forget(&chains);
    Py_RETURN_NONE;
}

static void put_frames(Ints *key) {
#if defined(RAW_FRAMES)
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous) {
        put(key, (int64_t)(intptr_t)frame->f_code);
        put(key, _PyInterpreterFrame_LASTI(frame));
    }
#else
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        put(key, (int64_t)(intptr_t)code);
#if PY_VERSION_HEX >= 0x030B0000
        put(key, PyFrame_GetLasti(frame));
#else
        put(key, frame->f_lasti);
#endif
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
#endif
}

static int64_t new_stack(Lane *lane) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    PyObject *found = frame ? PyObject_CallFunction(given.add_stack, "LO", lane->chain, frame) : NULL;
    int64_t id = found ? PyLong_AsLongLong(found) : 0;
    Py_XDECREF(frame);
    Py_XDECREF(found);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(given.add_stack);
    return id;
}

static int64_t stack_id(Lane *lane) {
    static Ints key;
    key.used = 0;
    put(&key, lane->chain);
    put_frames(&key);
    uint64_t hash = hash_of(&key);
    int64_t id = find(&stacks, &key, hash);
    if (!id) {
        Ints copy = copied(&key);
        if ((id = new_stack(lane)) && copy.used)
            keep(&stacks, &copy, hash, id);
        PyMem_RawFree(copy.data);
    }
    return id;
}

/* --- ops ---------------------------------------------------------------------------------------------------------------- */

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);
static void leave(Lane *lane);

/* What an op or the engine calls is not traced, as nothing is seen of what a C++ kernel calls. */
static PyObject *hush(PyObject *module, PyObject *unused) {
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = (Lane *)thread->c_profileobj;
    /* The tracer has seen this call, and sees neither its return nor that of `speak`. */
    if (!thread->tracing && thread->c_profilefunc == on_event && lane->tracing && !lane->muted)
        leave(lane);
#endif
    trace_nothing();
    Py_RETURN_NONE;
}

static PyObject *speak(PyObject *module, PyObject *unused) {
    trace_again();
    Py_RETURN_NONE;
}

/* A call of what belongs to the user, from where nothing is traced. */
static PyObject *aloud(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = current;
    int hushes = thread->tracing, muted = lane ? lane->muted : 0;
    if (hushes) {
        thread->tracing = 1;
        trace_again();
    }
    if (muted)
        lane->muted = 0;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, count - 1, NULL);
    if (muted && lane == current)
        lane->muted = muted;
    if (hushes) {
        trace_nothing();
        thread->tracing = hushes;
    }
    return result;
}

static int push(int64_t seq, int64_t inputs, int is_op) {
    Lane *lane = lane_here();
    if (!lane)
        return 0;
    if (lane->depth == lane->room) {
        int room = lane->room ? lane->room * 2 : 32;
        Open *open = PyMem_RawRealloc(lane->open, room * sizeof(Open));
        if (!open) {
            PyErr_NoMemory();
            return -1;
        }
        lane->open = open;
        lane->room = room;
    }
    Open *open = &lane->open[lane->depth];
    open->seq = lane->grad || !is_op ? seq : -1; /* nodes run where no graph is built, and have numbers all the same */
    open->inputs = inputs;
    open->block = 0;
    open->stack = 0;
    if (given.flags & STACKS) {
        open->hushes = PyThreadState_Get()->tracing;
        if (lane->depth && open->hushes > open[-1].hushes && open[-1].stack) {
            open->stack = open[-1].stack; /* no code of the user's lies between the two */
        } else {
            int64_t stack = lane->listening && given.add_stack ? stack_id(lane) : 0;
            open = &lane->open[lane->depth]; /* Python code may have run */
            open->stack = stack;
        }
    }
    lane->depth++;
    open->start = now();
    return 0;
}

/* What tensors on the same memory share: Storage of `_storage`, and one that reports its end. */
typedef struct {
    PyObject_HEAD
    PyObject *version, *weakrefs;
} Storage;
typedef struct {
    Storage storage;
    long long nbytes;
} Counted;

/* A plain tensor on a new array, in no graph. */
static PyObject *wrap(PyObject *module, PyObject *array) {
    PyObject *tensor = given.tensor->tp_alloc(given.tensor, 0);
    if (tensor) {
        char *slots = (char *)tensor;
        *(PyObject **)(slots + given.array_offset) = Py_NewRef(array);
        *(PyObject **)(slots + given.graph_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + given.storage_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + given.view_offset) = Py_NewRef(Py_None);
    }
    return tensor;
}

/* The version that a new view of this memory is good for. */
static PyObject *version_now(PyObject *storage) {
    if (Py_TYPE(storage) != given.storage && Py_TYPE(storage) != given.counted)
        return PyObject_CallOneArg(given.view_version, storage);
    return Py_XNewRef(((Storage *)storage)->version);
}

/* How `tensor` is a view: of what its source is a view of, or else of the source itself. */
static PyObject *view_of(PyObject *source, PyObject *tensor, PyObject *storage) {
    PyObject *outer = *(PyObject **)((char *)source + given.view_offset);
    PyTypeObject *type = outer == Py_None ? given.view : Py_TYPE(outer);
    PyObject *view = type->tp_alloc(type, 0);
    if (!view)
        return NULL;
    char *slots = (char *)view;
    PyObject *base = outer == Py_None ? source : *(PyObject **)((char *)outer + given.base_offset);
    PyObject *replay = outer == Py_None ? Py_None : *(PyObject **)((char *)outer + given.replay_offset);
    *(PyObject **)(slots + given.base_offset) = Py_NewRef(base);
    PyObject *remade = replay == Py_None ? Py_NewRef(Py_None)
                                         : PyObject_CallFunctionObjArgs(given.composed, replay, tensor, NULL);
    *(PyObject **)(slots + given.replay_offset) = remade;
    PyObject *version = *(PyObject **)(slots + given.version_offset) = version_now(storage);
    if (!remade || !version)
        Py_CLEAR(view);
    return view;
}

/* A tensor on a view (array) of another's memory; `watched`: which knows what it is a view of. */
static PyObject *look(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "expected source, array and whether it is watched, got %zd arguments", count);
    PyObject *source = args[0], *tensor = wrap(module, args[1]);
    if (!tensor)
        return NULL;
    PyObject **shared = (PyObject **)((char *)source + given.storage_offset);
    if (*shared == Py_None) {
        PyObject *storage = PyObject_CallNoArgs((PyObject *)given.storage);
        if (!storage) {
            Py_DECREF(tensor);
            return NULL;
        }
        Py_SETREF(*shared, storage);
    }
    Py_SETREF(*(PyObject **)((char *)tensor + given.storage_offset), Py_NewRef(*shared));
    if (args[2] == Py_True) {
        PyObject *view = view_of(source, tensor, *shared);
        if (!view) {
            Py_DECREF(tensor);
            return NULL;
        }
        Py_SETREF(*(PyObject **)((char *)tensor + given.view_offset), view);
    }
    return tensor;
}

/* Whether something is a list or tuple of plain tensors. */
static PyObject *all_plain(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_FALSE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (Py_TYPE(items[i]) != given.tensor && Py_TYPE(items[i]) != given.parameter)
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* Whether one of these may take part in a graph. */
static PyObject *watched(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_TRUE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (!PyObject_TypeCheck(items[i], given.tensor) ||
            *(PyObject **)((char *)items[i] + given.graph_offset) != Py_None ||
            *(PyObject **)((char *)items[i] + given.view_offset) != Py_None)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* The autograd node of a call: class, edges, saved, sequence number, shape, dtype. */
static PyObject *node(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyTypeObject *type = (PyTypeObject *)args[0];
    PyObject *made = count == 6 ? type->tp_alloc(type, 0) : NULL;
    if (made) {
        for (int i = 0; i < 5; i++)
            *(PyObject **)((char *)made + given.node_offsets[i]) = Py_NewRef(args[i + 1]);
        *(PyObject **)((char *)made + given.node_offsets[5]) = Py_NewRef(Py_None);
    } else if (count != 6) {
        PyErr_Format(PyExc_TypeError, "expected 6 arguments, got %zd", count);
    }
    return made;
}

/* The start of an array object, as NumPy's ABI has fixed it. */
typedef struct {
    PyObject_HEAD
    char *data;
    int ndim;
    Py_intptr_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
} Array;
static PyTypeObject *ndarray;

static int same_shape(const Array *array, PyObject *shape) {
    if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) != array->ndim)
        return 0;
    for (int i = 0; i < array->ndim; i++) {
        PyObject *size = PyTuple_GET_ITEM(shape, i);
        if (!PyLong_CheckExact(size) || PyLong_AsSsize_t(size) != array->shape[i])
            return 0;
    }
    return 1;
}

/* Whether a gradient is of the shape and dtype that a node with one output waits for. */
static int fits(PyObject *node, PyObject *gradient) {
    Array *array = Py_TYPE(gradient) == given.tensor ? *(Array **)((char *)gradient + given.array_offset) : NULL;
    if (!array || Py_TYPE(array) != ndarray || Py_TYPE(node) == given.output)
        return 0;
    if (Py_TYPE(node) == given.leaf) {
        Array *there = *(Array **)((char *)node + given.leaf_array_offset);
        return Py_TYPE(there) == ndarray && array->dtype == there->dtype && array->ndim == there->ndim &&
               !memcmp(array->shape, there->shape, array->ndim * sizeof *array->shape);
    }
    PyObject *shape = *(PyObject **)((char *)node + given.node_offsets[3]);
    return array->dtype == *(PyObject **)((char *)node + given.node_offsets[4]) && shape && same_shape(array, shape);
}

/* How many edges lead to each node that can be reached from some (a list), as a dict. */
static PyObject *count_edges(PyObject *module, PyObject *starts) {
    PyObject *waiting = PyDict_New(), *known = PySet_New(starts);
    PyObject *stack = known ? PySequence_List(known) : NULL;
    int failed = !waiting || !stack;
    while (!failed && PyList_GET_SIZE(stack)) {
        Py_ssize_t last = PyList_GET_SIZE(stack) - 1;
        PyObject *edges = Py_NewRef(*(PyObject **)((char *)PyList_GET_ITEM(stack, last) + given.node_offsets[0]));
        failed = PyList_SetSlice(stack, last, last + 1, NULL) < 0;
        for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(edges); i++) {
            PyObject *edge = PyTuple_GET_ITEM(edges, i);
            if (edge == Py_None)
                continue;
            PyObject *node = Py_TYPE(edge) == given.output ? *(PyObject **)((char *)edge + given.output_node_offset) : edge;
            PyObject *before = PyDict_GetItemWithError(waiting, node);
            PyObject *now = PyLong_FromLong(before ? PyLong_AsLong(before) + 1 : 1);
            failed = !now || PyDict_SetItem(waiting, node, now) < 0;
            Py_XDECREF(now);
            if (!failed && !before && !PySet_Contains(known, node))
                failed = PyList_Append(stack, node) < 0;
        }
        Py_DECREF(edges);
    }
    Py_XDECREF(known);
    Py_XDECREF(stack);
    if (failed)
        Py_CLEAR(waiting);
    return waiting;
}

/* One contribution fewer to wait for; 1 if it was the last, -1 for an error. */
static int count_down(PyObject *waiting, PyObject *node) {
    PyObject *before = PyDict_GetItemWithError(waiting, node);
    PyObject *left = before ? PyLong_FromLong(PyLong_AsLong(before) - 1) : NULL;
    if (!before && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, node);
    int failed = !left || PyDict_SetItem(waiting, node, left) < 0;
    int last = !failed && PyLong_AsLong(left) == 0;
    Py_XDECREF(left);
    return failed ? -1 : last;
}

/* Hand the results of a node on along its edges (edges, results, waiting, buffers, deliver) and keep none of them; the nodes
   that have now got all they waited for. `deliver` takes a gradient that is not simply put down. */
static PyObject *pass_on(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "expected 5 arguments, got %zd", count);
    PyObject *edges = args[0], *results = args[1], *waiting = args[2], *buffers = args[3], *ready = PyList_New(0);
    for (Py_ssize_t i = 0; ready && i < PyTuple_GET_SIZE(edges); i++) {
        PyObject *edge = PyTuple_GET_ITEM(edges, i), *gradient = Py_None;
        if (edge == Py_None)
            continue;
        PyObject *node = Py_TYPE(edge) == given.output ? *(PyObject **)((char *)edge + given.output_node_offset) : edge;
        int failed = 0;
        if (i < PyList_GET_SIZE(results) && (gradient = PyList_GET_ITEM(results, i)) != Py_None) {
            PyList_SET_ITEM(results, i, Py_NewRef(Py_None)); /* the list's reference is ours now */
            if (fits(edge, gradient) && !PyDict_Contains(buffers, edge)) {
                failed = PyDict_SetItem(buffers, edge, gradient) < 0;
                Py_DECREF(gradient);
            } else {
                PyObject *done = PyObject_CallFunctionObjArgs(args[4], edge, gradient, NULL);
                Py_DECREF(gradient);
                failed = !done;
                Py_XDECREF(done);
            }
        }
        int last = failed ? -1 : count_down(waiting, node);
        if (last < 0 || (last && PyList_Append(ready, node) < 0))
            Py_CLEAR(ready);
    }
    return ready;
}

static PyObject *begin(PyObject *module, PyObject *seq) {
    if (push(PyLong_AsLongLong(seq), 0, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Ids of inputs by what they look like. `held` has the objects whose addresses are part of a key. */
static struct {
    Table table;
    PyObject *held;
} inputs;

enum { TENSOR, SINGLE, INTEGER, FLOAT, SEQUENCE, CONSTANT };

static int put_tensor(Ints *key, PyObject *tensor, PyObject *held) {
    Array *array = *(Array **)((char *)tensor + given.array_offset);
    if (!array || Py_TYPE(array) != ndarray)
        return 0;
    put(key, TENSOR);
    put(key, (int64_t)(intptr_t)array->dtype);
    put(key, array->ndim);
    for (int i = 0; i < array->ndim; i++) {
        put(key, array->shape[i]);
        put(key, array->strides[i]);
    }
    return !held || PyList_Append(held, array->dtype) == 0;
}

/* Whether an argument could be told by ints; for `held` see above. Strings and constants go by their addresses. */
static int put_argument(Ints *key, PyObject *value, PyObject *held) {
    if (Py_TYPE(value) == given.tensor || Py_TYPE(value) == given.parameter)
        return put_tensor(key, value, held);
    if (value == Py_None || PyBool_Check(value)) {
        put(key, SINGLE);
        put(key, (int64_t)(intptr_t)value);
    } else if (PyLong_CheckExact(value)) {
        int overflow;
        put(key, INTEGER);
        put(key, PyLong_AsLongLongAndOverflow(value, &overflow));
        return !overflow;
    } else if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        int64_t bits;
        memcpy(&bits, &number, sizeof(bits));
        put(key, FLOAT);
        put(key, bits);
    } else if (PyList_CheckExact(value) || PyTuple_Check(value)) {
        put(key, SEQUENCE);
        put(key, PySequence_Fast_GET_SIZE(value));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (!put_argument(key, PySequence_Fast_GET_ITEM(value, i), held))
                return 0;
    } else if (PyUnicode_CheckExact(value) || PySequence_Contains(given.constants, (PyObject *)Py_TYPE(value)) > 0) {
        put(key, CONSTANT);
        put(key, (int64_t)(intptr_t)value);
        return !held || PyList_Append(held, value) == 0;
    } else {
        return 0;
    }
    return 1;
}

static int put_arguments(Ints *key, PyObject *const *arguments, Py_ssize_t count, int is_op, PyObject *held) {
    key->used = 0;
    put(key, is_op);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!put_argument(key, arguments[i], held))
            return 0;
    return 1;
}

static int64_t asked_inputs_id(PyObject *const *arguments, Py_ssize_t count, int is_op) {
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; all && i < count; i++)
        PyTuple_SET_ITEM(all, i, Py_NewRef(arguments[i]));
    PyObject *found = all ? PyObject_CallFunctionObjArgs(given.inputs_id, all, is_op ? Py_True : Py_False, NULL) : NULL;
    int64_t id = found ? PyLong_AsLongLong(found) : -1;
    Py_XDECREF(all);
    Py_XDECREF(found);
    return id;
}

/* The id of the inputs of an op, or of an autograd node; -1 with an exception set. */
static int64_t inputs_id(PyObject *const *arguments, Py_ssize_t count, int is_op) {
    static Ints key;
    int known = put_arguments(&key, arguments, count, is_op, NULL);
    uint64_t hash = known ? hash_of(&key) : 0;
    int64_t id = known ? find(&inputs.table, &key, hash) : 0;
    if (id)
        return id;
    if ((id = asked_inputs_id(arguments, count, is_op)) > 0 && known &&
        put_arguments(&key, arguments, count, is_op, inputs.held) && !find(&inputs.table, &key, hash))
        keep(&inputs.table, &key, hash, id);
    return PyErr_Occurred() ? -1 : id;
}

static PyObject *begin_with(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int64_t id = inputs_id(args + 1, count - 1, 1);
    if (id < 0 || push(PyLong_AsLongLong(args[0]), id, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void pop(int64_t event) {
    Lane *lane = current;
    if (lane && lane->depth) {
        int64_t time = now();
        Open *open = &lane->open[--lane->depth];
        put_row(lane, open->start, time, event, open->seq, open->inputs, open->stack);
        if (open->block)
            put_mark(lane, time, open->nbytes, open->block);
    }
}

static PyObject *end(PyObject *module, PyObject *event) {
    pop(PyLong_AsLongLong(event));
    Py_RETURN_NONE;
}

/* Grad mode, of which a thread's lane has a copy. */
static PyObject *set_grad(PyObject *module, PyObject *mode) {
    int truth = PyObject_IsTrue(mode);
    PyObject *token = truth < 0 ? NULL : PyContextVar_Set(given.grad_mode, truth ? Py_True : Py_False);
    if (token && current)
        current->grad = truth;
    return token;
}

static PyObject *reset_grad(PyObject *module, PyObject *token) {
    PyObject *mode;
    if (PyContextVar_Reset(given.grad_mode, token) < 0 || PyContextVar_Get(given.grad_mode, NULL, &mode) < 0)
        return NULL;
    if (current)
        current->grad = mode == Py_True;
    Py_XDECREF(mode);
    Py_RETURN_NONE;
}

static PyObject *connect_grad(PyObject *module, PyObject *variable) {
    Py_XSETREF(given.grad_mode, Py_NewRef(variable));
    Py_RETURN_NONE;
}

/* A region that always ends before a recorder can stop: an autograd node. */
typedef struct {
    PyObject_HEAD
    int64_t event, seq, inputs;
} Region;
static PyTypeObject *region_type;

static PyObject *region(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || (count == 3 && !PyTuple_CheckExact(args[2]))) {
        PyErr_Format(PyExc_TypeError, "expected event, sequence number and a tuple of gradients, got %zd arguments", count);
        return NULL;
    }
    int64_t id = 0;
    if (count == 3 && given.flags & SHAPES)
        id = inputs_id(&PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), 0);
    Region *made = id < 0 ? NULL : PyObject_New(Region, region_type);
    if (made) {
        made->event = PyLong_AsLongLong(args[0]);
        made->seq = PyLong_AsLongLong(args[1]);
        made->inputs = id;
    }
    return (PyObject *)made;
}

static PyObject *region_enter(Region *self, PyObject *unused) {
    if (push(self->seq, self->inputs, 0) < 0)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *region_exit(Region *self, PyObject *const *unused, Py_ssize_t count) {
    pop(self->event);
    Py_RETURN_NONE;
}

static void region_dealloc(Region *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef region_methods[] = {
    {"__enter__", (PyCFunction)region_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))region_exit, METH_FASTCALL, NULL},
    {NULL}};
static PyType_Slot region_slots[] = {{Py_tp_dealloc, region_dealloc}, {Py_tp_methods, region_methods}, {0, NULL}};
static PyType_Spec region_spec = {"mindtorch_v2._helper.Region", sizeof(Region), 0, Py_TPFLAGS_DEFAULT, region_slots};

static PyObject *stack_here(PyObject *module, PyObject *unused) {
    Lane *lane = lane_here();
    return PyLong_FromLongLong(lane && lane->listening && given.add_stack ? stack_id(lane) : 0);
}

/* --- modules ------------------------------------------------------------------------------------------------------------- */

/* The call of an nn.Module. While it runs, `entry` is on the lane's list of open regions. */
typedef struct {
    PyObject_HEAD
    PyObject *module, *lane, *entry;
    long long outer;
} ModuleCall;
static PyTypeObject *module_call_type;

static PyObject *module_call(PyObject *helper, PyObject *module) {
    ModuleCall *made = PyObject_New(ModuleCall, module_call_type);
    if (made) {
        made->module = Py_NewRef(module);
        made->lane = made->entry = NULL;
        made->outer = 0;
    }
    return (PyObject *)made;
}

static PyObject *known_module(PyObject *module, Lane *lane) {
    PyObject *key = PyLong_FromVoidPtr(module), *known = key ? PyDict_GetItemWithError(given.modules, key) : NULL;
    Py_XDECREF(key);
    if (known && PyWeakref_GetObject(PyTuple_GET_ITEM(known, 0)) == module)
        return Py_NewRef(known);
    PyObject *root = PyErr_Occurred() ? NULL : PyObject_GetAttrString((PyObject *)lane, "root");
    known = root ? PyObject_CallFunctionObjArgs(given.meet_module, module, root, NULL) : NULL;
    Py_XDECREF(root);
    return known;
}

static int64_t longer_chain(int64_t outer, PyObject *name, int64_t event) {
    static Ints key;
    key.used = 0;
    if (given.flags & STACKS)
        put_frames(&key);
    int64_t below = key.used ? key.used / 2 - 1 : 0; /* the frame on top is that of the call itself */
    key.used = 0;
    put(&key, outer);
    put(&key, event);
    put(&key, below);
    uint64_t hash = hash_of(&key);
    int64_t id = find(&chains, &key, hash);
    if (!id) {
        Ints copy = copied(&key);
        PyObject *found = PyObject_CallFunction(given.add_chain, "LOL", (long long)outer, name, (long long)below);
        id = found ? PyLong_AsLongLong(found) : 0;
        Py_XDECREF(found);
        if (id > 0 && copy.used)
            keep(&chains, &copy, hash, id);
        PyMem_RawFree(copy.data);
    }
    return id;
}

static PyObject *module_enter(ModuleCall *self, PyObject *unused) {
    Lane *lane = given.recording ? lane_here() : NULL;
    if (!lane)
        return Py_NewRef(self);
    self->outer = lane->chain;
    if (!lane->chain && PyObject_SetAttrString((PyObject *)lane, "root", self->module) < 0)
        return NULL;
    PyObject *known = known_module(self->module, lane), *open = NULL;
    if (!known)
        return NULL;
    int64_t event = PyLong_AsLongLong(PyTuple_GET_ITEM(known, 2));
    int64_t chain = longer_chain(lane->chain, PyTuple_GET_ITEM(known, 1), event);
    int64_t stack = given.flags & STACKS && lane->listening && given.add_stack ? stack_id(lane) : 0;
    Py_DECREF(known);
    if (!PyErr_Occurred() && (open = PyObject_GetAttrString((PyObject *)lane, "open")))
        self->entry = Py_BuildValue("[LLiiL]", (long long)now(), (long long)event, -1, 0, (long long)stack);
    if (self->entry && PyList_Append(open, self->entry) == 0) {
        self->lane = Py_NewRef(lane);
        lane->chain = chain;
    }
    Py_XDECREF(open);
    return PyErr_Occurred() ? NULL : Py_NewRef(self);
}

static int no_longer_open(PyObject *lane, PyObject *entry) {
    PyObject *open = PyObject_GetAttrString(lane, "open");
    if (!open)
        return -1;
    int failed = 0;
    for (Py_ssize_t i = PyList_GET_SIZE(open); i-- > 0;)
        if (PyList_GET_ITEM(open, i) == entry) {
            failed = PyList_SetSlice(open, i, i + 1, NULL);
            break;
        }
    Py_DECREF(open);
    return failed;
}

static PyObject *module_exit(ModuleCall *self, PyObject *const *unused, Py_ssize_t count) {
    Lane *lane = (Lane *)self->lane;
    if (!lane)
        Py_RETURN_NONE;
    lane->chain = self->outer;
    if ((!self->outer && PyObject_SetAttrString(self->lane, "root", Py_None) < 0) || no_longer_open(self->lane, self->entry) < 0)
        return NULL;
    if (given.recording) {
        int64_t values[5];
        for (int i = 0; i < 5; i++)
            values[i] = PyLong_AsLongLong(PyList_GET_ITEM(self->entry, i));
        put_row(lane, values[0], now(), values[1], values[2], values[3], values[4]);
    }
    Py_CLEAR(self->lane);
    Py_RETURN_NONE;
}

static void module_call_dealloc(ModuleCall *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->module);
    Py_XDECREF(self->lane);
    Py_XDECREF(self->entry);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef module_call_methods[] = {
    {"__enter__", (PyCFunction)module_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))module_exit, METH_FASTCALL, NULL},
    {NULL}};
static PyType_Slot module_call_slots[] = {
    {Py_tp_dealloc, module_call_dealloc}, {Py_tp_methods, module_call_methods}, {0, NULL}};
static PyType_Spec module_call_spec = {"mindtorch_v2._helper.ModuleCall", sizeof(ModuleCall), 0, Py_TPFLAGS_DEFAULT,
                                       module_call_slots};

static PyObject *connect_modules(PyObject *module, PyObject *args) {
    PyObject *modules, *meet, *add_chain;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &modules, &meet, &add_chain))
        return NULL;
    Py_XSETREF(given.modules, Py_NewRef(modules));
    Py_XSETREF(given.meet_module, Py_NewRef(meet));
    Py_XSETREF(given.add_chain, Py_NewRef(add_chain));
    Py_RETURN_NONE;
}

/* --- memory -------------------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(PyObject *array) {
    Array *a = (Array *)array;
    if (Py_TYPE(array) == ndarray && a->flags & 1) { /* row-major without gaps: the inner step is one element */
        int64_t elements = 1, step = 0;
        for (int i = a->ndim - 1; i >= 0; i--) {
            elements *= a->shape[i];
            if (!step && a->shape[i] > 1)
                step = a->strides[i];
        }
        if (step && elements)
            return elements * step;
    }
    PyObject *value = PyObject_GetAttrString(array, "nbytes");
    int64_t found = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return found;
}

static void storage_dealloc(Storage *token) {
    PyTypeObject *type = Py_TYPE(token);
    if (token->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)token);
    Py_XDECREF(token->version);
    type->tp_free((PyObject *)token);
    Py_DECREF(type);
}

static PyObject *new_token(PyTypeObject *type) {
    Storage *token = (Storage *)type->tp_alloc(type, 0);
    if (token)
        token->version = PyLong_FromLong(0);
    return (PyObject *)token;
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return new_token(type);
}

static PyObject *counted_storage(PyObject *array, int is_result) {
    int64_t nbytes = bytes_of(array);
    if (nbytes == -1 && PyErr_Occurred())
        return NULL;
    PyObject *token = new_token(given.counted);
    if (!token)
        return NULL;
    ((Counted *)token)->nbytes = nbytes;
    Lane *lane = given.recording ? lane_here() : NULL;
    if (lane) {
        Open *open = lane->depth ? &lane->open[lane->depth - 1] : NULL;
        if (is_result && open && !open->block) { /* the end of the op notes it, with its own look at the clock */
            open->nbytes = nbytes;
            open->block = (int64_t)(intptr_t)token;
        } else {
            put_mark(lane, now(), nbytes, (int64_t)(intptr_t)token);
        }
    }
    return token;
}

static PyObject *count(PyObject *module, PyObject *array) {
    return counted_storage(array, 1);
}

static PyObject *counted_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *array;
    return PyArg_ParseTuple(args, "O", &array) ? counted_storage(array, 0) : NULL;
}

static int counted_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    return 0;
}

static void counted_dealloc(Counted *token) {
    Lane *lane = NULL;
    int64_t nbytes = token->nbytes, block = (int64_t)(intptr_t)token;
    if (given.recording && !(lane = current)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        lane = lane_here();
        PyErr_Restore(type, value, traceback);
    }
    if (lane) {
        int64_t time = now();
        Open *open = lane->depth ? &lane->open[lane->depth - 1] : NULL;
        if (open && open->block == block) { /* freed before the op that made it has ended */
            put_mark(lane, time, nbytes, block);
            open->block = 0;
        }
        put_mark(lane, time, -nbytes, block);
    }
    storage_dealloc(&token->storage);
}

static PyMemberDef storage_members[] = {{"version", T_OBJECT_EX, offsetof(Storage, version), 0, NULL},
                                        {"__weaklistoffset__", T_PYSSIZET, offsetof(Storage, weakrefs), READONLY, NULL},
                                        {NULL}};
static PyType_Slot storage_slots[] = {
    {Py_tp_new, storage_new}, {Py_tp_dealloc, storage_dealloc}, {Py_tp_members, storage_members},
    {Py_tp_doc, "Shared by every tensor that looks at one block of memory. `version` counts in-place changes."}, {0, NULL}};
static PyType_Spec storage_spec = {"mindtorch_v2._storage.Storage", sizeof(Storage), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, storage_slots};
static PyMemberDef counted_members[] = {{"nbytes", T_LONGLONG, offsetof(Counted, nbytes), READONLY, NULL}, {NULL}};
static PyType_Slot counted_slots[] = {
    {Py_tp_new, counted_new}, {Py_tp_init, counted_init}, {Py_tp_dealloc, counted_dealloc}, {Py_tp_members, counted_members},
    {Py_tp_doc, "A storage whose allocation a recorder has seen; it reports its end too."}, {0, NULL}};
static PyType_Spec counted_spec = {"mindtorch_v2._storage.CountedStorage", sizeof(Counted), 0, Py_TPFLAGS_DEFAULT,
                                   counted_slots};

static int add_types(PyObject *module) {
    PyObject *lane = PyType_FromSpec(&lane_spec), *storage = PyType_FromSpec(&storage_spec);
    PyObject *bases = storage ? PyTuple_Pack(1, storage) : NULL;
    PyObject *counted = bases ? PyType_FromSpecWithBases(&counted_spec, bases) : NULL;
    given.counted = (PyTypeObject *)counted, given.storage = (PyTypeObject *)storage;
    region_type = (PyTypeObject *)PyType_FromSpec(&region_spec);
    module_call_type = (PyTypeObject *)PyType_FromSpec(&module_call_spec);
    int failed = !lane || !counted || !region_type || !module_call_type || PyModule_AddObjectRef(module, "Lane", lane) < 0 ||
                 PyModule_AddObjectRef(module, "Storage", storage) < 0 ||
                 PyModule_AddObjectRef(module, "CountedStorage", counted) < 0;
    Py_XDECREF(lane);
    Py_XDECREF(storage);
    Py_XDECREF(bases);
    return failed ? -1 : 0;
}

static Py_ssize_t slot_offset(PyObject *type, const char *name) {
    PyObject *member = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (member && Py_TYPE(member) == &PyMemberDescr_Type)
        offset = ((PyMemberDescrObject *)member)->d_member->offset;
    else if (member)
        PyErr_Format(PyExc_TypeError, "expected %s to be a slot", name);
    Py_XDECREF(member);
    return offset;
}

/* --- Python functions ------------------------------------------------------------------------------------------------------ */

/* Event ids by address: of code objects, and of builtins with the type they are bound to. Keys are kept alive. */
typedef struct {
    struct Known {
        void *first, *second;
        PyObject *held;
        int64_t kind;
    } *slots;
    size_t room, used;
} Kinds;
static Kinds codes, builtins;

static struct Known *known_kind(Kinds *kinds, void *first, void *second) {
    if (kinds->used * 2 >= kinds->room) {
        size_t room = kinds->room ? kinds->room * 2 : 1024;
        struct Known *slots = PyMem_RawCalloc(room, sizeof(struct Known));
        if (!slots)
            return NULL;
        for (size_t i = 0; i < kinds->room; i++)
            if (kinds->slots[i].first) {
                size_t at = mix((uint64_t)(intptr_t)kinds->slots[i].first, (uint64_t)(intptr_t)kinds->slots[i].second) & (room - 1);
                while (slots[at].first)
                    at = (at + 1) & (room - 1);
                slots[at] = kinds->slots[i];
            }
        PyMem_RawFree(kinds->slots);
        kinds->slots = slots;
        kinds->room = room;
    }
    size_t at = mix((uint64_t)(intptr_t)first, (uint64_t)(intptr_t)second) & (kinds->room - 1);
    while (kinds->slots[at].first && (kinds->slots[at].first != first || kinds->slots[at].second != second))
        at = (at + 1) & (kinds->room - 1);
    return &kinds->slots[at];
}

static int64_t kind_of(Kinds *kinds, void *first, void *second, PyObject *held, PyObject *ask, PyObject *about) {
    struct Known *known = known_kind(kinds, first, second);
    if (known && known->first)
        return known->kind;
    PyObject *found = PyObject_CallOneArg(ask, about);
    int64_t kind = found ? PyLong_AsLongLong(found) : SKIPPED;
    Py_XDECREF(found);
    if (PyErr_Occurred()) {
        PyErr_WriteUnraisable(ask);
        return SKIPPED;
    }
    known = known_kind(kinds, first, second); /* Python code has run */
    if (known && !known->first) {
        *known = (struct Known){first, second, Py_XNewRef(held), kind};
        kinds->used++;
    }
    return kind;
}

static int64_t builtin_kind(PyObject *function) {
    if (!PyCFunction_Check(function)) {
        PyObject *found = PyObject_CallOneArg(given.builtin_kind, function);
        int64_t kind = found ? PyLong_AsLongLong(found) : SKIPPED;
        Py_XDECREF(found);
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(given.builtin_kind);
        return kind;
    }
    PyObject *owner = ((PyCFunctionObject *)function)->m_self;
    PyObject *type = owner && !PyModule_Check(owner) ? (PyObject *)Py_TYPE(owner) : NULL;
    return kind_of(&builtins, ((PyCFunctionObject *)function)->m_ml, type, type, given.builtin_kind, function);
}

static void enter(Lane *lane, int64_t kind) {
    int64_t *place = extend(&lane->frames, 2);
    if (place)
        place[0] = now(), place[1] = kind;
}

static void leave(Lane *lane) {
    if (lane->frames.used < 2)
        return;
    lane->frames.used -= 2;
    int64_t *place = lane->frames.data + lane->frames.used;
    if (place[1] > 0)
        put_row(lane, place[0], now(), place[1], -1, 0, 0);
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    Lane *lane = (Lane *)self;
    if (!lane->tracing) {
        PyEval_SetProfile(NULL, NULL);
        lane->frames.used = 0;
        return 0;
    }
    int fresh = lane->fresh;
    lane->fresh = 0;
    if (fresh && what == PyTrace_C_RETURN)
        return 0; /* of the call that began the tracing */
    if (what == PyTrace_CALL) {
        if (lane->muted) {
            lane->muted++;
            return 0;
        }
        PyCodeObject *code = PyFrame_GetCode(frame);
        int64_t kind = kind_of(&codes, code, NULL, (PyObject *)code, given.code_kind, (PyObject *)code);
        Py_DECREF(code);
        if (kind == MUTED)
            lane->muted = 1;
        else
            enter(lane, kind);
    } else if (what == PyTrace_RETURN && lane->muted) {
        lane->muted--;
    } else if (lane->muted) {
        return 0;
    } else if (what == PyTrace_C_CALL) {
        Py_ssize_t used = lane->frames.used;
        int hidden = !used || lane->frames.data[used - 1] == SKIPPED;
        enter(lane, hidden ? SKIPPED : builtin_kind(arg));
    } else if (what == PyTrace_RETURN || what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) {
        leave(lane);
    }
    return 0;
}

/* Time Python functions on the calling thread until the lane's `tracing` is switched off. The frames in progress are on
   `lane.frames`. */
static PyObject *trace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = ((Lane *)lane)->fresh = 1;
    PyEval_SetProfile(on_event, lane);
    Py_RETURN_NONE;
}

static PyObject *untrace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = 0;
    ((Lane *)lane)->frames.used = 0;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

/* --- the module -------------------------------------------------------------------------------------------------------------- */

static PyObject *connect(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"make_lane", "inputs_id", "constants", "tensor",       "parameter", "ndarray",
                            "node",      "view",      "composed",  "view_version", "leaf",      "output",
                            NULL};
    static const char *node_slots[] = {"edges", "saved", "seq", "shape", "dtype", "hooks"};
    PyObject *v[12];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!OOOOOOOOO", names, v, v + 1, &PyTuple_Type, v + 2, v + 3, v + 4, v + 5,
                                     v + 6, v + 7, v + 8, v + 9, v + 10, v + 11))
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
                 {v[11], "node", &given.output_node_offset}};
    for (int i = 0; i < 9; i++)
        if ((*slots[i].offset = slot_offset(slots[i].type, slots[i].name)) < 0)
            return NULL;
    if (!inputs.held && !(inputs.held = PyList_New(0)))
        return NULL;
    for (int i = 0; i < 12; i++)
        Py_INCREF(v[i]); /* for good: there is one of each */
    given.make_lane = v[0], given.inputs_id = v[1], given.constants = v[2];
    given.tensor = (PyTypeObject *)v[3], given.parameter = (PyTypeObject *)v[4], ndarray = (PyTypeObject *)v[5];
    given.view = (PyTypeObject *)v[7], given.composed = v[8], given.view_version = v[9];
    given.leaf = (PyTypeObject *)v[10], given.output = (PyTypeObject *)v[11];
    Py_RETURN_NONE;
}

static PyObject *connect_frames(PyObject *module, PyObject *args) {
    PyObject *add_stack, *code_kind, *builtin;
    if (!PyArg_ParseTuple(args, "OOO", &add_stack, &code_kind, &builtin))
        return NULL;
    Py_XSETREF(given.add_stack, Py_NewRef(add_stack));
    Py_XSETREF(given.code_kind, Py_NewRef(code_kind));
    Py_XSETREF(given.builtin_kind, Py_NewRef(builtin));
    Py_RETURN_NONE;
}

static PyObject *set_recording(PyObject *module, PyObject *args) {
    if (!PyArg_ParseTuple(args, "pi", &given.recording, &given.flags))
        return NULL;
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
    {"count_edges", count_edges, METH_O, "How many edges lead to each node that can be reached from some."},
    {"pass_on", (PyCFunction)(void (*)(void))pass_on, METH_FASTCALL, "Hand the results of a node on along its edges."},
    {"all_plain", all_plain, METH_O, "Whether something is a list or tuple of plain tensors."},
    {"watched", watched, METH_O, "Whether one of these may take part in a graph."},
    {"look", (PyCFunction)(void (*)(void))look, METH_FASTCALL, "A tensor on a view of another's memory."},
    {"begin", begin, METH_O, "An op begins, with this sequence number."},
    {"begin_with", (PyCFunction)(void (*)(void))begin_with, METH_FASTCALL, "An op begins: sequence number, then inputs."},
    {"end", end, METH_O, "The op that began last ends; it was this event."},
    {"region", (PyCFunction)(void (*)(void))region, METH_FASTCALL, "The region of an autograd node."},
    {"module_call", module_call, METH_O, "The region of a call of an nn.Module."},
    {"connect_modules", connect_modules, METH_VARARGS, "Hand over what names modules and chains of them."},
    {"hush", hush, METH_NOARGS, "Trace nothing on this thread until `speak`."},
    {"speak", speak, METH_NOARGS, "Trace again."},
    {"aloud", (PyCFunction)(void (*)(void))aloud, METH_FASTCALL, "Call a function, traced also where nothing is traced."},
    {"set_grad", set_grad, METH_O, "Switch grad mode; returns what `reset_grad` wants."},
    {"reset_grad", reset_grad, METH_O, "Switch grad mode back."},
    {"connect_grad", connect_grad, METH_O, "Hand over the ContextVar of grad mode."},
    {"stack", stack_here, METH_NOARGS, "The interned id of the calling thread's Python stack."},
    {"forget_stacks", forget_stacks, METH_NOARGS, "Forget the ids of stacks."},
    {"count", count, METH_O, "The counted storage token of a new array."},
    {"trace", trace, METH_O, "Time Python functions on the calling thread into a lane."},
    {"untrace", untrace, METH_O, "Time them no longer."},
    {"connect", (PyCFunction)(void (*)(void))connect, METH_VARARGS | METH_KEYWORDS, "Hand over what ops need."},
    {"connect_frames", connect_frames, METH_VARARGS, "Hand over what names stacks, code and builtins."},
    {"set_recording", set_recording, METH_VARARGS, "Say whether something records, and with which flags."},
    {NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_helper", "The recorder's hot paths in C.", -1, functions};

PyMODINIT_FUNC PyInit__helper(void) {
    PyObject *module = PyModule_Create(&definition);
#if defined(__x86_64__)
    read_both(&tsc.first_ticks, &tsc.first_ns);
#endif
    if (module && add_types(module) < 0)
        Py_CLEAR(module);
    return module;
}
