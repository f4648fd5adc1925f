/* Sound effects. Sound is switched on only while one plays: silence is cheaper to emulate. */
#include "game.h"

static u32 gSounding IWRAM;

typedef struct { u16 sweep, shape, pitch; } Chirp;

static const Chirp kChirps[6] = {
  {0x15, 0xA180, 0x0700}, {0x1E, 0xA180, 0x0500}, {0x1F, 0xC280, 0x0600},
  {0x2E, 0xD280, 0x0480}, {0x25, 0x9280, 0x0680}, {0x26, 0xF380, 0x0600},
};

void begin_sound(void) { gSounding = 0; }

void fade_sound(void) {
  if (gSounding && --gSounding == 0) SOUNDCNT_X = 0;
}

void play(u32 sound) {
  gSounding = 40;
  SOUNDCNT_X = 0x80;
  SOUNDCNT_L = 0x1177;
  SOUNDCNT_H = 2;
  SOUND1SWEEP = kChirps[sound].sweep;
  SOUND1SHAPE = kChirps[sound].shape;
  SOUND1PITCH = (u16)(kChirps[sound].pitch | 0x8000);
}
