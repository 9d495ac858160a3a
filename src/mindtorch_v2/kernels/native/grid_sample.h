/* Planes sampled between their places, as a grid says. */

enum { POINTS = 256 }; /* of a grid that are worked out at a time, for all channels */

typedef struct {
    const float *x, *grid;
    float *out;
    Py_ssize_t channels, size[2], points, blocks;
    int aligned, clipped;
} Sampling;

/* For the four neighbours of points: where each lies, all bits where it lies inside the plane (else none), and its share. */
typedef struct {
    int32_t places[4][POINTS], inside[4][POINTS];
    float shares[4][POINTS];
} Neighbours;

/* A coordinate from -1 to 1 in places, brought to the border if it is to be clipped (nan too). */
INLINE float in_places(float coordinate, float n, int aligned, int clipped) {
    float at = aligned ? (coordinate + 1.0f) / 2.0f * (n - 1.0f) : ((coordinate + 1.0f) * n - 1.0f) / 2.0f;
    if (!clipped) return at;
    at = at > 0.0f ? at : 0.0f;
    return at < n - 1.0f ? at : n - 1.0f;
}

WIDE static void find_neighbours(const Sampling *s, const float *grid, Py_ssize_t points, Neighbours *found) {
    float height = (float)s->size[0], width = (float)s->size[1];
    int32_t stride = (int32_t)s->size[1];
    SIMD for (Py_ssize_t i = 0; i < points; i++) {
        float x = in_places(grid[2 * i], width, s->aligned, s->clipped);
        float y = in_places(grid[2 * i + 1], height, s->aligned, s->clipped);
        float left = floorf(x), top = floorf(y), right_share = x - left, low_share = y - top;
        for (int k = 0; k < 4; k++) {
            float column = left + (float)(k & 1), row = top + (float)(k >> 1);
            int inside = (column >= 0.0f) & (column < width) & (row >= 0.0f) & (row < height);
            found->inside[k][i] = -inside;
            found->places[k][i] = (int32_t)(inside ? row : 0.0f) * stride + (int32_t)(inside ? column : 0.0f);
            found->shares[k][i] = (k & 1 ? right_share : 1.0f - right_share) * (k >> 1 ? low_share : 1.0f - low_share);
        }
    }
}

/* What a neighbour adds: nothing of the plane, which may hold infinities, where it lies outside. */
#define SHARE(K) (from_bits(to_bits(plane[found->places[K][i]]) & found->inside[K][i]) * found->shares[K][i])

WIDE static void mix_neighbours(const float *plane, const Neighbours *found, float *out, Py_ssize_t points) {
    SIMD for (Py_ssize_t i = 0; i < points; i++) out[i] = SHARE(0) + SHARE(1) + SHARE(2) + SHARE(3);
}

static void sample_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Sampling *s = work;
    Py_ssize_t places = s->size[0] * s->size[1];
    Neighbours found;
    for (Py_ssize_t block = from; block < to; block++) {
        Py_ssize_t image = block / s->blocks, start = block % s->blocks * POINTS, left = s->points - start;
        Py_ssize_t points = left < POINTS ? left : POINTS;
        find_neighbours(s, s->grid + 2 * (image * s->points + start), points, &found);
        for (Py_ssize_t c = image * s->channels; c < (image + 1) * s->channels; c++)
            mix_neighbours(s->x + c * places, &found, s->out + c * s->points + start, points);
    }
}

/* sample(x, grid, aligned, clipped, out): planes of x (images, channels, height, width) at the points of the grid (images,
 * ..., 2), in shares of the four neighbours. */
static PyObject *sample(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[4], F32)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *grid = (Array *)args[1];
    Py_ssize_t all = count_of(args[4]), last = last_of(args[1]);
    if (all == 0 || x->nd != 4 || count_of(args[0]) == 0 || grid->nd < 2 || last != 2) Py_RETURN_FALSE;
    Py_ssize_t images = x->dimensions[0];
    if (grid->dimensions[0] != images) Py_RETURN_FALSE;
    Sampling s = {data_of(args[0]), data_of(args[1]), data_of(args[4]), x->dimensions[1],
                  {x->dimensions[2], x->dimensions[3]}, count_of(args[1]) / images / 2};
    if (s.size[0] * s.size[1] > INT32_MAX || images * s.channels * s.points != all) Py_RETURN_FALSE;
    s.blocks = (s.points + POINTS - 1) / POINTS;
    s.aligned = args[2] == Py_True;
    s.clipped = args[3] == Py_True;
    BEGIN(all)
    run(sample_part, &s, images * s.blocks, POINTS * s.channels, HEAVY);
    END
    Py_RETURN_TRUE;
}
