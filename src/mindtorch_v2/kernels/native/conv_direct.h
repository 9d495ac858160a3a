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
} NAMED(ConvDirect);

/* The places from `at` on of one output: of lines `pitch` apart, and `deep` of these to a plane, those that are kept. */
static void NAMED(keep)(const NAMED(ConvDirect) *s, const REAL *sums, REAL *out, Py_ssize_t at, Py_ssize_t n, REAL bias) {
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
static void NAMED(conv_direct_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(ConvDirect) *s = work;
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

/* conv_direct(x, moves, weight, bias | None, out, sizes, groups): what is kept of the sums of the planes of x (n, channels,
 * places), each moved by `moves` and scaled by the weight (outputs, channels of a group, moves). `out` has up to three
 * dimensions after (n, outputs), and those of x before it was flat are `sizes`, one less: the first does not matter. */
static PyObject *NAMED(conv_direct)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 7 || !readable(args[0], KIND) || !readable(args[1], I64) || !readable(args[2], KIND)) Py_RETURN_FALSE;
    if ((args[3] != Py_None && !readable(args[3], KIND)) || !writable(args[4], KIND)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *w = (Array *)args[2], *out = (Array *)args[4];
    Py_ssize_t groups, axes = out->nd - 2;
    if (!read_size(args[6], &groups) || x->nd != 3 || w->nd != 3 || axes < 1 || axes > 3 || groups < 1 || !PyTuple_CheckExact(args[5]) ||
        PyTuple_GET_SIZE(args[5]) != axes - 1)
        Py_RETURN_FALSE;
    NAMED(ConvDirect) s = {data_of(args[0]), data_of(args[2]), args[3] == Py_None ? NULL : data_of(args[3]),
                        data_of(args[1]), data_of(args[4]), NAMED(tiling)()};
    s.plane = x->dimensions[2], s.planes = w->dimensions[1], s.taps = w->dimensions[2], s.groups = groups;
    s.outputs = w->dimensions[0], s.columns = out->dimensions[out->nd - 1], s.pitch = s.columns, s.rows = s.deep = 1;
    Py_ssize_t given[2] = {0, 0}, lines = axes > 1 ? out->dimensions[2] : 1;
    for (Py_ssize_t i = 0; i < axes - 1; i++)
        if (!read_size(PyTuple_GET_ITEM(args[5], i), &given[i]) || given[i] < 1 || given[i] > s.plane) Py_RETURN_FALSE;
    if (axes == 2) s.pitch = given[0];
    if (axes == 3) s.deep = given[0], s.pitch = given[1], s.rows = out->dimensions[3];
    if ((double)lines * (double)s.deep * (double)s.pitch > 0x1p62) Py_RETURN_FALSE;
    s.reach = (axes == 3 ? (lines - 1) * s.deep + s.rows - 1 : lines - 1) * s.pitch + s.columns;
    Py_ssize_t images = x->dimensions[0], furthest = 0;
    int fits = x->dimensions[1] / groups == s.planes && x->dimensions[1] % groups == 0 && s.outputs % groups == 0 &&
               out->dimensions[0] == images &&
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
    run(NAMED(conv_direct_part), &s, images * s.strips, s.outputs * s.planes * s.taps, LIGHT / 4);
    END
    Py_RETURN_TRUE;
}
/* What the weight learns: products of ROWS gradients with ACROSS moved planes, summed over `n` places of all images, which
 * are `steps` apart. */
typedef void (*NAMED(Products))(const REAL *const *x, const REAL *const *g, Py_ssize_t n, Py_ssize_t images,
                                const Py_ssize_t *steps, REAL *sums);
#define PRODUCTS(NAME, TARGET, BYTES, ROWS, ACROSS)                                                                    \
    TARGET static void NAMED(NAME)(const REAL *const *x, const REAL *const *g, Py_ssize_t n, Py_ssize_t images,        \
                                   const Py_ssize_t *steps, REAL *sums) {                                              \
        typedef REAL Vector __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));                     \
        enum { WIDTH = BYTES / sizeof(REAL) };                                                                         \
        Vector totals[ROWS][ACROSS] = {{{0}}}, last = {0};                                                             \
        Py_ssize_t whole = n / WIDTH * WIDTH;                                                                          \
        for (Py_ssize_t i = WIDTH - (n - whole); i < WIDTH; i++) last[i] = 1;                                          \
        for (Py_ssize_t image = 0; image < images; image++) {                                                          \
            Py_ssize_t from = image * steps[0], of = image * steps[1];                                                 \
            for (Py_ssize_t i = 0; i < whole; i += WIDTH) {                                                            \
                Vector slopes[ROWS];                                                                                   \
                UNROLLED for (int r = 0; r < ROWS; r++) slopes[r] = *(const Vector *)(g[r] + of + i);                  \
                UNROLLED for (int k = 0; k < ACROSS; k++) {                                                            \
                    Vector moved = *(const Vector *)(x[k] + from + i);                                                 \
                    UNROLLED for (int r = 0; r < ROWS; r++) totals[r][k] += moved * slopes[r];                         \
                }                                                                                                      \
            }                                                                                                          \
            if (whole == n) continue;                                                                                  \
            UNROLLED for (int r = 0; r < ROWS; r++) { /* the last places, with some before that count no more */       \
                Vector slopes = *(const Vector *)(g[r] + of + n - WIDTH) * last;                                       \
                UNROLLED for (int k = 0; k < ACROSS; k++)                                                              \
                    totals[r][k] += *(const Vector *)(x[k] + from + n - WIDTH) * slopes;                               \
            }                                                                                                          \
        }                                                                                                              \
        REAL parts[ROWS * ACROSS][WIDTH];                                                                              \
        UNROLLED for (int r = 0; r < ROWS; r++)                                                                        \
            UNROLLED for (int k = 0; k < ACROSS; k++) *(Vector *)parts[r * ACROSS + k] = totals[r][k];                 \
        for (int k = 0; k < ROWS * ACROSS; k++) {                                                                      \
            for (int half = WIDTH / 2; half; half /= 2)                                                                \
                for (int i = 0; i < half; i++) parts[k][i] += parts[k][i + half];                                      \
            sums[k] = parts[k][0];                                                                                     \
        }                                                                                                              \
    }
PRODUCTS(products, WIDE, 32, 2, 4)
#ifdef CLONES
PRODUCTS(products_newest, NEWEST, 64, 4, 6)
#endif

typedef struct {
    const REAL *x, *g;
    const int64_t *moves;
    REAL *out;
    NAMED(Products) products;
    Py_ssize_t images, plane, planes, taps, groups, outputs, pitch, reach, rows, across;
} NAMED(ConvWeightGrad);

/* Tiles of the weight from `from` to `to`; those at an edge take its last row or column more than once. */
static void NAMED(conv_weight_grad_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(ConvWeightGrad) *s = work;
    Py_ssize_t each = s->outputs / s->groups, wide = s->planes * s->taps, down = (each + s->rows - 1) / s->rows;
    Py_ssize_t along = (wide + s->across - 1) / s->across;
    Py_ssize_t steps[2] = {s->groups * s->planes * s->plane, s->outputs * s->pitch};
    const REAL *x[6], *g[4];
    for (Py_ssize_t tile = from; tile < to; tile++) {
        Py_ssize_t group = tile / along / down, o = tile / along % down * s->rows, j = tile % along * s->across;
        REAL sums[24];
        for (Py_ssize_t k = 0; k < s->across; k++) {
            Py_ssize_t at = j + k < wide ? j + k : wide - 1;
            x[k] = s->x + (group * s->planes + at / s->taps) * s->plane + s->moves[at % s->taps];
        }
        for (Py_ssize_t r = 0; r < s->rows; r++)
            g[r] = s->g + (group * each + (o + r < each ? o + r : each - 1)) * s->pitch;
        s->products(x, g, s->reach, s->images, steps, sums);
        for (Py_ssize_t r = 0; r < s->rows && o + r < each; r++)
            for (Py_ssize_t k = 0; k < s->across && j + k < wide; k++)
                s->out[(group * each + o + r) * wide + j + k] += sums[r * s->across + k];
    }
}

/* conv_weight_grad(x, moves, gradient, out, groups): adds to the weight (outputs, channels of a group, moves) what the planes of x
 * (n, channels, places) and the gradient (n, outputs, places) of their sums give, as far as planes that are moved reach. */
static PyObject *NAMED(conv_weight_grad)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !readable(args[0], KIND) || !readable(args[1], I64) || !readable(args[2], KIND)) Py_RETURN_FALSE;
    Py_ssize_t groups, furthest = 0, lanes = 32 / sizeof(REAL);
    if (!writable(args[3], KIND) || !read_size(args[4], &groups)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *g = (Array *)args[2], *w = (Array *)args[3];
    if (x->nd != 3 || g->nd != 3 || w->nd != 3 || groups < 1) Py_RETURN_FALSE;
    NAMED(ConvWeightGrad) s = {data_of(args[0]), data_of(args[2]), data_of(args[1]), data_of(args[3]), NAMED(products)};
    s.images = x->dimensions[0], s.plane = x->dimensions[2], s.planes = w->dimensions[1], s.taps = w->dimensions[2];
    s.groups = groups, s.outputs = w->dimensions[0], s.pitch = g->dimensions[2], s.rows = 2, s.across = 4;
#ifdef CLONES
    if (__builtin_cpu_supports("x86-64-v4"))
        s.products = NAMED(products_newest), s.rows = 4, s.across = 6, lanes = 64 / sizeof(REAL);
#endif
    int fits = x->dimensions[1] / groups == s.planes && x->dimensions[1] % groups == 0 && s.outputs % groups == 0 &&
               g->dimensions[0] == s.images &&
               g->dimensions[1] == s.outputs && count_of(args[1]) == s.taps && count_of(args[0]) > 0 &&
               count_of(args[3]) > 0;
    for (Py_ssize_t t = 0; t < s.taps && fits; t++) {
        if (s.moves[t] < 0) Py_RETURN_FALSE;
        if (s.moves[t] > furthest) furthest = s.moves[t];
    }
    s.reach = s.pitch < s.plane - furthest ? s.pitch : s.plane - furthest;
    if (!fits || s.reach < lanes) Py_RETURN_FALSE;
    Py_ssize_t down = (s.outputs / groups + s.rows - 1) / s.rows, along = (s.planes * s.taps + s.across - 1) / s.across;
    BEGIN(LARGE + 1)
    run(NAMED(conv_weight_grad_part), &s, groups * down * along, s.images * s.reach, LIGHT / 4);
    END
    Py_RETURN_TRUE;
}
#undef PRODUCTS
#undef TILE
#undef TILES
#undef UNROLLED
#undef NEWEST
