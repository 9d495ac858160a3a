/* Lists of ops performed on many tensors one after another, as the update of an optimizer is on parameters; each op is
   recorded as one that is called from Python. */

enum { MOST_STEPS = 32, MOST_OPERANDS = 5, MOST_REGISTERS = 96 };
enum { NUMBERS = 16, MADE = 48 }; /* registers before hold tensors of a round, then come numbers, then what ops have made */
enum { PLAIN = 0x1 | 0x100 | 0x400 }; /* row-major, aligned and writeable */

typedef struct {
    PyObject *kernel;       /* arrays and numbers -> array */
    PyObject *names;        /* by which the kernel takes `out`; None: as its last argument */
    long long event, inner; /* that of the op, and of one right inside of it or -1 */
    int result, fresh;      /* its register or -1 where nobody asks for it, and whether that gets a new tensor */
    Py_ssize_t arguments, operands;
    const unsigned char *argument, *operand; /* registers of what is recorded and of what the kernel gets */
} Step;

static int is_plain_tensor(PyObject *tensor) {
    if (Py_TYPE(tensor) != globals.tensor && Py_TYPE(tensor) != globals.parameter)
        return 0;
    PyObject *storage = slot_of(tensor, globals.storage_offset);
    Array *a = plain_array(tensor);
    return a && storage && (a->flags & PLAIN) == PLAIN &&
           (storage == Py_None || Py_TYPE(storage) == globals.storage || Py_TYPE(storage) == globals.counted);
}

/* Whether a tensor is like another, on memory of its own; one without dimensions is a counter, of any type. -1 with an
   exception set for an error. */
static int goes_with(PyObject *tensor, PyObject *first) {
    Array *a = (Array *)array_of(tensor), *b = (Array *)array_of(first);
    if (a->ndim == 0)
        return 1;
    if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)))
        return 0;
    int64_t bytes = bytes_of((PyObject *)a);
    return bytes < 0 ? -1 : a->data + bytes <= b->data || b->data + bytes <= a->data;
}

/* Whether a tensor is of the type of the first in its column, and of the same number if it is a counter. */
static int is_in_step(PyObject *tensor, PyObject *first, int64_t counter_bytes) {
    Array *a = (Array *)array_of(tensor), *b = (Array *)array_of(first);
    return a->dtype == b->dtype && !a->ndim == !b->ndim && (a->ndim || !memcmp(a->data, b->data, counter_bytes));
}

/* What a step is performed on: lists of tensors (parameters, gradients), then what each of a list of dicts (states) has by so
   many names. The columns hold all tensors, round by round, so that they outlast whatever a finalizer or another thread
   does meanwhile to lists and states. */
typedef struct {
    PyObject *lists[2], *states, *names;
    Py_ssize_t width, rounds, held;
    PyObject **tensors;
} Columns;

static PyObject *tensor_of(const Columns *columns, Py_ssize_t k, Py_ssize_t round) {
    return columns->tensors[round * columns->width + k];
}

static void let_go(Columns *columns) {
    while (columns->held)
        Py_DECREF(columns->tensors[--columns->held]);
    PyMem_Free(columns->tensors);
}

/* What is at a place of a list now, as a new reference; NULL without an exception where the list is too short. */
static PyObject *item_of(PyObject *list, Py_ssize_t place) {
    return place < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, place)) : NULL;
}

/* A tensor of a round as a new reference; NULL where there is none, with an exception set for an error. */
static PyObject *found_tensor(const Columns *columns, Py_ssize_t k, Py_ssize_t round) {
    if (k < 2)
        return item_of(columns->lists[k], round);
    PyObject *state = item_of(columns->states, round), *name = item_of(columns->names, k - 2);
    PyObject *found = state && name && PyDict_CheckExact(state) ? Py_XNewRef(PyDict_GetItemWithError(state, name)) : NULL;
    Py_XDECREF(state);
    Py_XDECREF(name);
    return found;
}

static int are_columns(Columns *columns) {
    columns->width = 2 + PyList_GET_SIZE(columns->names);
    columns->rounds = PyList_GET_SIZE(columns->states);
    int fits = PyList_GET_SIZE(columns->lists[0]) == columns->rounds && PyList_GET_SIZE(columns->lists[1]) == columns->rounds;
    for (Py_ssize_t i = 0; fits && i < columns->rounds; i++)
        fits = PyDict_CheckExact(PyList_GET_ITEM(columns->states, i));
    if (!fits)
        PyErr_SetString(PyExc_TypeError, "expected as many parameters as gradients and states");
    return fits;
}

/* Takes hold of all tensors; whether all are there and plain, without an exception where one is not. */
static int hold_columns(Columns *columns) {
    Py_ssize_t count = columns->rounds * columns->width;
    if (!(columns->tensors = PyMem_New(PyObject *, count ? count : 1))) {
        PyErr_NoMemory();
        return 0;
    }
    for (; columns->held < count; columns->held++) {
        PyObject *tensor = found_tensor(columns, columns->held % columns->width, columns->held / columns->width);
        if (!tensor)
            return 0;
        columns->tensors[columns->held] = tensor;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_plain_tensor(columns->tensors[i]))
            return 0;
    return 1;
}

/* Whether those of every round are alike where they have dimensions, and in step with those of the first; nothing runs
   meanwhile that could change them. */
static int are_alike(const Columns *columns) {
    int64_t counter_bytes[NUMBERS] = {0};
    for (Py_ssize_t i = 0; i < columns->rounds; i++)
        for (Py_ssize_t k = 0; k < columns->width; k++) {
            PyObject *first = tensor_of(columns, k, 0), *tensor = tensor_of(columns, k, i);
            if (k == 0 && ((Array *)array_of(tensor))->ndim == 0)
                return 0;
            if (!i && !((Array *)array_of(tensor))->ndim && (counter_bytes[k] = bytes_of(array_of(tensor))) < 0)
                return 0;
            if (!is_in_step(tensor, first, counter_bytes[k]))
                return 0;
            for (Py_ssize_t j = 0; j < k; j++) {
                PyObject *other = tensor_of(columns, j, i);
                if (((Array *)array_of(other))->ndim && goes_with(tensor, other) <= 0)
                    return 0;
            }
        }
    return 1;
}

static int count_change(PyObject *tensor) {
    Storage *storage = (Storage *)storage_of(tensor);
    int64_t version;
    if (!storage || !storage->version || read_int(storage->version, &version) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_AttributeError, "version");
        return -1;
    }
    PyObject *next = PyLong_FromLongLong(version + 1);
    if (!next)
        return -1;
    Py_SETREF(storage->version, next);
    return 0;
}

/* A tensor on what a kernel has made (a reference that is taken over). */
static PyObject *made_tensor(PyObject *array) {
    PyObject *tensor = wrap(NULL, array), *token = NULL;
    if (tensor && globals.flags & MEMORY) {
        if ((token = counted_storage(array, 1)))
            Py_SETREF(*(PyObject **)((char *)tensor + globals.storage_offset), token);
        else
            Py_CLEAR(tensor);
    }
    Py_DECREF(array);
    return tensor;
}

/* What a kernel gets for a register, a new reference: an array where it is a tensor on one. */
static PyObject *array_or_value(PyObject *value) {
    int is_plain = Py_TYPE(value) == globals.tensor || Py_TYPE(value) == globals.parameter;
    return Py_NewRef(is_plain && array_of(value) ? array_of(value) : value);
}

/* What a step works on, -1 with an exception set on failure: its result goes into a tensor that is there (`into`), or is a
   new one. */
static int call_kernel(const Step *step, PyObject **registers, PyObject *into) {
    PyObject *given_to[MOST_OPERANDS + 1];
    Py_ssize_t count = 0;
    for (; count < step->operands; count++)
        given_to[count] = array_or_value(registers[step->operand[count]]);
    Py_ssize_t positional = count;
    if (into)
        given_to[count++] = array_or_value(into);
    else if (step->names == Py_None && step->result >= 0)
        given_to[count++] = Py_NewRef(Py_None);
    int named = step->names != Py_None && into;
    PyObject *made = PyObject_Vectorcall(step->kernel, given_to, named ? positional : count, named ? step->names : NULL);
    while (count)
        Py_DECREF(given_to[--count]);
    if (made && step->result >= 0 && Py_TYPE(made) != ndarray) {
        PyErr_Format(PyExc_RuntimeError, "a kernel did not take what an optimizer's update gave it: %R", step->kernel);
        Py_CLEAR(made);
    }
    if (made && step->fresh && !into)
        return (registers[step->result] = made_tensor(made)) ? 0 : -1;
    Py_XDECREF(made);
    return made ? 0 : -1;
}

/* What a step makes goes where something lies that was made before and that nobody needs any more, so that it is written
   to memory that is at hand. Where memory is recorded it gets its own, as it had from the op. */
static PyObject *left_over(const Step *step, PyObject **registers, const Py_ssize_t *last, Py_ssize_t number) {
    for (Py_ssize_t i = 0; i < step->operands && !(globals.flags & MEMORY); i++)
        if (step->operand[i] >= MADE && last[step->operand[i]] == number)
            return registers[step->operand[i]];
    return NULL;
}

static int run_kernel(const Step *step, PyObject **registers, const Py_ssize_t *last, Py_ssize_t number) {
    if (!step->fresh) {
        PyObject *into = step->result < 0 ? NULL : registers[step->result];
        return call_kernel(step, registers, into) < 0 || (into && count_change(into) < 0) ? -1 : 0;
    }
    PyObject *spare = left_over(step, registers, last, number);
    if (call_kernel(step, registers, spare) < 0)
        return -1;
    if (spare)
        registers[step->result] = Py_NewRef(spare);
    return 0;
}

static int perform_step(const Step *step, PyObject **registers, const Py_ssize_t *last, Py_ssize_t number) {
    PyObject *arguments[MOST_OPERANDS];
    for (Py_ssize_t i = 0; i < step->arguments; i++)
        arguments[i] = registers[step->argument[i]];
    int64_t id = globals.flags & SHAPES ? inputs_id(arguments, step->arguments, 1) : 0;
    if (id < 0 || push(-1, id, 1) < 0)
        return -1;
    int entered = step->inner < 0 || push(-1, id, 1) == 0;
    int failed = !entered || run_kernel(step, registers, last, number) < 0;
    if (entered && step->inner >= 0)
        pop(step->inner);
    pop(step->event);
    return failed ? -1 : 0;
}

/* How far each band of registers is filled, and the last step that needs each register. */
typedef struct {
    Py_ssize_t tensors, numbers, made, last[MOST_REGISTERS];
} Filled;

static int is_filled(const Filled *filled, int k) {
    return k < NUMBERS ? k < filled->tensors : k < MADE ? k < NUMBERS + filled->numbers : k < MADE + filled->made;
}

static int are_filled(Filled *filled, const unsigned char *named, Py_ssize_t count, Py_ssize_t step) {
    int fits = count <= MOST_OPERANDS;
    for (Py_ssize_t i = 0; i < count && fits; i++)
        if ((fits = is_filled(filled, named[i])))
            filled->last[named[i]] = step;
    return fits;
}

/* Reads steps; -1 with an exception set for what makes no sense. */
static int read_steps(PyObject *tuple, Step *steps, Filled *filled) {
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    if (count > MOST_STEPS || filled->tensors > NUMBERS || filled->numbers > MADE - NUMBERS) {
        PyErr_Format(PyExc_ValueError, "too many steps (%zd), tensors (%zd) or numbers (%zd)", count, filled->tensors,
                     filled->numbers);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Step *step = &steps[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "LLOOipy#y#", &step->event, &step->inner, &step->kernel,
                              &step->names, &step->result, &step->fresh, &step->argument, &step->arguments, &step->operand,
                              &step->operands))
            return -1;
        int k = step->result, fits = are_filled(filled, step->argument, step->arguments, i) &&
                                     are_filled(filled, step->operand, step->operands, i);
        if (fits && step->fresh)
            fits = k == MADE + filled->made++;
        else if (fits && k != -1)
            fits = k >= 0 && (k < NUMBERS || k >= MADE) && is_filled(filled, k);
        if (!fits) {
            PyErr_Format(PyExc_ValueError, "step %zd names what is not there", i);
            return -1;
        }
        if (k >= 0)
            filled->last[k] = i;
    }
    return 0;
}

/* All steps on the tensors of each round. Registers of tensors and numbers are borrowed. */
static int perform_rounds(const Step *steps, Py_ssize_t count, const Columns *columns, const Filled *filled,
                          PyObject **registers) {
    int failed = 0;
    for (Py_ssize_t round = 0; round < columns->rounds && !failed; round++) {
        for (Py_ssize_t k = 0; k < columns->width; k++)
            registers[k] = tensor_of(columns, k, round);
        for (Py_ssize_t i = 0; i < count && !failed; i++) {
            failed = perform_step(&steps[i], registers, filled->last, i) < 0;
            for (Py_ssize_t k = MADE; k < MADE + filled->made; k++)
                if (filled->last[k] == i)
                    Py_CLEAR(registers[k]);
        }
    }
    for (Py_ssize_t k = MADE; k < MADE + filled->made; k++)
        Py_CLEAR(registers[k]);
    return failed ? -1 : 0;
}

/* perform(steps, parameters, gradients, states, names of what a state has, numbers): all steps on the first of each, then on
   the second ones, and so on; False, with nothing done, where the tensors are not plain. */
static PyObject *perform(PyObject *module, PyObject *args) {
    PyObject *list, *numbers, *registers[MOST_REGISTERS] = {NULL};
    Step steps[MOST_STEPS];
    Columns columns = {.held = 0, .tensors = NULL};
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!", &PyList_Type, &list, &PyList_Type, &columns.lists[0], &PyList_Type,
                          &columns.lists[1], &PyList_Type, &columns.states, &PyList_Type, &columns.names, &PyList_Type,
                          &numbers) ||
        !are_columns(&columns))
        return NULL;
    list = PyList_AsTuple(list), numbers = list ? PyList_AsTuple(numbers) : NULL; /* what nobody can change meanwhile */
    Filled filled = {columns.width, numbers ? PyTuple_GET_SIZE(numbers) : 0, 0, {0}};
    PyObject *performed = NULL;
    if (numbers && read_steps(list, steps, &filled) == 0) {
        for (Py_ssize_t k = 0; k < filled.numbers; k++)
            registers[NUMBERS + k] = PyTuple_GET_ITEM(numbers, k);
        if (!hold_columns(&columns) || !are_alike(&columns))
            performed = PyErr_Occurred() ? NULL : Py_False;
        else if (perform_rounds(steps, PyTuple_GET_SIZE(list), &columns, &filled, registers) == 0)
            performed = Py_True;
        let_go(&columns);
    }
    Py_XDECREF(list);
    Py_XDECREF(numbers);
    return Py_XNewRef(performed);
}
