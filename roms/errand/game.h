/* What the parts of the game share. MEMORY.md documents every address for those who read them from outside. */
#ifndef GAME_H
#define GAME_H
#include "assets.h"

#define IWRAM __attribute__((section(".iwram")))
#define EWRAM __attribute__((section(".ewram")))
#define FIXED(name) __attribute__((section(".fixed." #name)))

enum { DOWN, UP, LEFT, RIGHT }; /* also the order of STEPS in assets.py */
enum { TITLE, PLAY, LEAVE, ARRIVE, CAUGHT, SPLASH, WON, NIGHT, PAUSE };
enum { ITEM_KEY = 1, ITEM_RING = 2, ITEM_SPOON = 4, ITEM_CROWN = 8, TREASURES = 14 };
enum { EVENT_DOOR = 1 << 8, EVENT_CAWED = 1 << 9, EVENT_RESTED = 1 << 10, EVENT_WON = 1 << 11 }; /* below: maps seen */
enum { SOUND_ITEM, SOUND_DOOR, SOUND_CAW, SOUND_CAUGHT, SOUND_REST, SOUND_WON };
enum { FOX, CAT, OWL };

#define HOP_TICKS 12
#define FADE_TICKS 12
#define CAUGHT_TICKS 36
#define DAY_TICKS 18000
#define CAUGHT_COSTS 600
#define CAW_TICKS 96
#define CAW_PAUSE 240
#define LARGEST 1024 /* cells of a map */
#define MOST_MOVERS 8

typedef struct { /* save block 1: where the rook is and what it has done */
  s16 x, y;
  u8 map, facing, entry_x, entry_y;
  u16 items, home;
  u32 events, daylight, score;
  u16 way, best, hops, caught, caws, rests;
} SaveBlock1;

typedef struct { /* save block 2: whose game it is */
  char name[8];
  u32 played;
  u16 wins, saves;
} SaveBlock2;

typedef struct {
  u32 ticks;
  u8 mode, wait, hop, objective;
  u16 keys, fresh;
  u16 freeze, caw_pause;
  u16 tide, message;
} Main;

typedef struct { u32 width, height; u16 cells[LARGEST]; } MapBuffer;
typedef struct { s16 x, y; s8 dx, dy; u8 kind, left; } Mover;

extern SaveBlock1 *gSaveBlock1Ptr;
extern SaveBlock2 *gSaveBlock2Ptr;
extern u32 gRng;
extern Main gMain;
extern MapBuffer gMap;
extern u16 gTrail[LARGEST];
extern Mover gMovers[MOST_MOVERS];
extern u32 gMoverCount;

/* blocks.c */
u32 random(void);
void new_game(void);
void move_blocks(void);
void rest(void);
u32 has_save(void);
void load_save(void);
void forget_save(void);

/* world.c */
u16 *cell_at(s32 x, s32 y);
u32 kind_at(s32 x, s32 y);
void enter_map(u32 map, s32 x, s32 y);
void follow_errand(void);
void measure_way(void);
void move_tide(void);
u32 is_sunk(s32 x, s32 y);

/* rook.c */
void move_rook(void);
void rook_pixel(s32 *x, s32 *y);
void be_sent_back(u32 mode);

/* movers.c */
void place_movers(void);
void move_movers(void);
u32 is_caught(void);
void mover_pixel(const Mover *mover, s32 *x, s32 *y);

/* draw.c */
void begin_drawing(void);
void draw_map(void);
void draw_cell(s32 x, s32 y);
void draw(void);

/* hud.c */
void draw_title(void);
void draw_hud(void);
void write(u32 column, u32 row, const char *text);
void say(const char *text);
void clear_text(void);

/* sound.c */
void begin_sound(void);
void play(u32 sound);
void fade_sound(void);
#endif
