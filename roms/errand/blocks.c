/* The two save blocks: initialised, moved in memory at every change of map, saved to the cartridge. */
#include "game.h"

#define ROOM 128 /* how far a block may move */
#define MARK 0x4B4F4F52 /* "ROOK" */

SaveBlock1 *gSaveBlock1Ptr FIXED(pointers1);
SaveBlock2 *gSaveBlock2Ptr FIXED(pointers2);
u32 gRng FIXED(rng);

static u8 gBlock1Room[sizeof(SaveBlock1) + ROOM] EWRAM __attribute__((aligned(4)));
static u8 gBlock2Room[sizeof(SaveBlock2) + ROOM] EWRAM __attribute__((aligned(4)));

u32 random(void) {
  gRng = gRng * 1664525u + 1013904223u;
  return gRng >> 16;
}

static void copy(void *to, const void *from, u32 size) {
  u8 *target = to;
  const u8 *source = from;
  while (size--) *target++ = *source++;
}

void move_blocks(void) {
  SaveBlock1 one = *gSaveBlock1Ptr;
  SaveBlock2 two = *gSaveBlock2Ptr;
  gSaveBlock1Ptr = (SaveBlock1 *)(gBlock1Room + (random() & (ROOM - 4)));
  gSaveBlock2Ptr = (SaveBlock2 *)(gBlock2Room + (random() & (ROOM - 4)));
  copy(gSaveBlock1Ptr, &one, sizeof one);
  copy(gSaveBlock2Ptr, &two, sizeof two);
}

void new_game(void) {
  gSaveBlock1Ptr = (SaveBlock1 *)gBlock1Room;
  gSaveBlock2Ptr = (SaveBlock2 *)gBlock2Room;
  *gSaveBlock1Ptr = (SaveBlock1){.x = START_X, .y = START_Y, .facing = DOWN, .daylight = DAY_TICKS, .best = 0xFFFF};
  *gSaveBlock2Ptr = (SaveBlock2){.name = "ROOK"};
}

/* The cartridge's memory has eight bits of width: mark, sum, block 1, block 2, a byte at a time. */
static void put(u32 offset, const void *from, u32 size) {
  const u8 *source = from;
  for (u32 i = 0; i < size; i++) SRAM[offset + i] = source[i];
}

static void get(void *to, u32 offset, u32 size) {
  u8 *target = to;
  for (u32 i = 0; i < size; i++) target[i] = SRAM[offset + i];
}

static u32 sum(void) {
  u32 total = 1;
  for (u32 i = 8; i < 8 + sizeof(SaveBlock1) + sizeof(SaveBlock2); i++) total = total * 31 + SRAM[i];
  return total;
}

void rest(void) {
  const u32 mark = MARK;
  gSaveBlock1Ptr->rests++;
  gSaveBlock2Ptr->saves++;
  gSaveBlock1Ptr->events |= EVENT_RESTED;
  put(8, gSaveBlock1Ptr, sizeof(SaveBlock1));
  put(8 + sizeof(SaveBlock1), gSaveBlock2Ptr, sizeof(SaveBlock2));
  const u32 check = sum();
  put(0, &mark, 4);
  put(4, &check, 4);
}

u32 has_save(void) {
  u32 head[2];
  get(head, 0, 8);
  return head[0] == MARK && head[1] == sum();
}

void load_save(void) {
  get(gSaveBlock1Ptr, 8, sizeof(SaveBlock1));
  get(gSaveBlock2Ptr, 8 + sizeof(SaveBlock1), sizeof(SaveBlock2));
}

void forget_save(void) {
  const u32 nothing[2] = {0, 0};
  put(0, nothing, 8);
}
