/* The rook: hops, what happens where it lands, and its caw. */
#include "game.h"

static const s8 kStepX[4] = {0, 0, -1, 1}, kStepY[4] = {1, -1, 0, 0};

void rook_pixel(s32 *x, s32 *y) {
  const s32 behind = gMain.hop * 341 >> 8; /* 16 pixels through 12 ticks */
  *x = gSaveBlock1Ptr->x * 16 - kStepX[gSaveBlock1Ptr->facing] * behind;
  *y = gSaveBlock1Ptr->y * 16 - kStepY[gSaveBlock1Ptr->facing] * behind;
}

static s32 asked_direction(void) {
  const u32 keys = gMain.keys;
  if (keys & KEY_DOWN) return DOWN;
  if (keys & KEY_UP) return UP;
  if (keys & KEY_LEFT) return LEFT;
  if (keys & KEY_RIGHT) return RIGHT;
  return -1;
}

static void open_door(s32 x, s32 y) {
  gSaveBlock1Ptr->events |= EVENT_DOOR;
  gSaveBlock1Ptr->score += 100;
  *cell_at(x, y) = kMaps[gSaveBlock1Ptr->map].floor;
  draw_cell(x, y);
  say("THE DOOR OPENS");
  play(SOUND_DOOR);
}

static void begin_hop(s32 direction) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  const s32 x = block->x + kStepX[direction], y = block->y + kStepY[direction];
  block->facing = (u8)direction;
  const u32 kind = kind_at(x, y);
  if (kind == KIND_DOOR && block->items & ITEM_KEY) open_door(x, y);
  else if (kind == KIND_DOOR) say("LOCKED");
  else if (kind != KIND_WALL && kind != KIND_WATER) {
    block->x = (s16)x;
    block->y = (s16)y;
    block->hops++;
    gMain.hop = HOP_TICKS;
  }
}

static void caw(void) {
  gSaveBlock1Ptr->caws++;
  gSaveBlock1Ptr->events |= EVENT_CAWED;
  gMain.freeze = CAW_TICKS;
  gMain.caw_pause = CAW_PAUSE;
  play(SOUND_CAW);
}

static void take_item(void) {
  static const char *const words[4] = {"A KEY!", "A SHINY RING!", "A SILVER SPOON!", "THE CROWN!"};
  SaveBlock1 *block = gSaveBlock1Ptr;
  const Map *map = &kMaps[block->map];
  for (u32 i = 0; i < map->item_count; i++) {
    const Item *item = &map->items[i];
    if (item->x != block->x || item->y != block->y) continue;
    block->items |= item->bit;
    for (u32 bit = 0; bit < 4; bit++)
      if (item->bit == 1u << bit) say(words[bit]);
  }
  block->score += 100;
  *cell_at(block->x, block->y) = map->floor;
  draw_cell(block->x, block->y);
  follow_errand();
  play(SOUND_ITEM);
}

static void bring_home(void) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  const u32 carried = block->items & TREASURES & ~block->home;
  if (!carried) return;
  for (u32 bit = 1; bit < 4; bit++)
    if (carried & 1u << bit) block->score += 200;
  block->home = (u16)(block->home | carried);
  play(SOUND_ITEM);
  say("HOME IT GOES");
  if (block->home != TREASURES) return;
  block->events |= EVENT_WON;
  block->score += block->daylight / 16;
  gSaveBlock2Ptr->wins++;
  gMain.mode = WON;
  gMain.wait = 0;
  play(SOUND_WON);
}

static void land(void) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  switch (kind_at(block->x, block->y)) {
    case KIND_ITEM: take_item(); break;
    case KIND_HOLLOW: bring_home(); break;
    case KIND_PERCH: rest(); say("YOU REST. SAVED."); play(SOUND_REST); break;
    case KIND_WAY: gMain.mode = LEAVE; gMain.wait = FADE_TICKS; return;
    default: break;
  }
  measure_way();
}

void be_sent_back(u32 mode) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  block->caught++;
  block->daylight = block->daylight > CAUGHT_COSTS ? block->daylight - CAUGHT_COSTS : 0;
  gMain.mode = (u8)mode;
  gMain.wait = CAUGHT_TICKS;
  play(SOUND_CAUGHT);
}

void move_rook(void) {
  if (gMain.caw_pause) gMain.caw_pause--;
  if (gMain.hop) {
    if (--gMain.hop == 0) land();
    return;
  }
  if (is_sunk(gSaveBlock1Ptr->x, gSaveBlock1Ptr->y)) {
    be_sent_back(SPLASH);
    return;
  }
  const s32 direction = asked_direction();
  if (direction >= 0) begin_hop(direction);
  else if (gMain.fresh & KEY_A && !gMain.caw_pause) caw();
  if (gMain.hop) gMain.hop--;
}
