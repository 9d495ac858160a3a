/* A backward pass through nodes that have no hooks, where nobody or only a recorder looks on. */

static struct {
    PyObject *listeners, *announce;            /* of roles; what tells them of a leaf */
    PyObject *release;                         /* how a node drops what it saved */
    PyObject *push, *pop;                      /* of `heapq` */
    PyObject *hook, *saving, *recording;       /* names in the namespace */
    PyObject *run_name, *release_name, *events_name, *ids_name, *shown_name;
    Py_ssize_t grad_offset;
    long long detach; /* the event of that op */
} engine;

/* What `autograd.engine` keeps of a pass. */
typedef struct {
    PyObject *heap, *buffers, *waiting, *order, *deliver, *store;
    PyObject *needed, *wanted; /* the nodes on the way to those whose gradients are asked for, and these; None for all */
    int keep, create;
} Pass;

enum { FAILED = -1, IN_PYTHON, UNSEEN, RECORDED };

static PyObject **node_slot(PyObject *node, int slot) { return (PyObject **)((char *)node + given.node_offsets[slot]); }

static int way_to_run(const Pass *pass, PyObject *node) {
    PyObject *hook = PyDict_GetItemWithError(given.namespace, engine.hook);
    if (*node_slot(node, 5) != Py_None || PyDict_GetItemWithError(given.namespace, engine.saving) != Py_None)
        return IN_PYTHON;
    int wanted = pass->wanted == Py_None ? 0 : PyDict_Contains(pass->wanted, node);
    if (wanted)
        return wanted < 0 ? FAILED : IN_PYTHON;
    if (hook == Py_False)
        return UNSEEN;
    return PyDict_GetItemWithError(given.namespace, engine.recording) == Py_True ? RECORDED : IN_PYTHON;
}

/* The ids of the two events of a kind of node: evaluate_function, and the node itself. */
static int ids_of(PyObject *node, int64_t *ids) {
    PyObject *known = PyObject_GetAttr((PyObject *)Py_TYPE(node), engine.events_name);
    if (known && (known == Py_None || PyTuple_GET_ITEM(known, 2) != (PyObject *)Py_TYPE(node)))
        Py_SETREF(known, PyObject_CallMethodNoArgs(node, engine.ids_name));
    for (int i = 0; known && i < 2; i++)
        ids[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(known, i));
    Py_XDECREF(known);
    return PyErr_Occurred() ? -1 : 0;
}

/* Begin the region of a node itself, with the shapes of what arrives if they are wanted. */
static int begin_node(PyObject *node, PyObject *grads, int64_t seq) {
    if (!(given.flags & SHAPES))
        return push(seq, 0, 0);
    PyObject *shown = Py_NewRef(grads);
    if (PyTuple_GET_SIZE(grads) > 1)
        Py_SETREF(shown, PyObject_CallMethodOneArg(node, engine.shown_name, grads));
    int64_t id = shown ? inputs_id(&PyTuple_GET_ITEM(shown, 0), PyTuple_GET_SIZE(shown), 0) : -1;
    Py_XDECREF(shown);
    return id < 0 ? -1 : push(seq, id, 0);
}

/* Whether a gradient's memory is held by nobody else, and can be kept as it is. */
static int is_alone(PyObject *gradient) {
    if (Py_REFCNT(gradient) != 1 || Py_TYPE(gradient) != given.tensor)
        return 0;
    Array *array = (Array *)array_of(gradient);
    PyObject *storage = *(PyObject **)((char *)gradient + given.storage_offset);
    return Py_TYPE(array) == ndarray && array->flags & 1 /* contiguous */ && (storage == Py_None || Py_REFCNT(storage) == 1);
}

static int is_in_no_graph(PyObject *tensor) {
    char *slots = (char *)tensor;
    return *(PyObject **)(slots + given.graph_offset) == Py_None && *(PyObject **)(slots + given.view_offset) == Py_None;
}

/* Put a gradient that is alone where a leaf keeps its own: a tensor on the same memory, as the op that detaches makes it. */
static int keep_detached(PyObject **there, PyObject *gradient) {
    int64_t id = given.flags & SHAPES ? inputs_id(&gradient, 1, 1) : 0;
    if (id < 0 || push(-1, id, 1) < 0)
        return -1;
    PyObject *storage = storage_of(gradient), *kept = storage ? wrap(NULL, array_of(gradient)) : NULL;
    if (kept) {
        Py_SETREF(*(PyObject **)((char *)kept + given.storage_offset), Py_NewRef(storage));
        Py_SETREF(*there, kept);
    }
    pop(engine.detach);
    return kept ? 0 : -1;
}

/* Add a gradient, in a list of one so that nothing on its way keeps a reference to it, to what a leaf has. */
static int add_to_leaf(const Pass *pass, PyObject *leaf, PyObject *holder, int way) {
    PyObject **there = (PyObject **)((char *)leaf + engine.grad_offset);
    if (way == RECORDED && !pass->create && *there == Py_None && is_alone(PyList_GET_ITEM(holder, 0)))
        return keep_detached(there, PyList_GET_ITEM(holder, 0)) < 0 ? -1 : PyList_SetSlice(holder, 0, 1, NULL);
    PyObject *done = PyObject_CallFunctionObjArgs(pass->store, leaf, holder, pass->create ? Py_True : Py_False, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The same as two events, one inside of the other; then whoever sorts memory is told. */
static int add_recorded(const Pass *pass, PyObject *leaf, PyObject *holder) {
    int64_t ids[2];
    if (ids_of(leaf, ids) < 0 || push(-1, 0, 0) < 0)
        return -1;
    int64_t id = given.flags & SHAPES ? inputs_id(&PyList_GET_ITEM(holder, 0), 1, 0) : 0;
    int entered = id >= 0 && push(-1, id, 0) == 0, failed = !entered || add_to_leaf(pass, leaf, holder, RECORDED) < 0;
    if (entered)
        pop(ids[1]);
    if (!failed && PyList_GET_SIZE(engine.listeners)) {
        PyObject *done = PyObject_CallOneArg(engine.announce, leaf);
        failed = !done;
        Py_XDECREF(done);
    }
    pop(ids[0]);
    return failed ? -1 : 0;
}

/* Add a gradient, whose reference is taken over, to what a leaf has. */
static int put_down(const Pass *pass, PyObject *leaf, PyObject *gradient, int way) {
    PyObject **there = (PyObject **)((char *)leaf + engine.grad_offset);
    if (way == UNSEEN && !pass->create && *there == Py_None && is_alone(gradient) && is_in_no_graph(gradient)) {
        Py_SETREF(*there, gradient);
        return 0;
    }
    PyObject *holder = PyList_New(1);
    if (!holder) {
        Py_DECREF(gradient);
        return -1;
    }
    PyList_SET_ITEM(holder, 0, gradient);
    int failed = way == UNSEEN ? add_to_leaf(pass, leaf, holder, way) : add_recorded(pass, leaf, holder);
    Py_DECREF(holder);
    return failed;
}

static int drop_saved(PyObject *node) {
    PyObject *release = PyObject_GetAttr((PyObject *)Py_TYPE(node), engine.release_name);
    if (!release)
        return -1;
    Py_DECREF(release);
    if (release == engine.release) {
        PyObject *none = Py_NewRef(Py_None);
        Py_SETREF(*node_slot(node, 1), none);
        return 0;
    }
    PyObject *done = PyObject_CallMethodNoArgs(node, engine.release_name);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* What a node makes of the gradients of its outputs, as a list; the reference to them is taken over. */
static PyObject *results_of(const Pass *pass, PyObject *node, PyObject *grads) {
    PyObject *made = PyObject_CallMethodOneArg(node, engine.run_name, grads), *results = made ? PySequence_List(made) : NULL;
    Py_XDECREF(made);
    if (results && !pass->keep && drop_saved(node) < 0)
        Py_CLEAR(results);
    return results;
}

static int schedule(const Pass *pass, PyObject *ready);

/* Run a node with what has arrived at it, hand its results on, and say what can run now. */
static PyObject *evaluate(const Pass *pass, PyObject *node, PyObject *arrived, int way) {
    PyObject *grads = PyList_CheckExact(arrived) ? PyList_AsTuple(arrived) : PyTuple_Pack(1, arrived);
    PyObject *results = NULL, *ready = NULL;
    int64_t ids[2], opened = 0;
    Py_DECREF(arrived);
    if (grads && way == RECORDED) {
        int64_t seq = PyLong_AsLongLong(*node_slot(node, 2));
        if (ids_of(node, ids) == 0 && push(seq, 0, 0) == 0)
            opened = 1 + (begin_node(node, grads, seq) == 0);
    }
    if (grads && (way == UNSEEN || opened == 2))
        results = results_of(pass, node, grads);
    if (opened == 2)
        pop(ids[--opened]);
    /* What arrived goes before the results are handed on, and while the event lasts. */
    Py_XDECREF(grads);
    if (results) {
        PyObject *given_on[] = {*node_slot(node, 0), results, pass->waiting, pass->buffers, pass->deliver};
        ready = pass_on(NULL, given_on, 5);
        Py_DECREF(results);
    }
    if (opened)
        pop(ids[0]);
    return ready;
}

/* Run a node; IN_PYTHON, with nothing done, for one that is to be run there. */
static int run_node(const Pass *pass, PyObject *node) {
    int way = way_to_run(pass, node);
    PyObject *arrived = way <= IN_PYTHON ? NULL : PyDict_GetItemWithError(pass->buffers, node);
    if (!arrived || *node_slot(node, 1) == Py_None)
        return PyErr_Occurred() ? FAILED : IN_PYTHON;
    Py_INCREF(arrived);
    if (PyDict_DelItem(pass->buffers, node) < 0) {
        Py_DECREF(arrived);
        return FAILED;
    }
    if (Py_TYPE(node) == given.leaf)
        return put_down(pass, node, arrived, way) < 0 ? FAILED : way;
    PyObject *ready = evaluate(pass, node, arrived, way);
    int failed = !ready || schedule(pass, ready) < 0;
    Py_XDECREF(ready);
    return failed ? FAILED : way;
}

/* Have nodes wait for their turn, the newest first. A leaf is newer than all and runs at once, unless one waits already. */
static int schedule(const Pass *pass, PyObject *ready) {
    int at_once = 1, failed = 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(ready); i++) {
        PyObject *node = PyList_GET_ITEM(ready, i);
        int needed = pass->needed == Py_None ? 1 : PySet_Contains(pass->needed, node);
        if (needed <= 0) {
            failed = needed < 0;
            continue;
        }
        if (at_once && Py_TYPE(node) == given.leaf) {
            int ran = run_node(pass, node);
            failed = ran == FAILED;
            at_once = ran != IN_PYTHON;
            if (at_once)
                continue;
        }
        PyObject *rank = PyNumber_Negative(*node_slot(node, 2)), *order = PyIter_Next(pass->order);
        PyObject *entry = rank && order ? PyTuple_Pack(3, rank, order, node) : NULL;
        PyObject *done = entry ? PyObject_CallFunctionObjArgs(engine.push, pass->heap, entry, NULL) : NULL;
        failed = !done;
        Py_XDECREF(rank);
        Py_XDECREF(order);
        Py_XDECREF(entry);
        Py_XDECREF(done);
    }
    return failed ? -1 : 0;
}

/* walk(heap, buffers, waiting, order, deliver, store, needed, wanted, keep, create): run the nodes that are ready, newest first, until one is
   to be run in Python, which is returned, or none is left. */
static PyObject *walk(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 10)
        return PyErr_Format(PyExc_TypeError, "expected 10 arguments, got %zd", count);
    Pass pass = {args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7], args[8] == Py_True, args[9] == Py_True};
    while (PyList_GET_SIZE(pass.heap)) {
        PyObject *entry = PyObject_CallOneArg(engine.pop, pass.heap), *node = entry ? PyTuple_GET_ITEM(entry, 2) : NULL;
        if (!entry)
            return NULL;
        Py_INCREF(node);
        Py_DECREF(entry);
        int ran = run_node(&pass, node);
        if (ran == IN_PYTHON)
            return node;
        Py_DECREF(node);
        if (ran == FAILED)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* connect_detach(the event of that op) */
static PyObject *connect_detach(PyObject *module, PyObject *event) {
    engine.detach = PyLong_AsLongLong(event);
    if (engine.detach == -1 && PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *connect_engine(PyObject *module, PyObject *args) {
    if (!PyArg_ParseTuple(args, "O!OOOO", &PyList_Type, &engine.listeners, &engine.announce, &engine.release, &engine.push,
                          &engine.pop))
        return NULL;
    for (Py_ssize_t i = 0; i < 5; i++)
        Py_INCREF(PyTuple_GET_ITEM(args, i)); /* for good: there is one of each */
    struct {
        PyObject **place;
        const char *text;
    } names[] = {{&engine.hook, "HOOK"},         {&engine.saving, "SAVING"},         {&engine.recording, "RECORDING"},
                 {&engine.run_name, "run"},      {&engine.release_name, "release"},  {&engine.events_name, "events"},
                 {&engine.ids_name, "event_ids"}, {&engine.shown_name, "differentiable"}};
    for (int i = 0; i < 8; i++)
        if (!(*names[i].place = PyUnicode_InternFromString(names[i].text)))
            return NULL;
    Py_RETURN_NONE;
}
