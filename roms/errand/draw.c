/* The picture: the ground and what stands on it, both scrolling, shadows of clouds and sprites over them, and light.
   Reads the game, changes nothing in it. Nothing is written that has not changed: for an emulator that skips frames,
   writing is what costs. */
#include "game.h"

#define THINGS 28 /* first of four blocks of 2 kB in video memory: 64 x 64 tiles */
#define GROUND 8
#define SKY 12
#define BY_DAY 0x1F40     /* all four layers and the sprites */
#define BY_NIGHT 0x1740   /* no sun, no shadows */
#define SHADE 0x3648      /* the shadows mix with what lies below them; sprites are above */
#define DARKEN 0x00FF     /* everything fades to black, by BLDY sixteenths */
#define LEAVES 16
#define FIRST_LEAF 16     /* sprite; those below are the rook's and the movers' */
#define TOP 16       /* pixels that the line of text takes */

static const u16 kNoSprite = 0x200;
static s32 gCamera[2] IWRAM;
static u32 gDark IWRAM;
static u32 gDrift[2] IWRAM;

static void copy_words(volatile u16 *to, const u32 *from, u32 words) {
  volatile u32 *target = (volatile u32 *)to;
  while (words--) *target++ = *from++;
}

void begin_drawing(void) {
  for (u32 i = 0; i < 16; i++) COLOURS[i] = COLOURS[256 + i] = kPalette[i];
  copy_words(VRAM, kTiles, TILES * 8);
  copy_words(VRAM + 0x4000 + 16, kSigns, SIGNS * 8);
  copy_words(VRAM + 0x8000, kSprites, SPRITES * 32);
  for (u32 i = 0; i < 16; i++) VRAM[0x4000 + i] = 0;
  BG0CNT = 0 | 2 << 2 | 27 << 8;
  BG1CNT = 2 | 0 << 2 | THINGS << 8 | 3 << 14;
  BG2CNT = 3 | 0 << 2 | GROUND << 8 | 3 << 14;
  BG3CNT = 1 | 0 << 2 | SKY << 8;
  copy_words(VRAM + SKY * 0x400, (const u32 *)kSky, 512);
  BLDALPHA = 4 | 12 << 8;
  BLDCNT = SHADE;
  DISPCNT = BY_DAY;
  gCamera[0] = gCamera[1] = -1;
  gDark = 0;
}

static void draw_square(u32 layer, s32 x, s32 y, const u16 *square) {
  const u32 block = layer + ((u32)x >> 4) + 2 * ((u32)y >> 4);
  volatile u16 *at = VRAM + block * 0x400 + ((u32)y & 15) * 64 + ((u32)x & 15) * 2;
  at[0] = square[0];
  at[1] = square[1];
  at[32] = square[2];
  at[33] = square[3];
}

void draw_cell(s32 x, s32 y) {
  const u16 *square = &kSquares[(*cell_at(x, y) & 0x3FF) * 8];
  draw_square(GROUND, x, y, square);
  draw_square(THINGS, x, y, square + 4);
}

void draw_map(void) {
  for (u32 i = 1; i <= MOST_MOVERS; i++) OAM[i * 4] = kNoSprite;
  for (s32 y = 0; y < (s32)gMap.height; y++)
    for (s32 x = 0; x < (s32)gMap.width; x++) draw_cell(x, y);
}

static void sprite(u32 index, u32 look, s32 x, s32 y, u32 mirrored) {
  volatile u16 *at = OAM + index * 4;
  if (x <= -16 || x >= 240 || y <= -16 || y >= 160) {
    at[0] = kNoSprite;
    return;
  }
  at[0] = (u16)(y & 0xFF);
  at[1] = (u16)((x & 0x1FF) | 1 << 14 | mirrored << 12);
  at[2] = (u16)(look * 4 | 1 << 10);
}

static s32 between(s32 value, s32 most) { return value < 0 ? 0 : value > most ? most : value; }

static void aim_camera(s32 x, s32 y) {
  const s32 left = between(x - 112, (s32)gMap.width * 16 - 240), top = between(y - 64, (s32)gMap.height * 16 - 144);
  if (left != gCamera[0]) BG1HOFS = BG2HOFS = (u16)left;
  if (top != gCamera[1]) BG1VOFS = BG2VOFS = (u16)(top - TOP);
  gCamera[0] = left;
  gCamera[1] = top;
}

static u32 rook_look(void) {
  static const u8 looks[4] = {SPRITE_ROOK_DOWN, SPRITE_ROOK_UP, SPRITE_ROOK_SIDE, SPRITE_ROOK_SIDE};
  if (gMain.mode == SPLASH) return SPRITE_SPLASH;
  if (gMain.mode == CAUGHT && gMain.ticks & 4) return SPRITE_STAR;
  if (gMain.freeze > CAW_TICKS - 24) return SPRITE_ROOK_CAW;
  const u32 flies = gMain.hop > 2 && gMain.hop < 11;
  return looks[gSaveBlock1Ptr->facing] + flies;
}

static void draw_rook(void) {
  s32 x, y;
  rook_pixel(&x, &y);
  aim_camera(x, y);
  if (gMain.mode == WON) y -= (s32)(gMain.ticks & 8);
  if (gMain.hop > 2 && gMain.hop < 11) y -= gMain.hop > 4 && gMain.hop < 9 ? 4 : 2;
  sprite(0, rook_look(), x - gCamera[0], y - gCamera[1] + TOP, gSaveBlock1Ptr->facing == LEFT);
}

static void draw_movers(void) {
  static const u8 looks[3] = {SPRITE_FOX, SPRITE_CAT, SPRITE_OWL};
  for (u32 i = 0; i < gMoverCount; i++) {
    const Mover *mover = &gMovers[i];
    s32 x, y;
    mover_pixel(mover, &x, &y);
    const u32 running = !gMain.freeze && (mover->dx || mover->dy) && gMain.ticks & 8;
    sprite(i + 1, looks[mover->kind] + running, x - gCamera[0], y - gCamera[1] + TOP, mover->dx < 0);
  }
}

/* The light fades towards night, and to black at a change of map. */
static void draw_light(void) {
  const u32 daylight = gSaveBlock1Ptr->daylight;
  u32 dark = daylight < DAY_TICKS / 4 ? (DAY_TICKS / 4 - daylight) >> 10 : 0;
  if (gMain.mode == LEAVE) dark = (FADE_TICKS - gMain.wait) * 3u / 2;
  if (gMain.mode == ARRIVE) dark += gMain.wait * 4u / 3;
  if (gMain.mode == NIGHT || gMain.mode == PAUSE) dark = 8;
  if (dark > 16) dark = 16;
  if (dark == gDark) return;
  BLDY = (u16)dark;
  BLDCNT = dark ? DARKEN : SHADE;
  DISPCNT = dark ? BY_NIGHT : BY_DAY;
  gDark = dark;
}

/* The shadows move relative to the world, not to the screen. */
static void draw_sky(void) {
  const u32 across = (u32)gCamera[0] - (gMain.ticks >> 3), down = (u32)gCamera[1] + (gMain.ticks >> 5);
  if (across != gDrift[0]) BG3HOFS = (u16)across;
  if (down != gDrift[1]) BG3VOFS = (u16)down;
  gDrift[0] = across;
  gDrift[1] = down;
}

/* Leaves in the wind. A quarter of them moves in each frame. */
static void draw_leaves(void) {
  for (u32 i = gMain.ticks & 3; i < LEAVES; i += 4) {
    const u32 age = (gMain.ticks >> 2) + i * 37;
    const u32 across = i * 83 + age * 2 - (u32)gCamera[0], down = age - (u32)gCamera[1];
    const s32 x = (s32)(across & 0xFF) - 8, y = (s32)(down & 0xFF) - 8;
    sprite(FIRST_LEAF + i, SPRITE_LEAF + (age >> 3 & 1), x, y, age >> 4 & 1);
  }
}

static void draw_water(void) {
  if (gMain.ticks & 31) return;
  copy_words(VRAM + 16, gMain.ticks & 32 ? kWater2 : kTiles + 8, 32);
}

void draw(void) {
  draw_rook();
  draw_movers();
  draw_light();
  draw_sky();
  draw_leaves();
  draw_water();
  if (gMain.mode != TITLE) draw_hud();
}
