/* Loops over single and, included once more, double precision: REAL is the type of an element, KIND its dtype, and NAMED
 * makes names for each. */
#include "columns.h"
#include "layer_norm.h"
#include "channels.h"
#include "pooling.h"
#include "nll_loss.h"
#include "axis_map.h"
#include "attention.h"
#include "convolution.h"
#include "conv_direct.h"
