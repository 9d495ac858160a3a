/* Lanes: where one thread writes its finished regions, allocations and frees. */

typedef struct {
    int64_t start, seq, inputs, stack, nbytes, block;
    int quiet;  /* whether nothing in it is traced but what is called aloud */
    int hushed; /* whether it switched tracing off itself */
    int louds;  /* how many calls aloud it is inside of */
} Open;

enum { NEAR = 8 };

typedef struct {
    PyObject_HEAD
    Ints rows, marks, frames;
    Open *open;
    int depth, room;
    char grad, listening, tracing, fresh;
    int muted, louds;
    long long chain;
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

static __thread Lane *current;

/* What the interpreter tells of calls while they are traced. */
static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);

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
