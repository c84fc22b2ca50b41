#include "kernels.h"

/* Return the number of the interface, which the loader compares with its own. */
KERNEL(interface, void) { return LANCEFS_INTERFACE; }
