/* Growing arrays of ints, and tables that give equal ones the same id. */

typedef struct {
    int64_t *data;
    Py_ssize_t used, room;
} Ints;

/* Room for so many more; NULL, with all as it was and no exception, where there is no memory. */
static int64_t *extend(Ints *ints, Py_ssize_t count) {
    if (ints->used + count > ints->room) {
        Py_ssize_t room = ints->room ? ints->room * 2 : 1024;
        while (room < ints->used + count)
            room *= 2;
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

static PyObject *bytes_in(const Ints *ints) {
    return PyBytes_FromStringAndSize((char *)ints->data, ints->used * sizeof(int64_t));
}

static void empty(Ints *ints) {
    ints->used = 0;
    if (ints->room > 1 << 20) { /* 8 MB: a burst need not be kept */
        PyMem_RawFree(ints->data);
        ints->data = NULL;
        ints->room = 0;
    }
}

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

/* Pairs of values, none of which waits for those before it, so that the processor takes several at once. */
static uint64_t hash_of(const Ints *key) {
    uint64_t sum = (uint64_t)key->used;
    for (Py_ssize_t i = 0; i < key->used; i += 2) {
        uint64_t first = (uint64_t)key->data[i], second = i + 1 < key->used ? (uint64_t)key->data[i + 1] : 0;
        unsigned __int128 part = (unsigned __int128)(first ^ (0x9E3779B97F4A7C15ull + (uint64_t)i)) *
                                 (second ^ 0xD1B54A32D192ED03ull);
        sum += (uint64_t)part ^ (uint64_t)(part >> 64);
    }
    return mix(sum, 0);
}

/* Value by value, as a key that was just written is not there yet for what compares by larger pieces; to the end, as keys
   with one hash are most often the same. */
static int same_ints(const int64_t *a, const int64_t *b, Py_ssize_t count) {
    uint64_t differences = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        differences |= (uint64_t)(a[i] ^ b[i]);
    return !differences;
}

static int64_t find(const Table *table, const Ints *key, uint64_t hash) {
    for (size_t i = hash; table->room; i++) {
        struct Slot *known = &table->slots[i & (table->room - 1)];
        if (!known->id)
            break;
        if (known->hash == hash && known->length == key->used &&
            same_ints(table->pool.data + known->at, key->data, key->used))
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

/* Whether there was memory for one more; a key that lacks a part is no key. */
static inline int put(Ints *key, int64_t value) {
    if (key->used < key->room) {
        key->data[key->used++] = value;
        return 1;
    }
    int64_t *place = extend(key, 1);
    if (place)
        *place = value;
    return place != NULL;
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
