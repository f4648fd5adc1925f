/* The current map: width, height and cells in a buffer, sinking stones, and the distances to the objective. */
#include "game.h"

#define FAR 0xFFFF
#define TIDE_TICKS 288 /* a stone's cycle: dry, wet, gone, dry again */
#define WET_AT 192
#define GONE_AT 228

MapBuffer gMap FIXED(map);
u16 gTrail[LARGEST] FIXED(trail);
static u16 gQueue[LARGEST] IWRAM;
static u8 gStones[64][2] IWRAM;
static u32 gStoneCount IWRAM;

u16 *cell_at(s32 x, s32 y) { return &gMap.cells[(u32)y * gMap.width + (u32)x]; }

u32 kind_at(s32 x, s32 y) {
  if (x < 0 || y < 0 || x >= (s32)gMap.width || y >= (s32)gMap.height) return KIND_WALL;
  return *cell_at(x, y) >> 12;
}

static void take_away(s32 x, s32 y) { *cell_at(x, y) = kMaps[gSaveBlock1Ptr->map].floor; }

static void fill_buffer(const Map *map) {
  gMap.width = map->width;
  gMap.height = map->height;
  for (u32 i = 0; i < gMap.width * gMap.height; i++) gMap.cells[i] = map->cells[i];
  for (u32 i = 0; i < map->item_count; i++)
    if (gSaveBlock1Ptr->items & map->items[i].bit) take_away(map->items[i].x, map->items[i].y);
  if (!(gSaveBlock1Ptr->events & EVENT_DOOR)) return;
  for (u32 i = 0; i < gMap.width * gMap.height; i++)
    if (gMap.cells[i] >> 12 == KIND_DOOR) gMap.cells[i] = map->floor;
}

static void find_stones(void) {
  gStoneCount = 0;
  for (u32 y = 0; y < gMap.height; y++)
    for (u32 x = 0; x < gMap.width; x++) {
      if (kind_at((s32)x, (s32)y) != KIND_STONE) continue;
      gStones[gStoneCount][0] = (u8)x;
      gStones[gStoneCount++][1] = (u8)y;
    }
}

void enter_map(u32 map, s32 x, s32 y) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  if (!(block->events & 1u << map)) block->score += 50;
  block->events |= 1u << map;
  block->map = (u8)map;
  block->x = (s16)x;
  block->y = (s16)y;
  block->entry_x = (u8)x;
  block->entry_y = (u8)y;
  fill_buffer(&kMaps[map]);
  find_stones();
  place_movers();
  draw_map();
}

/* The next objective. */
static u32 objective(void) {
  u32 number = 0;
  while (number < 4 && gSaveBlock1Ptr->items & 1u << number) number++;
  return number;
}

static void begin_trail(u32 *tail, u32 index) {
  gTrail[index] = 0;
  gQueue[(*tail)++] = (u16)index;
}

static u32 seed_trail(const Route *route) {
  const Map *map = &kMaps[gSaveBlock1Ptr->map];
  u32 tail = 0;
  if (route->through == 255) begin_trail(&tail, route->y * gMap.width + route->x);
  else
    for (u32 i = 0; i < map->way_count; i++)
      if (map->ways[i].to == route->through) begin_trail(&tail, map->ways[i].y * gMap.width + map->ways[i].x);
  return tail;
}

static u32 can_be_passed(u32 cell) {
  const u32 kind = cell >> 12;
  return kind != KIND_WALL && kind != KIND_WATER && kind != KIND_WAY;
}

/* For every cell of the map: hops to the objective. All maps have a border, so neighbours always exist. */
void follow_errand(void) {
  const s32 steps[4] = {1, -1, (s32)gMap.width, -(s32)gMap.width};
  const u32 size = gMap.width * gMap.height;
  gMain.objective = (u8)objective();
  for (u32 i = 0; i < size; i++) gTrail[i] = FAR;
  u32 tail = seed_trail(&kRoutes[gMain.objective * MAPS + gSaveBlock1Ptr->map]);
  for (u32 head = 0; head < tail; head++) {
    const u32 at = gQueue[head];
    for (u32 i = 0; i < 4; i++) {
      const u32 next = at + (u32)steps[i];
      if (next >= size || gTrail[next] != FAR || !can_be_passed(gMap.cells[next])) continue;
      gTrail[next] = (u16)(gTrail[at] + 1);
      gQueue[tail++] = (u16)next;
    }
  }
}

/* Hops left of the whole errand, and the fewest so far. */
void measure_way(void) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  const u32 here = gTrail[(u32)block->y * gMap.width + (u32)block->x];
  if (here == FAR) return;
  block->way = (u16)(block->events & EVENT_WON ? 0 : here + kRoutes[gMain.objective * MAPS + block->map].rest);
  if (block->way < block->best) block->best = block->way;
}

/* Stones sink one after the other, and those with the same x + y together. */
static u32 tide_of(s32 x, s32 y) {
  u32 at = gMain.tide + (u32)(x + y) * 24;
  while (at >= TIDE_TICKS) at -= TIDE_TICKS;
  return at;
}

u32 is_sunk(s32 x, s32 y) { return kind_at(x, y) == KIND_STONE && tide_of(x, y) >= GONE_AT; }

static void show_stone(s32 x, s32 y) {
  const u32 at = tide_of(x, y);
  const u32 look = at >= GONE_AT ? STONE_GONE : at >= WET_AT ? STONE_WET : STONE_DRY;
  u16 *cell = cell_at(x, y);
  if ((*cell & 0x3FF) == look) return;
  *cell = (u16)((*cell & 0xFC00) | look);
  draw_cell(x, y);
}

void move_tide(void) {
  if (++gMain.tide >= TIDE_TICKS) gMain.tide = 0;
  if (gMain.tide % 12) return; /* all changes of all stones fall on these */
  for (u32 i = 0; i < gStoneCount; i++) show_stone(gStones[i][0], gStones[i][1]);
}
