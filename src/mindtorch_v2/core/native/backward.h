/* A backward pass through nodes that have no hooks, where nobody or only a recorder looks on. */

static struct {
    PyObject *listeners, *announce;            /* of roles; what tells them of a leaf */
    PyObject *release, *keep;                  /* how a node drops what it saved; how it does where that is nothing */
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

static PyObject **node_slot(PyObject *node, int slot) { return (PyObject **)((char *)node + globals.node_offsets[slot]); }

static int way_to_run(const Pass *pass, PyObject *node) {
    PyObject *hook = PyDict_GetItemWithError(globals.namespace, engine.hook); /* True or False, which stay */
    if (*node_slot(node, 5) != Py_None || PyDict_GetItemWithError(globals.namespace, engine.saving) != Py_None)
        return IN_PYTHON;
    int wanted = pass->wanted == Py_None ? 0 : PyDict_Contains(pass->wanted, node);
    if (wanted)
        return wanted < 0 ? FAILED : IN_PYTHON;
    if (hook == Py_False)
        return UNSEEN;
    return PyDict_GetItemWithError(globals.namespace, engine.recording) == Py_True ? RECORDED : IN_PYTHON;
}

/* The ids of the two events of a kind of node: evaluate_function, and the node itself. */
static int ids_of(PyObject *node, int64_t *ids) {
    PyObject *kind = (PyObject *)Py_TYPE(node), *known = PyObject_GetAttr(kind, engine.events_name);
    if (known && !(PyTuple_CheckExact(known) && PyTuple_GET_SIZE(known) == 3 && PyTuple_GET_ITEM(known, 2) == kind))
        Py_SETREF(known, PyObject_CallMethodNoArgs(node, engine.ids_name));
    if (known && !(PyTuple_CheckExact(known) && PyTuple_GET_SIZE(known) == 3))
        Py_SETREF(known, PyErr_Format(PyExc_TypeError, "expected two event ids and a class, got %s", Py_TYPE(known)->tp_name));
    int failed = !known;
    for (int i = 0; !failed && i < 2; i++)
        failed = read_int(PyTuple_GET_ITEM(known, i), &ids[i]) < 0;
    Py_XDECREF(known);
    return failed ? -1 : 0;
}

/* Begin the region of a node itself, with the shapes of what arrives if they are wanted. */
static int begin_node(PyObject *node, PyObject *grads, int64_t seq) {
    if (!(globals.flags & SHAPES))
        return push(seq, 0, 0);
    PyObject *shown = Py_NewRef(grads);
    if (PyTuple_GET_SIZE(grads) > 1)
        Py_SETREF(shown, PyObject_CallMethodOneArg(node, engine.shown_name, grads));
    if (shown && !PyTuple_CheckExact(shown))
        Py_SETREF(shown, PyErr_Format(PyExc_TypeError, "expected a tuple of gradients, got %s", Py_TYPE(shown)->tp_name));
    int64_t id = shown ? inputs_id(&PyTuple_GET_ITEM(shown, 0), PyTuple_GET_SIZE(shown), 0) : -1;
    Py_XDECREF(shown);
    return id < 0 ? -1 : push(seq, id, 0);
}

/* Whether a gradient's memory is held by nobody else, and can be kept as it is. */
static int is_alone(PyObject *gradient, PyObject *leaf) {
    if (Py_REFCNT(gradient) != 1 || Py_TYPE(gradient) != globals.tensor)
        return 0;
    Array *array = plain_array(gradient), *own = (Array *)slot_of(leaf, globals.leaf_array_offset);
    PyObject *storage = slot_of(gradient, globals.storage_offset);
    if (!array || !own || Py_TYPE(own) != ndarray || !storage)
        return 0;
    return array->flags & own->flags & 1 /* contiguous, as the leaf is */ && (storage == Py_None || Py_REFCNT(storage) == 1);
}

static int is_in_no_graph(PyObject *tensor) {
    char *slots = (char *)tensor;
    return *(PyObject **)(slots + globals.graph_offset) == Py_None && *(PyObject **)(slots + globals.view_offset) == Py_None;
}

/* Whether a leaf has no gradient yet, and this one can become it. */
static int can_keep(PyObject *there, PyObject *gradient, PyObject *leaf) { return there == Py_None && is_alone(gradient, leaf); }

/* keep_grad(leaf, gradient): make it the leaf's gradient where that has none; whether it had none. Nothing runs in between. */
static PyObject *keep_grad(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != globals.leaf)
        return PyErr_Format(PyExc_TypeError, "expected a leaf and a gradient");
    PyObject **there = (PyObject **)((char *)args[0] + engine.grad_offset);
    if (*there && *there != Py_None)
        Py_RETURN_FALSE;
    Py_XSETREF(*there, Py_NewRef(args[1]));
    Py_RETURN_TRUE;
}

/* Put a gradient that is alone where a leaf keeps its own: a tensor on the same memory, as the op that detaches makes it. 0
   where another thread was first, -1 for an error. */
static int keep_detached(PyObject *leaf, PyObject *gradient) {
    PyObject **there = (PyObject **)((char *)leaf + engine.grad_offset);
    int64_t id = globals.flags & SHAPES ? inputs_id(&gradient, 1, 1) : 0;
    if (id < 0 || push(-1, id, 1) < 0)
        return -1;
    PyObject *kept = wrap(NULL, array_of(gradient)), *storage = kept ? storage_of(gradient) : NULL;
    int keeps = storage && can_keep(*there, gradient, leaf);
    if (keeps) {
        Py_SETREF(*(PyObject **)((char *)kept + globals.storage_offset), Py_NewRef(storage));
        Py_SETREF(*there, Py_NewRef(kept));
    }
    pop(storage && !keeps ? NOTHING_HAPPENED : engine.detach);
    Py_XDECREF(kept);
    return storage ? keeps : -1;
}

/* Add a gradient, in a list of one so that nothing on its way keeps a reference to it, to what a leaf has. */
static int add_to_leaf(const Pass *pass, PyObject *leaf, PyObject *holder, int way) {
    PyObject **there = (PyObject **)((char *)leaf + engine.grad_offset);
    if (way == RECORDED && !pass->create && can_keep(*there, PyList_GET_ITEM(holder, 0), leaf)) {
        int kept = keep_detached(leaf, PyList_GET_ITEM(holder, 0));
        if (kept)
            return kept < 0 ? -1 : PyList_SetSlice(holder, 0, 1, NULL);
    }
    PyObject *done = PyObject_CallFunctionObjArgs(pass->store, leaf, holder, pass->create ? Py_True : Py_False, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The same as two events, one inside of the other; then whoever sorts memory is told. */
static int add_recorded(const Pass *pass, PyObject *leaf, PyObject *holder) {
    int64_t ids[2];
    if (ids_of(leaf, ids) < 0 || push(-1, 0, 0) < 0)
        return -1;
    int64_t id = globals.flags & SHAPES ? inputs_id(&PyList_GET_ITEM(holder, 0), 1, 0) : 0;
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
    if (way == UNSEEN && !pass->create && can_keep(*there, gradient, leaf) && is_in_no_graph(gradient)) {
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
    if (release == engine.keep)
        return 0;
    if (release == engine.release) {
        Py_XSETREF(*node_slot(node, 1), Py_NewRef(Py_None));
        return 0;
    }
    PyObject *done = PyObject_CallMethodNoArgs(node, engine.release_name);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The edges of a node, with None for those that lead nowhere anybody asked for. */
static PyObject *edges_requested(const Pass *pass, PyObject *node) {
    PyObject *edges = edges_of(node);
    if (!edges || pass->needed == Py_None)
        return edges;
    PyObject *asked = PyTuple_New(PyTuple_GET_SIZE(edges));
    for (Py_ssize_t i = 0; asked && i < PyTuple_GET_SIZE(edges); i++) {
        PyObject *edge = PyTuple_GET_ITEM(edges, i);
        PyObject *to = node_at(edge);
        int needed = edge == Py_None || !to ? 0 : PySet_Contains(pass->needed, to);
        if (needed < 0)
            Py_CLEAR(asked);
        else
            PyTuple_SET_ITEM(asked, i, Py_NewRef(needed ? edge : Py_None));
    }
    Py_DECREF(edges);
    return asked;
}

/* What a node makes of the gradients of its outputs for the edges asked for, as a list. */
static PyObject *results_of(const Pass *pass, PyObject *node, PyObject *grads, PyObject *edges) {
    PyObject *made = PyObject_CallMethodObjArgs(node, engine.run_name, grads, edges, NULL);
    PyObject *results = made ? PySequence_List(made) : NULL;
    Py_XDECREF(made);
    if (results && !pass->keep && drop_saved(node) < 0)
        Py_CLEAR(results);
    return results;
}

static int schedule(const Pass *pass, PyObject *ready);

/* The sequence number of a node; -1 with an exception set where it has none. */
static int number_of(PyObject *node, int64_t *number) {
    if (*node_slot(node, 2))
        return read_int(*node_slot(node, 2), number);
    PyErr_SetString(PyExc_AttributeError, "seq");
    return -1;
}

/* Run a node with what has arrived at it, hand its results on, and say what can run now. */
static PyObject *evaluate(const Pass *pass, PyObject *node, PyObject *arrived, int way) {
    PyObject *grads = PyList_CheckExact(arrived) ? PyList_AsTuple(arrived) : PyTuple_Pack(1, arrived);
    PyObject *results = NULL, *ready = NULL, *edges = edges_requested(pass, node);
    int64_t ids[2], seq, opened = 0;
    Py_DECREF(arrived);
    if (!edges)
        Py_CLEAR(grads);
    if (grads && way == RECORDED && number_of(node, &seq) == 0 && ids_of(node, ids) == 0 && push(seq, 0, 0) == 0)
        opened = 1 + (begin_node(node, grads, seq) == 0);
    if (grads && (way == UNSEEN || opened == 2))
        results = results_of(pass, node, grads, edges);
    if (opened == 2)
        pop(ids[--opened]);
    /* What arrived goes before the results are handed on, and while the event lasts. */
    Py_XDECREF(grads);
    if (results)
        ready = pass_on(NULL, (PyObject *const[]){edges, results, pass->waiting, pass->buffers, pass->deliver}, 5);
    Py_XDECREF(results);
    if (opened)
        pop(ids[0]);
    Py_XDECREF(edges);
    return ready;
}

/* Run a node; IN_PYTHON, with nothing done, for one that is to be run there. */
static int run_node(const Pass *pass, PyObject *node) {
    int way = way_to_run(pass, node);
    PyObject *arrived = way <= IN_PYTHON ? NULL : PyDict_GetItemWithError(pass->buffers, node);
    if (!arrived)
        return PyErr_Occurred() ? FAILED : IN_PYTHON;
    Py_INCREF(arrived);
    if (PyDict_DelItem(pass->buffers, node) < 0) {
        Py_DECREF(arrived);
        return FAILED;
    }
    if (Py_TYPE(node) == globals.leaf)
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
        if (at_once && Py_TYPE(node) == globals.leaf) {
            int ran = run_node(pass, node);
            failed = ran == FAILED;
            at_once = ran != IN_PYTHON;
            if (at_once)
                continue;
        }
        int64_t number;
        PyObject *rank = number_of(node, &number) < 0 ? NULL : PyLong_FromLongLong(-number);
        PyObject *order = rank ? PyIter_Next(pass->order) : NULL;
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
    if (!PyList_CheckExact(args[0]) || !PyDict_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "expected a list and a dict first");
    Pass pass = {args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7], args[8] == Py_True, args[9] == Py_True};
    while (PyList_GET_SIZE(pass.heap)) {
        PyObject *entry = PyObject_CallOneArg(engine.pop, pass.heap), *node = entry ? PyTuple_GET_ITEM(entry, 2) : NULL;
        if (!entry)
            return NULL; /* or else three items, as `schedule` and `_push` put them there */
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
    PyObject *v[6];
    if (!PyArg_ParseTuple(args, "O!OOOOO", &PyList_Type, v, v + 1, v + 2, v + 3, v + 4, v + 5))
        return NULL;
    for (int i = 0; i < 6; i++)
        Py_INCREF(v[i]); /* for good: there is one of each */
    engine.listeners = v[0], engine.announce = v[1], engine.release = v[2], engine.keep = v[3];
    engine.push = v[4], engine.pop = v[5];
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
