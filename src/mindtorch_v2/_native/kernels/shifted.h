/* Sums of planes, each moved by so many places and scaled: large convolutions without columns of windows. */

/* A tile of ROWS results, ACROSS vectors wide, that stays in registers until all moved planes are added. */
typedef void (*NAMED(Tile))(const REAL *x, Py_ssize_t plane, Py_ssize_t planes, const int64_t *moves, Py_ssize_t taps,
                            const REAL *weight, REAL *out);
#define TILE(NAME, TARGET, BYTES, ROWS, ACROSS)                                                                        \
    TARGET static void NAMED(NAME)(const REAL *x, Py_ssize_t plane, Py_ssize_t planes, const int64_t *moves,           \
                                   Py_ssize_t taps, const REAL *weight, REAL *out) {                                   \
        typedef REAL Vector __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));                     \
        enum { WIDTH = BYTES / sizeof(REAL) };                                                                         \
        Vector sums[ROWS][ACROSS] = {{{0}}};                                                                           \
        Py_ssize_t apart = planes * taps;                                                                              \
        for (Py_ssize_t c = 0; c < planes; c++)                                                                        \
            for (Py_ssize_t t = 0; t < taps; t++) {                                                                    \
                const REAL *from = x + c * plane + moves[t], *w = weight + c * taps + t;                               \
                Vector moved[ACROSS];                                                                                  \
                UNROLLED for (int k = 0; k < ACROSS; k++) moved[k] = *(const Vector *)(from + k * WIDTH);              \
                UNROLLED for (int r = 0; r < ROWS; r++)                                                                \
                    UNROLLED for (int k = 0; k < ACROSS; k++) sums[r][k] += moved[k] * w[r * apart];                   \
            }                                                                                                          \
        UNROLLED for (int r = 0; r < ROWS; r++)                                                                        \
            UNROLLED for (int k = 0; k < ACROSS; k++) *(Vector *)(out + (r * ACROSS + k) * WIDTH) = sums[r][k];        \
    }
#define TILES(NAME, TARGET, BYTES, ACROSS)                                                                             \
    TILE(NAME##_1, TARGET, BYTES, 1, ACROSS)                                                                           \
    TILE(NAME##_2, TARGET, BYTES, 2, ACROSS)                                                                           \
    TILE(NAME##_4, TARGET, BYTES, 4, ACROSS)
#define UNROLLED _Pragma("GCC unroll 8")

/* With vectors of 32 bytes there are registers for four rows, with those of 64 bytes for eight. */
TILES(thin, WIDE, 32, 1)
TILES(broad, WIDE, 32, 3)
enum { NAMED(MOST_ROWS) = 8, NAMED(MOST_LANES) = 3 * 64 / sizeof(REAL) };
#ifdef CLONES
#define NEWEST __attribute__((target("arch=x86-64-v4")))
TILES(thin_newest, NEWEST, 64, 1)
TILES(broad_newest, NEWEST, 64, 3)
TILE(thin_newest_8, NEWEST, 64, 8, 1)
TILE(broad_newest_8, NEWEST, 64, 8, 3)
#endif

typedef struct {
    NAMED(Tile) tiles[2][4]; /* one and three vectors wide; of 1, 2, 4 and, maybe, 8 rows */
    Py_ssize_t lanes;
} NAMED(Tiling);

static NAMED(Tiling) NAMED(tiling)(void) {
#define OF(NAME, LAST) {NAMED(NAME##_1), NAMED(NAME##_2), NAMED(NAME##_4), LAST}
#ifdef CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
        return (NAMED(Tiling)){{OF(thin_newest, NAMED(thin_newest_8)), OF(broad_newest, NAMED(broad_newest_8))},
                               64 / sizeof(REAL)};
#endif
    return (NAMED(Tiling)){{OF(thin, NULL), OF(broad, NULL)}, 32 / sizeof(REAL)};
#undef OF
}

typedef struct {
    const REAL *x, *weight, *bias;
    const int64_t *moves;
    REAL *out;
    NAMED(Tiling) tiling;
    Py_ssize_t plane, planes, taps, groups, outputs; /* planes of a group; all outputs of an image */
    Py_ssize_t reach, rows, columns, pitch, deep;    /* places that are summed; those that are kept of them */
    Py_ssize_t kept, strips;                         /* places of an output; strips in which they are taken */
} NAMED(Shifted);

/* The places from `at` on of one output: of lines `pitch` apart, and `deep` of these to a plane, those that are kept. */
static void NAMED(keep)(const NAMED(Shifted) *s, const REAL *sums, REAL *out, Py_ssize_t at, Py_ssize_t n, REAL bias) {
    for (Py_ssize_t end = at + n, next; at < end; sums += next - at, at = next) {
        Py_ssize_t line = at / s->pitch, column = at % s->pitch;
        next = (line + 1) * s->pitch < end ? (line + 1) * s->pitch : end;
        if (line % s->deep >= s->rows) continue;
        Py_ssize_t last = column + next - at < s->columns ? column + next - at : s->columns;
        REAL *to = out + (line / s->deep * s->rows + line % s->deep) * s->columns;
        for (Py_ssize_t i = column; i < last; i++) to[i] = sums[i - column] + bias;
    }
}

/* Strips of places of all images: all outputs of one, so that what is read of the planes stays in the cache. */
static void NAMED(shifted_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Shifted) *s = work;
    REAL sums[NAMED(MOST_ROWS) * NAMED(MOST_LANES)];
    Py_ssize_t each = s->outputs / s->groups, lanes = s->tiling.lanes;
    for (Py_ssize_t unit = from; unit < to; unit++) {
        Py_ssize_t image = unit / s->strips, at = unit % s->strips * 3 * lanes, left = s->reach - at;
        int broad = s->reach >= 3 * lanes && left > lanes;
        for (Py_ssize_t width = (broad ? 3 : 1) * lanes; left > 0; at += width, left -= width) {
            Py_ssize_t start = left < width ? s->reach - width : at; /* the last ones are done once more with others */
            const REAL *x = s->x + image * s->groups * s->planes * s->plane + start;
            for (Py_ssize_t o = 0, rows; o < s->outputs; o += rows) {
                Py_ssize_t most = each - o % each;
                int size = most >= 8 && s->tiling.tiles[broad][3] ? 3 : most >= 4 ? 2 : most >= 2;
                rows = (Py_ssize_t)1 << size;
                s->tiling.tiles[broad][size](x + o / each * s->planes * s->plane, s->plane, s->planes, s->moves, s->taps,
                                             s->weight + o * s->planes * s->taps, sums);
                for (Py_ssize_t r = 0; r < rows; r++)
                    NAMED(keep)(s, sums + r * width, s->out + (image * s->outputs + o + r) * s->kept, start, width,
                                s->bias ? s->bias[o + r] : 0);
            }
            if (broad) break;
        }
    }
}

/* shifted(x, moves, weight, bias | None, out, sizes, groups): what is kept of the sums of the planes of x (n, channels,
 * places), each moved by `moves` and scaled by the weight (outputs, channels of a group, moves). `out` has up to three
 * dimensions after (n, outputs), and those of x before it was flat are `sizes`, one less: the first does not matter. */
static PyObject *NAMED(shifted)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 7 || !readable(args[0], KIND) || !readable(args[1], I64) || !readable(args[2], KIND)) Py_RETURN_FALSE;
    if ((args[3] != Py_None && !readable(args[3], KIND)) || !writable(args[4], KIND)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *w = (Array *)args[2], *out = (Array *)args[4];
    Py_ssize_t groups = PyLong_CheckExact(args[6]) ? PyLong_AsSsize_t(args[6]) : 0, axes = out->nd - 2;
    if (x->nd != 3 || w->nd != 3 || axes < 1 || axes > 3 || groups < 1 || !PyTuple_CheckExact(args[5]) ||
        PyTuple_GET_SIZE(args[5]) != axes - 1)
        Py_RETURN_FALSE;
    NAMED(Shifted) s = {data_of(args[0]), data_of(args[2]), args[3] == Py_None ? NULL : data_of(args[3]),
                        data_of(args[1]), data_of(args[4]), NAMED(tiling)()};
    s.plane = x->dimensions[2], s.planes = w->dimensions[1], s.taps = w->dimensions[2], s.groups = groups;
    s.outputs = w->dimensions[0], s.columns = out->dimensions[out->nd - 1], s.pitch = s.columns, s.rows = s.deep = 1;
    Py_ssize_t given[2] = {0, 0}, lines = axes > 1 ? out->dimensions[2] : 1;
    for (Py_ssize_t i = 0; i < axes - 1; i++) {
        given[i] = PyLong_CheckExact(PyTuple_GET_ITEM(args[5], i)) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], i)) : -1;
        if (PyErr_Occurred()) return NULL;
    }
    if (axes == 2) s.pitch = given[0];
    if (axes == 3) s.deep = given[0], s.pitch = given[1], s.rows = out->dimensions[3];
    s.reach = (axes == 3 ? (lines - 1) * s.deep + s.rows - 1 : lines - 1) * s.pitch + s.columns;
    Py_ssize_t images = x->dimensions[0], furthest = 0;
    int fits = x->dimensions[1] == s.planes * groups && s.outputs % groups == 0 && out->dimensions[0] == images &&
               out->dimensions[1] == s.outputs && count_of(args[1]) == s.taps && s.pitch >= s.columns &&
               s.deep >= s.rows && s.reach >= s.tiling.lanes && count_of(args[4]) > 0 && s.plane > 0 && s.taps > 0 &&
               s.planes > 0 && (!s.bias || count_of(args[3]) == s.outputs) && (axes == 3 || axes == 2 || lines == 1);
    for (Py_ssize_t t = 0; t < s.taps && fits; t++) {
        if (s.moves[t] < 0) Py_RETURN_FALSE;
        if (s.moves[t] > furthest) furthest = s.moves[t];
    }
    if (!fits || furthest > s.plane - s.reach) Py_RETURN_FALSE;
    s.kept = count_of(args[4]) / (images * s.outputs);
    s.strips = (s.reach + 3 * s.tiling.lanes - 1) / (3 * s.tiling.lanes);
    BEGIN(LARGE + 1)
    run(NAMED(shifted_part), &s, images * s.strips, s.outputs * s.planes * s.taps, LIGHT / 4);
    END
    Py_RETURN_TRUE;
}
#undef TILE
#undef TILES
#undef UNROLLED
#undef NEWEST
