/* A chirp for everything that happens. */
#include "game.h"

typedef struct { u16 sweep, shape, pitch; } Chirp;

static const Chirp kChirps[7] = {
  {0x00, 0x4180, 0x0680}, {0x15, 0xA180, 0x0700}, {0x1E, 0xA180, 0x0500}, {0x1F, 0xC280, 0x0600},
  {0x2E, 0xD280, 0x0480}, {0x25, 0x9280, 0x0680}, {0x26, 0xF380, 0x0600},
};

void begin_sound(void) {
  SOUNDCNT_X = 0x80;
  SOUNDCNT_L = 0x1177;
  SOUNDCNT_H = 2;
}

void play(u32 sound) {
  SOUND1SWEEP = kChirps[sound].sweep;
  SOUND1SHAPE = kChirps[sound].shape;
  SOUND1PITCH = (u16)(kChirps[sound].pitch | 0x8000);
}
