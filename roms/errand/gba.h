/* The console: types, registers and memory, as far as this game uses them. */
#ifndef GBA_H
#define GBA_H
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef signed char s8;
typedef short s16;
typedef int s32;

#define REG16(offset) (*(volatile u16 *)(0x04000000 + (offset)))
#define DISPCNT REG16(0x00)
#define DISPSTAT REG16(0x04)
#define BG0CNT REG16(0x08)
#define BG1CNT REG16(0x0A)
#define BG2CNT REG16(0x0C)
#define BG3CNT REG16(0x0E)
#define BG1HOFS REG16(0x14)
#define BG1VOFS REG16(0x16)
#define BG2HOFS REG16(0x18)
#define BG2VOFS REG16(0x1A)
#define BG3HOFS REG16(0x1C)
#define BG3VOFS REG16(0x1E)
#define BLDCNT REG16(0x50)
#define BLDALPHA REG16(0x52)
#define BLDY REG16(0x54)
#define SOUND1SWEEP REG16(0x60)
#define SOUND1SHAPE REG16(0x62)
#define SOUND1PITCH REG16(0x64)
#define SOUNDCNT_L REG16(0x80)
#define SOUNDCNT_H REG16(0x82)
#define SOUNDCNT_X REG16(0x84)
#define KEYINPUT REG16(0x130)
#define IE REG16(0x200)
#define WAITCNT REG16(0x204)
#define IME REG16(0x208)

#define COLOURS ((volatile u16 *)0x05000000)
#define VRAM ((volatile u16 *)0x06000000)
#define OAM ((volatile u16 *)0x07000000)
#define SRAM ((volatile u8 *)0x0E000000)
#define IRQ_VECTOR (*(volatile u32 *)0x03007FFC)

enum { KEY_A = 1, KEY_B = 2, KEY_SELECT = 4, KEY_START = 8 };
enum { KEY_RIGHT = 16, KEY_LEFT = 32, KEY_UP = 64, KEY_DOWN = 128 };

/* Sleep until the next frame: the processor halts, so a skipped frame costs an emulator almost nothing. */
static inline void wait_for_frame(void) { __asm__ volatile("swi 0x50000" ::: "r0", "r1", "r2", "r3", "memory"); }
#endif
