// Random bits by Threefry-2x32-20 (Salmon et al. 2011), laid out so that a key gives the same numbers as on the
// CPU: word i of the first half and word i of the second half are the two results of one counter; an odd word in
// the middle takes the first result of a counter of its own.

DEV u32 turn(u32 x, int by) { return __funnelshift_l(x, x, by); }

DEV void threefry(u32 k0, u32 k1, u32& a, u32& b) {
  u32 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  u32 x = a + keys[0], y = b + keys[1];
#pragma unroll
  for (int g = 0; g < 5; g++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      x += y;
      y = turn(y, turns[g & 1][j]) ^ x;
    }
    x += keys[(g + 1) % 3];
    y += keys[(g + 2) % 3] + (u32)g + 1u;
  }
  a = x;
  b = y;
}

DEV void store(u8* out, u64 bytes, u64 word, u32 v) {
  u64 at = 4 * word;
  u8* p = out + at;
  if (at + 4 <= bytes && ((u64)p & 3) == 0) {
    *(u32*)p = v;
    return;
  }
  for (int i = 0; i < 4 && at + i < bytes; i++) p[i] = (u8)(v >> (8 * i));
}

// One row of blocks for each key, one thread for each counter. `each` bytes for a key.
extern "C" __global__ void __launch_bounds__(256) bits(const u32* keys, Axes axes, i64 second, u8* out, u64 each, u64 count) {
  BEGIN;
  u64 words = (each + 3) / 4, half = words / 2, odd = words & 1;
  u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
  if (i >= half + odd) return;
  for (u64 k = blockIdx.y; k < count; k += gridDim.y) {
    i64 at = axes.at(k);
    u32 a = (u32)i, b = i < half ? (u32)(half + odd + i) : 0u;
    threefry(keys[at], keys[at + second], a, b);
    u8* mine = out + k * each;
    store(mine, each, i, a);
    if (i < half) store(mine, each, half + odd + i, b);
  }
}
