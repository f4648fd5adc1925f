/* Text and numbers: the status line, messages, the title. */
#include "game.h"

#define PAGE (VRAM + 27 * 0x400)
#define SIGN(number) ((u16)((number) + 1))

static const char *gMessage IWRAM;
static u32 gShown[2] IWRAM; /* what the line at the top was drawn from */

static void put(u32 column, u32 row, u32 number) { PAGE[row * 32 + column] = SIGN(number); }

void write(u32 column, u32 row, const char *text) {
  while (*text) put(column++, row, (u32)(*text++ - ' '));
}

static void write_number(u32 column, u32 row, u32 value, u32 digits) {
  while (digits--) {
    put(column + digits, row, '0' - ' ' + value % 10);
    value /= 10;
  }
}

void clear_text(void) {
  for (u32 i = 0; i < 32 * 32; i++) PAGE[i] = 0;
  gMain.message = 0;
  gShown[0] = ~0u;
}

void say(const char *text) {
  gMessage = text;
  gMain.message = 96;
}

static void draw_message(void) {
  if (!gMain.message) return;
  if (gMain.message == 96) {
    for (u32 i = 0; i < 30; i++) put(i, 19, 0);
    write(1, 19, gMessage);
  }
  if (--gMain.message == 0)
    for (u32 i = 0; i < 30; i++) PAGE[19 * 32 + i] = 0;
}

static void draw_line(const SaveBlock1 *block) {
  for (u32 i = 0; i < 30; i++) {
    put(i, 0, 0);
    put(i, 1, 0);
  }
  write(1, 0, kMaps[block->map].name);
  put(25, 0, ICON + 5);
  write_number(26, 0, block->daylight / 60, 3);
  for (u32 bit = 0; bit < 4; bit++) put(1 + 2 * bit, 1, ICON + (block->items & ~block->home & 1u << bit ? bit + 1 : 0));
  put(10, 1, ICON + 6);
  for (u32 bit = 1; bit < 4; bit++) put(10 + bit, 1, ICON + (block->home & 1u << bit ? bit + 1 : 0));
  if (!gMain.caw_pause) put(16, 1, ICON + 7);
  write_number(24, 1, block->score, 5);
}

void draw_hud(void) {
  const SaveBlock1 *block = gSaveBlock1Ptr;
  draw_message();
  if (!(gMain.ticks & 63)) write_number(26, 0, block->daylight / 60, 3);
  const u32 signs = (u32)block->items | (u32)block->home << 4 | (u32)block->map << 8 | (u32)!gMain.caw_pause << 12;
  if (signs == gShown[0] && block->score == gShown[1]) return;
  gShown[0] = signs;
  gShown[1] = block->score;
  draw_line(block);
}

static void write_large(u32 column, u32 row, const char *text) {
  for (; *text; text++, column += 2) {
    if (*text == ' ') continue;
    u32 letter = 0;
    while (LARGE_LETTERS[letter] != *text) letter++;
    for (u32 i = 0; i < 4; i++) put(column + (i & 1), row + (i >> 1), LARGE + letter * 4 + i);
  }
}

void draw_title(void) {
  write_large(2, 3, "ROOK'S ERRAND");
  write(4, 7, " BRING THE SHINY THINGS ");
  write(4, 8, "   HOME BEFORE NIGHT    ");
  write(8, 14, " PRESS START  ");
  if (has_save()) write(5, 17, " SELECT: FORGET SAVE ");
}
