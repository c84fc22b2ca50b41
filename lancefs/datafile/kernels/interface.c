#include "kernels.h"

API int64_t lancefs_interface(void);

/* Which signatures this library has. */
int64_t lancefs_interface(void) { return LANCEFS_INTERFACE; }
