/* Ops run inside of another one: an event around what the op does, without the questions of its public function. */

/* What such an op does: make a tensor, a view, change its first argument; or run other ops, on tensors. */
enum { MAKES, VIEWS, CHANGES, CALLS };
enum { MOST_ARGUMENTS = 16 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *row;       /* which it is to Python */
    PyObject *asked;     /* a compiled function before the kernel, None from which leaves it to that; or None */
    PyObject *work;      /* the kernel, on arrays; or what calls other ops */
    PyObject *otherwise; /* the public function, with all arguments by position; or None, which is then the result */
    PyObject *inner;     /* the row as which the work is recorded in an event of its own, or None */
    PyObject *make_given; /* what makes `given` */
    PyObject *given;     /* a tuple of what that is given beside a matrix; NULL until it is first needed */
    int64_t event, inner_event; /* -1 until they are first needed */
    int kind, numbered, needs_no_graph;
    int quiet; /* whether floating point flags are ignored */
} Inside;

static struct {
    PyTypeObject *type;
    PyObject *made, *no_memory;          /* a tensor of what a kernel gives that is no array; what to raise for a MemoryError */
    PyObject *recording, *number;        /* names in the namespace of generated code */
    PyObject *ignore, *flags, *restore;  /* ignore(flags) -> token, restore(token): floating point flags */
} inside;

/* Whether this very object, one that stays for good, stands under a name of generated code. */
static int is_named(PyObject *name, PyObject *value) {
    return PyDict_GetItemWithError(globals.namespace, name) == value;
}

/* The number that stands under a name of generated code, which other threads may replace: -1 with an exception set. */
static int read_named(PyObject *name, int64_t *number) {
    PyObject *found = PyDict_GetItemWithError(globals.namespace, name);
    if (found)
        return read_int(found, number);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
    return -1;
}

static int is_plain_type(PyObject *value) {
    return Py_TYPE(value) == globals.tensor || Py_TYPE(value) == globals.parameter;
}

/* Whether something is a tensor that fast paths take, or none. */
static int is_plain_value(PyObject *value) {
    if (is_plain_type(value) || value == Py_None || PyLong_Check(value) || PyFloat_CheckExact(value))
        return 1;
    return !PyObject_TypeCheck(value, globals.tensor);
}

/* The same of an argument, which may be a list of those; lists in lists hold no tensors. */
static int is_plain_argument(PyObject *value) {
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (!is_plain_value(PySequence_Fast_GET_ITEM(value, i)))
                return 0;
    return is_plain_value(value);
}

/* Whether and how it can be done here: RECORDED or, for a view, UNSEEN, as a recorder is all that watches, or nobody; tensors
   are plain and no graph leads through it. IN_PYTHON else. */
static int way_to_do(Inside *self, PyObject *const *args, Py_ssize_t count) {
    int way = is_named(inside.recording, Py_True) ? RECORDED
              : self->kind == VIEWS && is_named(engine.hook, Py_False) ? UNSEEN
                                                                       : IN_PYTHON;
    if (count > MOST_ARGUMENTS || way == IN_PYTHON)
        return IN_PYTHON;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_plain_argument(args[i]))
            return IN_PYTHON;
    int64_t inferring = 0;
    if (self->kind == MAKES && read_named(globals.inferring, &inferring) < 0)
        return FAILED;
    if (inferring)
        return IN_PYTHON;
    if (self->kind == VIEWS && (!count || !is_plain_type(args[0])))
        return IN_PYTHON;
    if (self->kind == CHANGES) {
        PyObject *storage = count && is_plain_type(args[0]) ? slot_of(args[0], globals.storage_offset) : NULL;
        if (!storage || (storage != Py_None && Py_TYPE(storage) != globals.storage && Py_TYPE(storage) != globals.counted))
            return IN_PYTHON;
    }
    if (self->inner != Py_None) {
        Array *matrix = count && is_plain_type(args[0]) ? plain_array(args[0]) : NULL;
        if (!matrix || matrix->ndim != 2)
            return IN_PYTHON;
    }
    int building = self->needs_no_graph ? builds_graphs() : 0;
    if (building > 0 && (self->kind != VIEWS || takes_part(args[0])))
        return IN_PYTHON;
    return building < 0 ? FAILED : way;
}

/* An argument as kernels take it, a new reference. */
static PyObject *as_arrays(PyObject *value) {
    int is_list = PyList_CheckExact(value) || PyTuple_CheckExact(value);
    Py_ssize_t count = is_list ? PySequence_Fast_GET_SIZE(value) : 0;
    if (!count || !is_plain_type(PySequence_Fast_GET_ITEM(value, 0)))
        return array_or_value(value);
    PyObject *arrays = PySequence_List(value); /* a copy: a finalizer or another thread may change the list itself */
    for (Py_ssize_t i = 0; arrays && i < PyList_GET_SIZE(arrays); i++) {
        PyObject *item = PyList_GET_ITEM(arrays, i);
        PyList_SET_ITEM(arrays, i, array_or_value(item));
        Py_DECREF(item);
    }
    return arrays;
}

static PyObject *call_with_arrays(PyObject *kernel, PyObject *const *args, Py_ssize_t count) {
    PyObject *arrays[MOST_ARGUMENTS] = {NULL}, *result = NULL;
    Py_ssize_t filled = 0;
    while (filled < count && (arrays[filled] = as_arrays(args[filled])))
        filled++;
    if (filled == count)
        result = PyObject_Vectorcall(kernel, arrays, count, NULL);
    while (filled)
        Py_DECREF(arrays[--filled]);
    return result;
}

/* The same while floating point flags are ignored. */
static PyObject *call_quietly(PyObject *kernel, PyObject *const *args, Py_ssize_t count) {
    PyObject *token = PyObject_CallOneArg(inside.ignore, inside.flags), *type, *value, *traceback;
    if (!token)
        return NULL;
    PyObject *result = call_with_arrays(kernel, args, count);
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *restored = PyObject_CallOneArg(inside.restore, token);
    Py_DECREF(token);
    if (!restored) {
        Py_CLEAR(result);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return NULL;
    }
    Py_DECREF(restored);
    PyErr_Restore(type, value, traceback);
    return result;
}

/* A MemoryError becomes what torch raises. */
static void tell_of_memory(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *error = PyObject_CallOneArg(inside.no_memory, value);
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Begin the event of the op as which the work on a matrix is recorded. `given` stays as it is once it is made. */
static int begin_inner(Inside *self, PyObject *matrix) {
    PyObject *inputs[MOST_ARGUMENTS] = {matrix};
    Py_ssize_t count = globals.flags & SHAPES ? PyTuple_GET_SIZE(self->given) : 0;
    for (Py_ssize_t i = 0; i < count; i++)
        inputs[i + 1] = PyTuple_GET_ITEM(self->given, i);
    int64_t id = globals.flags & SHAPES ? inputs_id(inputs, count + 1, 1) : 0;
    return id < 0 ? -1 : push(-1, id, 1);
}

/* End an event, whether there was an exception or not: the clock may be a function of Python's. */
static void end_event(int64_t event) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    pop(event);
    PyErr_Restore(type, value, traceback);
}

/* What the kernel gives. */
static PyObject *compute_arrays(Inside *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *got = self->asked == Py_None ? Py_NewRef(Py_None) : call_with_arrays(self->asked, args, count);
    if (got == Py_None)
        Py_SETREF(got, (self->quiet ? call_quietly : call_with_arrays)(self->work, args, count));
    if (!got && PyErr_ExceptionMatches(PyExc_MemoryError))
        tell_of_memory();
    return got;
}

static PyObject *do_work(Inside *self, PyObject *const *args, Py_ssize_t count, int way) {
    if (self->kind == CALLS)
        return PyObject_Vectorcall(self->work, args, count, NULL);
    int shows_inner = way == RECORDED && self->inner != Py_None;
    if (shows_inner && begin_inner(self, args[0]) < 0)
        return NULL;
    PyObject *got = compute_arrays(self, args, count), *result;
    if (shows_inner)
        end_event(self->inner_event);
    if (!got)
        return NULL;
    if (self->kind == MAKES && Py_TYPE(got) == ndarray)
        return made_tensor(got);
    if (self->kind == MAKES)
        result = PyObject_CallOneArg(inside.made, got);
    else if (self->kind == CHANGES)
        result = count_change(args[0]) < 0 ? NULL : Py_NewRef(args[0]);
    else
        result = look(NULL, (PyObject *const[]){args[0], got}, 2);
    Py_DECREF(got);
    return result;
}

static int64_t event_of(PyObject *row) {
    PyObject *event = PyObject_GetAttrString(row, "event");
    int64_t id = event ? PyLong_AsLongLong(event) : -1;
    Py_XDECREF(event);
    if (id < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "an op has no event: %R", row);
    return id;
}

/* What the op inside is to Python, too. */
static int meet_inner(Inside *self) {
    PyObject *given = PyObject_CallNoArgs(self->make_given);
    if (given && (!PyTuple_CheckExact(given) || PyTuple_GET_SIZE(given) >= MOST_ARGUMENTS))
        Py_SETREF(given, PyErr_Format(PyExc_TypeError, "expected a short tuple of inputs"));
    if (!given)
        return -1;
    if (self->given) /* another thread was first */
        Py_DECREF(given);
    else
        self->given = given;
    int64_t event = event_of(self->inner);
    if (event >= 0)
        self->inner_event = event;
    return event < 0 ? -1 : 0;
}

/* What is not known before the row's text has been read. Several threads may do it at once: all find the same, and `event`,
   which says that all is known, comes last. */
static int meet_row(Inside *self) {
    PyObject *numbered = PyObject_GetAttrString(self->row, "numbered");
    if (!numbered)
        return -1;
    self->numbered = numbered == Py_True;
    Py_DECREF(numbered);
    if (self->inner != Py_None && self->inner_event < 0 && meet_inner(self) < 0)
        return -1;
    int64_t event = event_of(self->row);
    if (event >= 0)
        self->event = event;
    return event < 0 ? -1 : 0;
}

static PyObject *inside_call(PyObject *op, PyObject *const *args, size_t flagged, PyObject *names) {
    Inside *self = (Inside *)op;
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    int way = names ? IN_PYTHON : way_to_do(self, args, count);
    if (way == FAILED || (self->event < 0 && meet_row(self) < 0))
        return NULL;
    if (way == UNSEEN)
        return do_work(self, args, count, way);
    if (way == IN_PYTHON)
        return self->otherwise == Py_None ? Py_NewRef(Py_None) : PyObject_Vectorcall(self->otherwise, args, flagged, names);
    int64_t number = -1;
    if (self->numbered && read_named(inside.number, &number) < 0)
        return NULL;
    int64_t id = globals.flags & SHAPES ? inputs_id(args, count, 1) : 0;
    if (id < 0 || push(number, id, 1) < 0)
        return NULL;
    int traced = globals.flags & STACKS; /* the caller may be code of which something is seen */
    if (traced)
        trace_nothing();
    PyObject *result = do_work(self, args, count, way);
    if (traced)
        trace_again();
    end_event(self->event);
    return result;
}

/* inside(row, what is asked first, what it does, its kind, whether no graph may lead through it, whether floating point flags
   are ignored, public function by position or None, row as which the work is recorded or None, what makes a tuple of
   its inputs beside a matrix) */
static PyObject *inside_new(PyObject *module, PyObject *args) {
    PyObject *row, *asked, *work, *otherwise, *inner, *given;
    int kind, needs_no_graph, quiet;
    if (!PyArg_ParseTuple(args, "OOOippOOO", &row, &asked, &work, &kind, &needs_no_graph, &quiet, &otherwise, &inner, &given))
        return NULL;
    Inside *made = PyObject_New(Inside, inside.type);
    if (made) {
        made->call = inside_call;
        made->row = Py_NewRef(row), made->asked = Py_NewRef(asked), made->work = Py_NewRef(work);
        made->otherwise = Py_NewRef(otherwise), made->inner = Py_NewRef(inner);
        made->make_given = Py_NewRef(given), made->given = NULL;
        made->event = made->inner_event = -1, made->kind = kind, made->numbered = 0, made->needs_no_graph = needs_no_graph;
        made->quiet = quiet;
    }
    return (PyObject *)made;
}

static void inside_dealloc(Inside *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(self->row);
    Py_DECREF(self->asked);
    Py_DECREF(self->work);
    Py_DECREF(self->otherwise);
    Py_DECREF(self->inner);
    Py_DECREF(self->make_given);
    Py_XDECREF(self->given);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *inside_get(PyObject *self, PyObject *name) {
    return PyObject_GetAttr(((Inside *)self)->row, name);
}

/* connect_inside(what makes a tensor, what to raise where there is no memory, what ignores floating point flags, what that is
   given, what undoes it) */
static PyObject *connect_inside(PyObject *module, PyObject *args) {
    PyObject *v[5], **places[] = {&inside.made, &inside.no_memory, &inside.ignore, &inside.flags, &inside.restore};
    if (!PyArg_ParseTuple(args, "OOOOO", v, v + 1, v + 2, v + 3, v + 4))
        return NULL;
    if (!(inside.recording = PyUnicode_InternFromString("RECORDING")) || !(inside.number = PyUnicode_InternFromString("SEQ")))
        return NULL;
    for (int i = 0; i < 5; i++)
        Py_XSETREF(*places[i], Py_NewRef(v[i]));
    Py_RETURN_NONE;
}

/* without_graph(function, arguments…): a call in which no graph is built. */
static PyObject *without_graph(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!count)
        return PyErr_Format(PyExc_TypeError, "expected a function");
    int building = builds_graphs();
    PyObject *switched = building > 0 ? set_grad(module, Py_False) : Py_NewRef(Py_None);
    if (building < 0 || !switched) {
        Py_XDECREF(switched);
        return NULL;
    }
    Py_DECREF(switched);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, count - 1, NULL), *type, *value, *traceback;
    if (!building)
        return result;
    PyErr_Fetch(&type, &value, &traceback);
    switched = set_grad(module, Py_True);
    if (!switched)
        Py_CLEAR(result);
    else if (type)
        PyErr_Restore(type, value, traceback), type = value = traceback = NULL;
    Py_XDECREF(switched);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return result;
}

static PyMemberDef inside_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Inside, call), READONLY, NULL}, {NULL}};
static PyType_Slot inside_slots[] = {{Py_tp_dealloc, inside_dealloc}, {Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_getattro, inside_get},    {Py_tp_members, inside_members},
                                     {0, NULL}};
static PyType_Spec inside_spec = {"mindtorch_v2.core._helper.Inside", sizeof(Inside), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, inside_slots};
