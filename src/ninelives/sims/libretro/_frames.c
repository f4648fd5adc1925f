/* The callbacks that a core calls in every frame, answered without Python: changed options, pad input, the picture.

   A plain library, not a Python module. Libretro's callbacks do not say which machine is calling, so every machine
   loads a private copy of this file, as it does of its core: the static data here belongs to one machine.
   frames.py has the Python twin and the same struct; both behave the same. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICE_JOYPAD = 1, ID_JOYPAD_MASK = 256, COMMAND_BITS = 65535 };
enum { GET_VARIABLE_UPDATE = 17, SET_SYSTEM_AV_INFO = 32, SET_GEOMETRY = 37, GET_INPUT_BITMASKS = 51 };

typedef struct {
  bool (*ask)(unsigned what, void *answer); /* Python's handler for everything that is not asked in every frame */
  const void *address;                      /* of the last picture; NULL before the first */
  size_t pitch;
  uint32_t width, height;
  uint32_t moves; /* how often the picture's address or size has changed */
  uint32_t pad;
  bool changed; /* whether an option has changed since the core last asked */

  bool (*environment)(unsigned, void *);
  void (*video)(const void *, unsigned, unsigned, size_t);
  void (*sample)(int16_t, int16_t);
  size_t (*samples)(const int16_t *, size_t);
  void (*poll)(void);
  int16_t (*state)(unsigned, unsigned, unsigned, unsigned);
  void (*log)(int, const char *, ...);
  void (*run)(void (*)(void), uint32_t);
} FrameState;

static FrameState frame_state;

static bool environment(unsigned what, void *answer) {
  switch (what & COMMAND_BITS) {
    case GET_VARIABLE_UPDATE:
      *(bool *)answer = frame_state.changed;
      frame_state.changed = false;
      return true;
    case SET_SYSTEM_AV_INFO:
    case SET_GEOMETRY:
    case GET_INPUT_BITMASKS: return true;
    default: return frame_state.ask(what, answer);
  }
}

static void video(const void *address, unsigned width, unsigned height, size_t pitch) {
  FrameState *state = &frame_state;
  if (!address) return; /* the picture has not changed */
  if (address == state->address && width == state->width && height == state->height && pitch == state->pitch) return;
  state->moves++;
  state->address = address;
  state->width = width;
  state->height = height;
  state->pitch = pitch;
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
  const uint32_t pad = frame_state.pad;
  return (int16_t)(button == ID_JOYPAD_MASK ? pad : button < 32 ? pad >> button & 1 : 0);
}

static void log_nothing(int level, const char *format, ...) {
  (void)level;
  (void)format;
}

static void run(void (*frame)(void), uint32_t frames) {
  while (frames--) frame();
}

/* The only exported name, so that no name of the program that loads this library can replace one of these. */
FrameState *ninelives_frame_state(void) {
  frame_state.environment = environment;
  frame_state.video = video;
  frame_state.sample = sample;
  frame_state.samples = samples;
  frame_state.poll = poll;
  frame_state.state = state;
  frame_state.log = log_nothing;
  frame_state.run = run;
  return &frame_state;
}
