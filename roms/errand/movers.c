/* Foxes keep to their row, cats wander, owls hunt. All of them catch. */
#include "game.h"

static const u8 kTicks[3] = {16, 20, 28};  /* of one step */
static const u16 kShare[3] = {256, 205, 147}; /* 4096 through these ticks: a division less */

Mover gMovers[MOST_MOVERS] FIXED(movers);
u32 gMoverCount FIXED(mover_count);

void place_movers(void) {
  const Map *map = &kMaps[gSaveBlock1Ptr->map];
  gMoverCount = map->spawn_count;
  for (u32 i = 0; i < gMoverCount; i++) {
    const Spawn *spawn = &map->spawns[i];
    gMovers[i] = (Mover){.x = spawn->x, .y = spawn->y, .dx = spawn->kind == OWL ? 0 : 1, .kind = spawn->kind};
  }
}

static s32 size_of(s32 value) { return value < 0 ? -value : value; }

/* Only plain floor, and never close to the entry of the map, where the rook is safe. */
static u32 is_free(const Mover *mover, s32 dx, s32 dy) {
  const s32 x = mover->x + dx, y = mover->y + dy;
  if (kind_at(x, y) != KIND_FLOOR) return 0;
  return size_of(x - gSaveBlock1Ptr->entry_x) + size_of(y - gSaveBlock1Ptr->entry_y) > 2;
}

static void head(Mover *mover, s32 dx, s32 dy) {
  mover->dx = (s8)dx;
  mover->dy = (s8)dy;
}

static void patrol(Mover *mover) {
  if (is_free(mover, mover->dx, 0)) return;
  head(mover, -mover->dx, 0);
}

static void wander(Mover *mover) {
  static const s8 turns[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  if (is_free(mover, mover->dx, mover->dy) && random() & 3) return;
  const u32 first = random();
  for (u32 i = 0; i < 4; i++) {
    const s8 *turn = turns[(first + i) & 3];
    if (!is_free(mover, turn[0], turn[1])) continue;
    head(mover, turn[0], turn[1]);
    return;
  }
}

static void hunt(Mover *mover) {
  const s32 far_x = gSaveBlock1Ptr->x - mover->x, far_y = gSaveBlock1Ptr->y - mover->y;
  const s32 dx = (far_x > 0) - (far_x < 0), dy = (far_y > 0) - (far_y < 0);
  const u32 wide = size_of(far_x) >= size_of(far_y);
  head(mover, 0, 0);
  if (size_of(far_x) + size_of(far_y) > 6) return;
  if (wide && dx && is_free(mover, dx, 0)) head(mover, dx, 0);
  else if (dy && is_free(mover, 0, dy)) head(mover, 0, dy);
  else if (dx && is_free(mover, dx, 0)) head(mover, dx, 0);
}

void move_movers(void) {
  if (gMain.freeze) {
    gMain.freeze--;
    return;
  }
  for (u32 i = 0; i < gMoverCount; i++) {
    Mover *mover = &gMovers[i];
    if (mover->left) {
      mover->left--;
      continue;
    }
    if (mover->kind == FOX) patrol(mover);
    else if (mover->kind == CAT) wander(mover);
    else hunt(mover);
    if ((mover->dx || mover->dy) && is_free(mover, mover->dx, mover->dy)) {
      mover->x = (s16)(mover->x + mover->dx);
      mover->y = (s16)(mover->y + mover->dy);
      mover->left = (u8)(kTicks[mover->kind] - 1);
    } else {
      mover->left = 0;
    }
  }
}

void mover_pixel(const Mover *mover, s32 *x, s32 *y) {
  const s32 behind = mover->left * kShare[mover->kind] >> 8;
  *x = mover->x * 16 - mover->dx * behind;
  *y = mover->y * 16 - mover->dy * behind;
}

u32 is_caught(void) {
  s32 rook_x, rook_y, x, y;
  rook_pixel(&rook_x, &rook_y);
  for (u32 i = 0; i < gMoverCount; i++) {
    const Mover *mover = &gMovers[i];
    if (size_of(mover->x - gSaveBlock1Ptr->x) > 2 || size_of(mover->y - gSaveBlock1Ptr->y) > 2) continue;
    mover_pixel(mover, &x, &y);
    if (size_of(x - rook_x) < 10 && size_of(y - rook_y) < 10) return 1;
  }
  return 0;
}
