/* Rook's Errand: a young rook brings three shiny things home before night. This file runs one tick per frame. */
#include "game.h"

Main gMain FIXED(main);
extern void frame_interrupt(void);

/* Random numbers depend only on when keys are pressed: the same keys give the same game. */
static void read_keys(void) {
  const u16 keys = (u16)(~KEYINPUT & 0x3FF);
  gMain.fresh = (u16)(keys & ~gMain.keys);
  if (keys != gMain.keys) gRng = (gRng ^ gMain.ticks << 3 ^ keys) * 1664525u + 1013904223u;
  gMain.keys = keys;
}

static void show_title(void) {
  gMain.mode = TITLE;
  gMain.hop = 0;
  clear_text();
  new_game();
  enter_map(1, 7, 9);
  draw_title();
}

static void begin_map(void) {
  move_blocks();
  gMain.mode = ARRIVE;
  gMain.wait = FADE_TICKS;
}

static void start(void) {
  clear_text();
  new_game();
  if (has_save()) load_save();
  SaveBlock1 *block = gSaveBlock1Ptr;
  block->events |= 1; /* the nest counts as seen */
  enter_map(block->map, block->x, block->y);
  begin_map();
}

static void tick_title(void) {
  move_movers();
  if (gMain.fresh & KEY_SELECT) {
    forget_save();
    show_title();
  }
  if (gMain.fresh & KEY_START) start();
}

static void tick_play(void) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  gSaveBlock2Ptr->played++;
  if (gMain.fresh & KEY_START) {
    gMain.mode = PAUSE;
    return;
  }
  if (block->daylight) block->daylight--;
  move_tide();
  move_rook();
  move_movers();
  if (gMain.mode != PLAY) return;
  if (is_caught()) be_sent_back(CAUGHT);
  if (block->daylight) return;
  gMain.mode = NIGHT;
  say("NIGHT FALLS. PRESS START.");
}

static void tick_leave(void) {
  if (--gMain.wait) return;
  const SaveBlock1 *block = gSaveBlock1Ptr;
  const Map *map = &kMaps[block->map];
  const Way *way = map->ways;
  while (way->x != block->x || way->y != block->y) way++;
  enter_map(way->to, way->arrive_x, way->arrive_y);
  begin_map();
}

static void tick_arrive(void) {
  if (gMain.wait == FADE_TICKS) {
    follow_errand();
    measure_way();
    say(kMaps[gSaveBlock1Ptr->map].name);
  }
  if (--gMain.wait == 0) gMain.mode = PLAY;
}

static void tick_sent_back(void) {
  SaveBlock1 *block = gSaveBlock1Ptr;
  if (--gMain.wait) return;
  block->x = block->entry_x;
  block->y = block->entry_y;
  gMain.hop = 0;
  gMain.freeze = 0;
  place_movers();
  measure_way();
  gMain.mode = PLAY;
}

static void tick_won(void) {
  if (gMain.wait < 255) gMain.wait++;
  if (gMain.wait == 48) say("THE NEST SHINES! PRESS START.");
  if (gMain.wait > 48 && gMain.fresh & KEY_START) show_title();
}

static void tick(void) {
  gMain.ticks++;
  read_keys();
  switch (gMain.mode) {
    case TITLE: tick_title(); break;
    case PLAY: tick_play(); break;
    case LEAVE: tick_leave(); break;
    case ARRIVE: tick_arrive(); break;
    case CAUGHT:
    case SPLASH: tick_sent_back(); break;
    case WON: tick_won(); break;
    case NIGHT: if (gMain.fresh & KEY_START) show_title(); break;
    case PAUSE: if (gMain.fresh & KEY_START) gMain.mode = PLAY; break;
  }
}

static void begin_console(void) {
  WAITCNT = 0x4317;
  IRQ_VECTOR = (u32)frame_interrupt;
  for (u32 i = 0; i < 128; i++) OAM[i * 4] = 0x200;
  begin_drawing();
  begin_sound();
  DISPSTAT = 8;
  IE = 1;
  IME = 1;
}

int main(void) {
  gMain = (Main){0};
  gRng = 2463534242u;
  begin_console();
  show_title();
  for (;;) {
    wait_for_frame();
    tick();
    draw();
    fade_sound();
  }
}
