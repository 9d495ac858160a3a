/* Attributes of plain tensors, read from where they lie. */

/* An attribute's value, or NULL without an error where its Python function has to find it. */
typedef PyObject *(*Reader)(PyObject *tensor);

enum { MOST_DTYPES = 32 };
static struct {
    PyTypeObject *size;  /* the class of shapes */
    PyObject *dtypes;    /* dict: NumPy's dtype -> ours */
    PyObject *cpu;       /* the device of arrays */
    PyTypeObject *own_version; /* the class of storages that count their changes apart */
    Py_ssize_t shared_offset;
    PyObject *kept_name; /* of the grad that a tensor has which is no leaf that requires one */
    Py_ssize_t grad_offset;
    int known; /* dtypes that were asked for */
    struct {
        PyObject *numpy, *ours;
        Py_ssize_t bytes; /* of an element */
    } dtypes_known[MOST_DTYPES];
} reading;

/* address(array): where its first element lies. */
static PyObject *address(PyObject *module, PyObject *array) {
    if (!PyObject_TypeCheck(array, ndarray))
        return PyErr_Format(PyExc_TypeError, "expected an ndarray, got %s", Py_TYPE(array)->tp_name);
    return PyLong_FromVoidPtr(((Array *)array)->data);
}

static PyObject *read_shape(PyObject *tensor) {
    Array *a = (Array *)Py_XNewRef((PyObject *)plain_array(tensor)); /* finalizers may run, and give the tensor another */
    PyObject *size = a ? reading.size->tp_alloc(reading.size, a->ndim) : NULL;
    for (int i = 0; size && i < a->ndim; i++) {
        PyObject *n = PyLong_FromSsize_t(a->shape[i]);
        if (!n)
            Py_CLEAR(size);
        else
            PyTuple_SET_ITEM(size, i, n);
    }
    Py_XDECREF((PyObject *)a);
    return size;
}

/* Which of the known dtypes an array has; -1 where there is no array, or where Python has to find out. */
static int dtype_of(Array *a) {
    if (!a)
        return -1;
    for (int i = 0; i < reading.known; i++)
        if (reading.dtypes_known[i].numpy == a->dtype)
            return i;
    PyObject *found = reading.known < MOST_DTYPES ? PyDict_GetItemWithError(reading.dtypes, a->dtype) : NULL;
    PyObject *size = found ? PyObject_GetAttrString(a->dtype, "itemsize") : NULL;
    Py_ssize_t bytes = size ? PyLong_AsSsize_t(size) : -1;
    Py_XDECREF(size);
    if (bytes <= 0)
        return -1;
    int i = reading.known++;
    reading.dtypes_known[i].numpy = Py_NewRef(a->dtype);
    reading.dtypes_known[i].ours = Py_NewRef(found);
    reading.dtypes_known[i].bytes = bytes;
    return i;
}

static PyObject *read_dtype(PyObject *tensor) {
    int i = dtype_of(plain_array(tensor));
    return i < 0 ? NULL : Py_NewRef(reading.dtypes_known[i].ours);
}

static PyObject *read_element_size(PyObject *tensor) {
    int i = dtype_of(plain_array(tensor));
    return i < 0 ? NULL : PyLong_FromSsize_t(reading.dtypes_known[i].bytes);
}

static Py_ssize_t count_of(Array *a) {
    Py_ssize_t count = 1;
    for (int i = 0; i < a->ndim; i++)
        count *= a->shape[i];
    return count;
}

static PyObject *read_numel(PyObject *tensor) {
    Array *a = plain_array(tensor);
    return a ? PyLong_FromSsize_t(count_of(a)) : NULL;
}

static PyObject *read_nbytes(PyObject *tensor) {
    Array *a = plain_array(tensor);
    int i = dtype_of(a);
    return i < 0 ? NULL : PyLong_FromSsize_t(count_of(a) * reading.dtypes_known[i].bytes);
}

static PyObject *read_stride(PyObject *tensor) {
    Array *a = plain_array(tensor);
    int number = dtype_of(a);
    if (number < 0 || count_of(a) == 0)
        return NULL;
    Py_INCREF(a);
    PyObject *strides = PyTuple_New(a->ndim);
    for (int i = 0; strides && i < a->ndim; i++) {
        PyObject *n = PyLong_FromSsize_t(a->strides[i] / reading.dtypes_known[number].bytes);
        if (!n)
            Py_CLEAR(strides);
        else
            PyTuple_SET_ITEM(strides, i, n);
    }
    Py_DECREF(a);
    return strides;
}

static PyObject *read_is_contiguous(PyObject *tensor) {
    Array *a = plain_array(tensor);
    return a ? PyBool_FromLong(a->flags & 1) : NULL;
}

/* The tensor itself where it is contiguous. */
static PyObject *read_contiguous(PyObject *tensor) {
    Array *a = plain_array(tensor);
    return a && a->flags & 1 ? Py_NewRef(tensor) : NULL;
}

static PyObject *read_data_ptr(PyObject *tensor) {
    Array *a = plain_array(tensor);
    return a ? PyLong_FromVoidPtr(count_of(a) ? a->data : NULL) : NULL;
}

/* By the array that owns the memory, where all between are arrays. */
static PyObject *read_storage_offset(PyObject *tensor) {
    Array *a = plain_array(tensor), *owner = a;
    int i = dtype_of(a);
    while (i >= 0 && owner->base && Py_TYPE(owner->base) == ndarray)
        owner = (Array *)owner->base;
    return i < 0 || owner->base ? NULL : PyLong_FromSsize_t((a->data - owner->data) / reading.dtypes_known[i].bytes);
}

static PyObject *read_false(PyObject *tensor) { return Py_NewRef(Py_False); }

static PyObject *read_ndim(PyObject *tensor) {
    Array *a = plain_array(tensor);
    return a ? PyLong_FromLong(a->ndim) : NULL;
}

static PyObject *read_device(PyObject *tensor) { return plain_array(tensor) ? Py_NewRef(reading.cpu) : NULL; }

/* The place in the graph of what is no view; NULL for views, whose place may have to be found again. */
static PyObject *place_of(PyObject *tensor) {
    return slot_of(tensor, globals.view_offset) == Py_None ? slot_of(tensor, globals.graph_offset) : NULL;
}

static PyObject *read_requires_grad(PyObject *tensor) {
    PyObject *place = place_of(tensor);
    return place ? PyBool_FromLong(place != Py_None) : NULL;
}

static PyObject *read_is_leaf(PyObject *tensor) {
    PyObject *place = place_of(tensor);
    return place ? PyBool_FromLong(place == Py_None || Py_TYPE(place) == globals.leaf) : NULL;
}

static PyObject *read_grad_fn(PyObject *tensor) {
    PyObject *place = place_of(tensor);
    return place && (place == Py_None || Py_TYPE(place) == globals.leaf) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *read_grad(PyObject *tensor) {
    PyObject *place = place_of(tensor);
    if (place == Py_None)
        return PyObject_GetAttr(tensor, reading.kept_name);
    return place && Py_TYPE(place) == globals.leaf ? Py_XNewRef(slot_of(place, reading.grad_offset)) : NULL;
}

/* Attributes set to what they are, or a leaf's grad to None; false where their Python function has to see to it. */
typedef int (*Writer)(PyObject *tensor, PyObject *value);

static int write_requires_grad(PyObject *tensor, PyObject *value) {
    PyObject *place = place_of(tensor);
    return place && (value == Py_True ? Py_TYPE(place) == globals.leaf : value == Py_False && place == Py_None);
}

static int write_grad(PyObject *tensor, PyObject *value) {
    PyObject *place = slot_of(tensor, globals.graph_offset);
    if (value != Py_None || !place || Py_TYPE(place) != globals.leaf)
        return 0;
    Py_XSETREF(*(PyObject **)((char *)place + reading.grad_offset), Py_NewRef(value));
    return 1;
}

static const struct {
    const char *name;
    Writer write;
} writers[] = {{"requires_grad", write_requires_grad}, {"grad", write_grad}, {NULL, NULL}};

/* A tensor on the same memory that no graph knows of, and whose changes are counted apart. */
static PyObject *read_data(PyObject *tensor) {
    PyObject *array = Py_XNewRef((PyObject *)plain_array(tensor)), *shared = array ? storage_of(tensor) : NULL;
    if (shared && Py_TYPE(shared) == reading.own_version)
        shared = slot_of(shared, reading.shared_offset);
    Py_XINCREF(shared);
    PyObject *storage = shared ? new_token(reading.own_version) : NULL, *data = storage ? wrap(NULL, array) : NULL;
    Py_XDECREF(array);
    if (!data) {
        Py_XDECREF(storage);
        Py_XDECREF(shared);
        return NULL;
    }
    *(PyObject **)((char *)storage + reading.shared_offset) = shared;
    Py_SETREF(*(PyObject **)((char *)data + globals.storage_offset), storage);
    return data;
}

/* Extents, which the class of shapes is made from: a tuple whose slices are of its own class. */
static PyTypeObject *extents_type, *tuple_type = &PyTuple_Type;

static PyObject *extents_subscript(PyObject *self, PyObject *index) {
    PyObject *found = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
    if (!found || !PySlice_Check(index))
        return found;
    Py_ssize_t count = PyTuple_GET_SIZE(found);
    PyObject *part = Py_TYPE(self)->tp_alloc(Py_TYPE(self), count);
    for (Py_ssize_t i = 0; part && i < count; i++)
        PyTuple_SET_ITEM(part, i, Py_NewRef(PyTuple_GET_ITEM(found, i)));
    Py_DECREF(found);
    return part;
}

static PyType_Slot extents_slots[] = {{Py_mp_subscript, extents_subscript}, {0, NULL}};
static PyType_Spec extents_spec = {"mindtorch_v2.core._helper.Extents", 0, 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_TUPLE_SUBCLASS, extents_slots};

static const struct {
    const char *name;
    Reader read;
} readers[] = {{"shape", read_shape},         {"dtype", read_dtype},
               {"ndim", read_ndim},           {"device", read_device},
               {"grad_fn", read_grad_fn},     {"requires_grad", read_requires_grad},
               {"grad", read_grad},           {"is_leaf", read_is_leaf},
               {"data", read_data},           {"is_cuda", read_false},
               {"size", read_shape},          {"dim", read_ndim},
               {"numel", read_numel},         {"element_size", read_element_size},
               {"stride", read_stride},       {"is_contiguous", read_is_contiguous},
               {"nbytes", read_nbytes},       {"itemsize", read_element_size},
               {"contiguous", read_contiguous},
               {"data_ptr", read_data_ptr},   {"storage_offset", read_storage_offset},
               {NULL, NULL}};

/* connect_readers(class of shapes, dtypes by NumPy's, device of arrays, class of storages of their own version) */
static PyObject *connect_readers(PyObject *module, PyObject *args) {
    PyObject *size, *dtypes, *cpu, *own;
    if (!PyArg_ParseTuple(args, "O!O!OO!", &PyType_Type, &size, &PyDict_Type, &dtypes, &cpu, &PyType_Type, &own))
        return NULL;
    if ((reading.shared_offset = slot_offset(own, "shared")) < 0)
        return NULL;
    if ((reading.grad_offset = slot_offset((PyObject *)globals.leaf, "grad")) < 0)
        return NULL;
    if (!(reading.kept_name = PyUnicode_InternFromString("_kept_grad")))
        return NULL;
    reading.size = (PyTypeObject *)Py_NewRef(size);
    reading.own_version = (PyTypeObject *)Py_NewRef(own);
    reading.dtypes = Py_NewRef(dtypes);
    reading.cpu = Py_NewRef(cpu);
    Py_RETURN_NONE;
}
