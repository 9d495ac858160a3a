/* Loops over single and, included once more, double precision: REAL is the type of an element, KIND its dtype, and NAMED
 * makes names for each. */
#include "columns.h"
#include "layer_norm.h"
#include "channels.h"
#include "pooling.h"
#include "picked.h"
#include "mapping.h"
#include "attention.h"
#include "convolution.h"
#include "shifted.h"
