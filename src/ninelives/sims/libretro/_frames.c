/* What a core calls in every frame, answered without Python: is an option changed, what is held, here is a picture.

   A plain library and no Python module. Libretro's callbacks carry nothing that says which machine is calling, so each
   machine loads a private copy of this file, as it does of its core: what is static here belongs to one machine.
   frames.py has the twin in Python and the same struct; both behave the same. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_JOYPAD = 1, ID_JOYPAD_MASK = 256, ASK_BITS = 65535 };
enum { GET_VARIABLE_UPDATE = 17, SET_SYSTEM_AV_INFO = 32, SET_GEOMETRY = 37, GET_INPUT_BITMASKS = 51 };

typedef struct {
  bool (*ask)(unsigned what, void *answer); /* Python's, for whatever is not asked in every frame */
  const void *address;                      /* of the last picture; NULL before the first */
  size_t pitch;
  uint32_t width, height;
  uint32_t moves; /* how often pictures have come from another place or in another size */
  uint32_t pad;
  bool changed; /* an option, since the core has looked last */

  bool (*environment)(unsigned, void *);
  void (*video)(const void *, unsigned, unsigned, size_t);
  void (*sample)(int16_t, int16_t);
  size_t (*samples)(const int16_t *, size_t);
  void (*poll)(void);
  int16_t (*state)(unsigned, unsigned, unsigned, unsigned);
  void (*log)(int, const char *, ...);
  void (*run)(void (*)(void), uint32_t);
} Desk;

static Desk desk;

static bool environment(unsigned what, void *answer) {
  switch (what & ASK_BITS) {
    case GET_VARIABLE_UPDATE:
      *(bool *)answer = desk.changed;
      desk.changed = false;
      return true;
    case SET_SYSTEM_AV_INFO:
    case SET_GEOMETRY:
    case GET_INPUT_BITMASKS: return true;
    default: return desk.ask(what, answer);
  }
}

static void video(const void *address, unsigned width, unsigned height, size_t pitch) {
  if (!address) return; /* nothing has changed */
  if (address == desk.address && width == desk.width && height == desk.height && pitch == desk.pitch) return;
  desk.moves++;
  desk.address = address;
  desk.width = width;
  desk.height = height;
  desk.pitch = pitch;
}

static void sample(int16_t left, int16_t right) {
  (void)left;
  (void)right;
}

static size_t samples(const int16_t *waves, size_t count) {
  (void)waves;
  return count;
}

static void poll(void) {}

static int16_t state(unsigned port, unsigned device, unsigned index, unsigned button) {
  (void)index;
  if (port || device != DEVICE_JOYPAD) return 0;
  return (int16_t)(button == ID_JOYPAD_MASK ? desk.pad : button < 32 ? desk.pad >> button & 1 : 0);
}

static void log_nothing(int level, const char *format, ...) {
  (void)level;
  (void)format;
}

static void run(void (*frame)(void), uint32_t frames) {
  while (frames--) frame();
}

/* The only name that others see: a name of the program that loads this must not be taken for one of ours. */
Desk *ninelives_desk(void) {
  desk.environment = environment;
  desk.video = video;
  desk.sample = sample;
  desk.samples = samples;
  desk.poll = poll;
  desk.state = state;
  desk.log = log_nothing;
  desk.run = run;
  return &desk;
}
