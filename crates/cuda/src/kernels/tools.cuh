// Loops over axes, and reductions over the threads of a block.

// Most axes that a kernel walks; arrays with more that do not merge are copied first.
#define MAX_AXES 8

// Merged axes of an operand, the innermost last.
struct Axes {
  u64 rank;
  u64 size[MAX_AXES];
  i64 stride[MAX_AXES];
  // Place of row-major element `i`, in elements.
  DEV i64 at(u64 i) const {
    i64 place = 0;
    if (rank == 0) return 0;
    if ((i >> 32) == 0) {
      u32 r = (u32)i;
      for (int d = (int)rank - 1; d > 0; d--) {
        u32 n = (u32)size[d], q = r / n;
        place += (i64)(r - q * n) * stride[d];
        r = q;
      }
      return place + (i64)r * stride[0];
    }
    for (int d = (int)rank - 1; d > 0; d--) {
      u64 q = i / size[d];
      place += (i64)(i - q * size[d]) * stride[d];
      i = q;
    }
    return place + (i64)i * stride[0];
  }
};

// Values of other lanes, for all types.
#define SHUFFLE(NAME, HOW)                                                                       \
  template <class T> DEV T NAME(T v, int by) { return HOW(0xffffffffu, v, by); }                 \
  DEV bool NAME(bool v, int by) { return HOW(0xffffffffu, (int)v, by) != 0; }                    \
  DEV i8 NAME(i8 v, int by) { return (i8)HOW(0xffffffffu, (int)v, by); }                         \
  DEV u8 NAME(u8 v, int by) { return (u8)HOW(0xffffffffu, (int)v, by); }                         \
  DEV i16 NAME(i16 v, int by) { return (i16)HOW(0xffffffffu, (int)v, by); }                      \
  DEV u16 NAME(u16 v, int by) { return (u16)HOW(0xffffffffu, (int)v, by); }                      \
  DEV c64 NAME(c64 v, int by) {                                                                  \
    c64 r = {HOW(0xffffffffu, v.re, by), HOW(0xffffffffu, v.im, by)};                            \
    return r;                                                                                    \
  }
SHUFFLE(shuffle_xor, __shfl_xor_sync)
SHUFFLE(shuffle_up, __shfl_up_sync)

// All threads get the combination of what the threads of their warp have.
template <class O, class T> DEV T warp_all(T v) {
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) v = O::f(v, shuffle_xor(v, by));
  return v;
}

// All threads of a block get the combination; `THREADS` is a multiple of 32. Usable repeatedly.
template <class O, int THREADS, class T> DEV T block_all(T v) {
  v = warp_all<O>(v);
  if (THREADS == 32) return v;
  __shared__ T part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = part[0];
#pragma unroll
  for (int i = 1; i < THREADS / 32; i++) v = O::f(v, part[i]);
  __syncthreads();
  return v;
}

struct OpAdd { template <class T> static DEV T f(T a, T b) { return add(a, b); } };
struct OpMul { template <class T> static DEV T f(T a, T b) { return mul(a, b); } };
struct OpMax { template <class T> static DEV T f(T a, T b) { return maximum(a, b); } };
struct OpMin { template <class T> static DEV T f(T a, T b) { return minimum(a, b); } };
