/* Kernels whose results lie in memory as a rule says: the rule, a Python function, is asked only where an argument is an
 * array that is not in row-major order, or, for the rule of row-major order itself, where the result is not in it. */

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *kernel, *rule;
    char keeps;  /* whether the rule is that of elementwise ops */
    char always; /* whether it puts results into row-major order, whatever the arguments are */
} Laid;

static PyTypeObject *laid_type;

/* The same, at once for arrays without such dimensions. */
INLINE int plainly_row_major(Array *a) {
    if (!(a->flags & CONTIGUOUS)) return 0;
    for (int i = 0; i < a->nd; i++)
        if (a->dimensions[i] == 1) return row_major(a);
    return 1;
}

/* row_major(a): whether an argument is an array with row-major strides. */
static PyObject *is_row_major(PyObject *module, PyObject *given) {
    return PyBool_FromLong(Py_TYPE(given) == array_type && row_major((Array *)given));
}

/* Whether all of an array is one element, as in the gradient of a sum: it lies in no order. */
INLINE int is_one_element(Array *a) {
    for (int i = 0; i < a->nd; i++)
        if (a->strides[i]) return 0;
    return 1;
}

/* Whether something leaves the order of results open: no array, or one in row-major order or none. */
INLINE int open_by(PyObject *given) {
    PyTypeObject *type = Py_TYPE(given);
    if (type == array_type) return plainly_row_major((Array *)given) || is_one_element((Array *)given);
    if (type == &PyFloat_Type || type == &PyLong_Type || given == Py_None || type == &PyBool_Type) return 1;
    return !PyType_IsSubtype(type, array_type);
}

/* The same of an argument, and of what it holds if it is a list. */
static int leaves_open(PyObject *given) {
    if (!PyList_CheckExact(given) && !PyTuple_CheckExact(given)) return open_by(given);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); i++)
        if (!open_by(PySequence_Fast_GET_ITEM(given, i))) return 0;
    return 1;
}

/* Whether an array lies as the result does, with no dimension of one element: those have rules of their own. */
static int lies_like(PyObject *made, PyObject *given) {
    Array *a = (Array *)given, *r = (Array *)made;
    Py_ssize_t own = size_of_element(a->descr), size = size_of_element(r->descr);
    if (a->descr == r->descr) own = size = 1;
    if (!own || !size || !of_one_shape(given, made)) return 0;
    for (int i = 0; i < a->nd; i++)
        if (a->dimensions[i] < 2 || a->strides[i] * size != r->strides[i] * own) return 0;
    return 1;
}

/* What an elementwise op made, as the first argument lies that lies in any order: where it has the shape of the result, no
 * dimension of one element and no gaps, it settles the order of all dimensions. NULL without an exception where it does not,
 * and the rule is to be asked. */
static PyObject *laid_as_first(PyObject *made, PyObject *const *args, Py_ssize_t count) {
    PyObject *first = NULL;
    for (Py_ssize_t i = 0; i < count && !first; i++) {
        if (Py_TYPE(args[i]) != array_type && PyType_IsSubtype(Py_TYPE(args[i]), array_type)) return NULL;
        if (Py_TYPE(args[i]) == array_type && !is_one_element((Array *)args[i])) first = args[i];
    }
    if (!first || Py_TYPE(made) != array_type || !of_one_shape(first, made)) return NULL;
    if (lies_like(made, first)) return Py_NewRef(made);
    PyObject *copy = new_like(first, KEEP_ORDER, Py_NewRef(((Array *)made)->descr), 0);
    if (copy && (!lies_like(copy, first) || copy_into(copy, made) < 0)) Py_CLEAR(copy);
    return copy;
}

/* What was made of arguments that do not all leave its order open, as a rule lays it out; `made` is taken over. */
static PyObject *lay_by(PyObject *rule, int keeps, PyObject *made, PyObject *const *args, Py_ssize_t count) {
    if (made == Py_None) return made;
    PyObject *result = keeps ? laid_as_first(made, args, count) : NULL;
    if (result || PyErr_Occurred()) {
        Py_DECREF(made);
        return result;
    }
    PyObject *small[8], **given = count < 8 ? small : PyMem_New(PyObject *, count + 1);
    if (!given) PyErr_NoMemory();
    if (given) {
        given[0] = made;
        for (Py_ssize_t i = 0; i < count; i++) given[i + 1] = args[i];
        Py_INCREF(rule); /* which may put another in its place */
        result = PyObject_Vectorcall(rule, given, count + 1, NULL);
        Py_DECREF(rule);
    }
    if (given != small) PyMem_Free(given);
    Py_DECREF(made);
    return result;
}

INLINE int leave_open(PyObject *const *args, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(Py_TYPE(args[i]) == array_type ? open_by(args[i]) : leaves_open(args[i]))) return 0;
    return 1;
}

/* The rule of elementwise ops, for the stand-ins. */
static PyObject *elementwise_rule;

static PyObject *lay_out_by(PyObject *module, PyObject *rule) {
    Py_XSETREF(elementwise_rule, Py_NewRef(rule));
    Py_RETURN_NONE;
}

/* settle(made, *args): what an elementwise op made of arguments, laid out. */
static PyObject *settle(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!count || !elementwise_rule) return PyErr_Format(PyExc_TypeError, "expected what was made, after a rule was given");
    return lay_by(elementwise_rule, 1, Py_NewRef(args[0]), args + 1, count - 1);
}

/* What a stand-in made, laid out; `made` is taken over, and may be NULL. */
INLINE PyObject *settled(PyObject *made, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (!made || names || !elementwise_rule || leave_open(args, count)) return made;
    return lay_by(elementwise_rule, 1, made, args, count);
}

static PyObject *laid_call(Laid *self, PyObject *const *args, size_t flagged, PyObject *names) {
    PyObject *made = PyObject_Vectorcall(self->kernel, args, flagged, names);
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (!made || (self->always ? Py_TYPE(made) == array_type && plainly_row_major((Array *)made) : leave_open(args, count)))
        return made;
    if (names && PyTuple_GET_SIZE(names) && args[count] != Py_None) return made; /* out= */
    return lay_by(self->rule, self->keeps, made, args, count);
}

static PyObject *laid_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *kernel, *rule;
    int keeps, always;
    if (!PyArg_ParseTuple(args, "OOpp", &kernel, &rule, &keeps, &always)) return NULL;
    Laid *self = (Laid *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->call = (vectorcallfunc)(void (*)(void))laid_call;
    self->kernel = Py_NewRef(kernel), self->rule = Py_NewRef(rule), self->keeps = (char)keeps, self->always = (char)always;
    return (PyObject *)self;
}

static int laid_traverse(Laid *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->rule);
    return 0;
}

static void laid_dealloc(Laid *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->kernel);
    Py_XDECREF(self->rule);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef laid_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Laid, call), READONLY, NULL},
    {"kernel", T_OBJECT, offsetof(Laid, kernel), READONLY, "What computes."},
    {"rule", T_OBJECT, offsetof(Laid, rule), READONLY, "How its results lie."},
    {NULL}};
static PyType_Slot laid_slots[] = {{Py_tp_new, laid_new},         {Py_tp_dealloc, laid_dealloc},
                                   {Py_tp_traverse, laid_traverse}, {Py_tp_call, PyVectorcall_Call},
                                   {Py_tp_members, laid_members}, {0, NULL}};
static PyType_Spec laid_spec = {"mindtorch_v2.kernels._kernels.Laid", sizeof(Laid), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, laid_slots};

/* The type itself, for the module. */
static int add_laid(PyObject *module) {
    laid_type = (PyTypeObject *)PyType_FromSpec(&laid_spec);
    return laid_type ? PyModule_AddObjectRef(module, "Laid", (PyObject *)laid_type) : -1;
}
