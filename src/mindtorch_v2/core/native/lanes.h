/* Lanes: where one thread writes its finished regions, allocations and frees. */

typedef struct {
    int64_t start, seq, inputs, stack, nbytes, block;
    int quiet;  /* whether nothing in it is traced but calls of call_traced */
    int suspended; /* whether it switched tracing off itself */
    int traced_calls;  /* how many calls of call_traced it is inside of */
} Open;

enum { NEAR = 8 };

typedef struct {
    PyObject_HEAD
    Ints rows, marks, frames;
    Open *open;
    int depth, room;
    char grad, is_recording, tracing, newly_traced;
    int hidden_depth, traced_calls;
    int unlisted; /* how many of the calls under way `frames` does not list, as there was no memory */
    long long chain;
    long long lost; /* how many rows and marks there was no memory for */
    struct {
        const void *frames[NEAR], *at[NEAR]; /* the innermost ones, and their instructions */
        int count;
        long long chain;
        uint64_t table;
        int64_t id;
        const void *lowest; /* the outermost frame that has run since: those around it are where they were */
    } last; /* the stack last looked up, and where; see `stack_id` */
    struct {
        const void *code;
        int64_t kind;
    } next; /* what is about to be called, and its event */
} Lane;

/* The calling thread's lane, a reference; see `adopt`. Other code of the thread's may give it another one. */
static __thread Lane *current;
static PyTypeObject *lane_type, *keeper_type;

/* What the interpreter tells of calls while they are traced. */
static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);

static Lane *lane_here(void) {
    if (!current && globals.make_lane) {
        PyObject *made = PyObject_CallNoArgs(globals.make_lane);
        if (!made)
            tell_error(globals.make_lane);
        Py_XDECREF(made); /* `adopt` has noted it */
    }
    return current;
}

static void put_row(Lane *lane, int64_t start, int64_t end, int64_t event, int64_t seq, int64_t inputs, int64_t stack) {
    int64_t *row = lane->is_recording ? extend(&lane->rows, ROW_WIDTH) : NULL;
    if (row) {
        row[0] = start, row[1] = end, row[2] = event, row[3] = seq, row[4] = inputs, row[5] = stack;
    } else {
        lane->lost += lane->is_recording;
    }
}

static void put_mark(Lane *lane, int64_t time, int64_t nbytes, int64_t block) {
    int64_t *mark = lane->is_recording ? extend(&lane->marks, MARK_WIDTH) : NULL;
    if (mark) {
        mark[0] = time, mark[1] = nbytes, mark[2] = block;
    } else {
        lane->lost += lane->is_recording;
    }
}

static void lane_dealloc(Lane *lane) {
    PyTypeObject *type = Py_TYPE(lane);
    PyMem_RawFree(lane->rows.data);
    PyMem_RawFree(lane->marks.data);
    PyMem_RawFree(lane->frames.data);
    PyMem_RawFree(lane->open);
    type->tp_free((PyObject *)lane);
    Py_DECREF(type);
}

/* All is made before anything is taken out; once there is a tuple, nothing runs in between that could write more. */
static PyObject *lane_take(Lane *lane, PyObject *unused) {
    PyObject *taken = PyTuple_New(2), *rows = taken ? bytes_in(&lane->rows) : NULL;
    PyObject *marks = rows ? bytes_in(&lane->marks) : NULL;
    if (!marks) {
        Py_XDECREF(rows);
        Py_XDECREF(taken);
        return NULL;
    }
    empty(&lane->rows);
    empty(&lane->marks);
    PyTuple_SET_ITEM(taken, 0, rows);
    PyTuple_SET_ITEM(taken, 1, marks);
    return taken;
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

static PyObject *lane_record(Lane *lane, PyObject *wanted) {
    int truth = PyObject_IsTrue(wanted);
    if (truth < 0)
        return NULL;
    lane->is_recording = truth;
    Py_RETURN_NONE;
}

static PyObject *frames_get(Lane *lane, void *unused) {
    Py_ssize_t count = lane->frames.used;
    PyObject *list = PyList_New(count);
    while (list && lane->frames.used != count) { /* a finalizer has run */
        count = lane->frames.used;
        Py_SETREF(list, PyList_New(count));
    }
    for (Py_ssize_t i = 0; list && i < count; i++) {
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
    if (!list || !PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of ints");
        return -1;
    }
    lane->frames.used = lane->unlisted = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        int64_t value = PyLong_Check(item) ? PyLong_AsLongLong(item) : -1;
        if (!PyLong_Check(item))
            PyErr_Format(PyExc_TypeError, "expected a list of ints, got %s", Py_TYPE(item)->tp_name);
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
    {"listen", (PyCFunction)lane_record, METH_O, "Keep (or drop) what the thread writes from now on."},
    {NULL}};
static PyMemberDef lane_members[] = {
    {"grad", T_BOOL, offsetof(Lane, grad), 0, NULL},      {"is_recording", T_BOOL, offsetof(Lane, is_recording), 0, NULL},
    {"hidden_depth", T_INT, offsetof(Lane, hidden_depth), 0, NULL},     {"chain", T_LONGLONG, offsetof(Lane, chain), 0, NULL},
    {"tracing", T_BOOL, offsetof(Lane, tracing), 0, NULL}, {"lost", T_LONGLONG, offsetof(Lane, lost), READONLY, NULL},
    {NULL}};
static PyGetSetDef lane_properties[] = {{"frames", (getter)frames_get, (setter)frames_set, NULL, NULL}, {NULL}};
static PyType_Slot lane_slots[] = {{Py_tp_dealloc, lane_dealloc},    {Py_tp_methods, lane_methods},
                                   {Py_tp_members, lane_members},    {Py_tp_getset, lane_properties},
                                   {Py_tp_new, PyType_GenericNew},   {0, NULL}};
static PyType_Spec lane_spec = {"mindtorch_v2.core._helper.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                lane_slots};

/* adopt(lane): whatever the thread's lane was is let go last, as its end may be Python code. */
static PyObject *adopt(PyObject *module, PyObject *lane) {
    if (lane != Py_None && !PyObject_TypeCheck(lane, lane_type))
        return PyErr_Format(PyExc_TypeError, "expected a lane or None, got %s", Py_TYPE(lane)->tp_name);
    Lane *before = current;
    current = lane == Py_None ? NULL : (Lane *)Py_NewRef(lane);
    Py_XDECREF((PyObject *)before);
    Py_RETURN_NONE;
}

/* A thread has one of these among what is its own, so that it lets go of its lane at its end. What a thread leaves behind
   may be cleared by another one, as after a fork, whose own lane that is not. */
typedef struct {
    PyObject_HEAD
    unsigned long thread;
} Keeper;

static PyObject *keeper_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    Keeper *self = (Keeper *)type->tp_alloc(type, 0);
    if (self)
        self->thread = PyThread_get_thread_ident();
    return (PyObject *)self;
}

static void keeper_dealloc(Keeper *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->thread == PyThread_get_thread_ident()) {
        Lane *before = current;
        current = NULL;
        Py_XDECREF((PyObject *)before);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot keeper_slots[] = {{Py_tp_dealloc, keeper_dealloc}, {Py_tp_new, keeper_new}, {0, NULL}};
static PyType_Spec keeper_spec = {"mindtorch_v2.core._helper.Keeper", sizeof(Keeper), 0, Py_TPFLAGS_DEFAULT, keeper_slots};
