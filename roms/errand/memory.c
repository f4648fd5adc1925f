/* Functions that the compiler calls to initialise structures. */
#include "gba.h"

typedef __SIZE_TYPE__ size;
void *memset(void *to, int value, size count);
void *memcpy(void *to, const void *from, size count);

void *memset(void *to, int value, size count) {
  volatile u8 *target = to;
  while (count--) *target++ = (u8)value;
  return to;
}

void *memcpy(void *to, const void *from, size count) {
  volatile u8 *target = to;
  const u8 *source = from;
  while (count--) *target++ = *source++;
  return to;
}
