// The index of the first smallest or largest element along an axis; the first NaN where there is one. T: elements;
// LARGEST; THREADS for each result.
typedef typename Reg<T>::type A;
#define NONE 0xffffffffu

// Whether `b` at `j` comes before `a` at `i`.
DEV bool wins(A b, u32 j, A a, u32 i) {
  if (j == NONE) return false;
  if (i == NONE) return true;
  bool an = a != a, bn = b != b;
  if (an || bn) return bn && (!an || j < i);
  if (a == b) return j < i;
#if LARGEST
  return b > a;
#else
  return b < a;
#endif
}

extern "C" __global__ void __launch_bounds__(1024) extreme(const T* x, Axes kept, u64 n, i64 stride, u32* y, u64 outs) {
  BEGIN;
#if THREADS == 1
  u64 o = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 first = 0;
#else
  u64 o = (u64)blockIdx.x * blockDim.y + threadIdx.y;
  u64 first = threadIdx.x;
#endif
  if (o >= outs) return;
  const T* row = x + kept.at(o);
  A best = A();
  u32 at = NONE;
  for (u64 i = first; i < n; i += THREADS) {
    A v = get<T>(row[(i64)i * stride]);
    if (wins(v, (u32)i, best, at)) { best = v; at = (u32)i; }
  }
#if THREADS > 1
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) {
    A v = shuffle_xor(best, by);
    u32 j = __shfl_xor_sync(0xffffffffu, at, by);
    if (wins(v, j, best, at)) { best = v; at = j; }
  }
#endif
#if THREADS > 32
  __shared__ A values[32];
  __shared__ u32 places[32];
  if ((threadIdx.x & 31) == 0) { values[threadIdx.x >> 5] = best; places[threadIdx.x >> 5] = at; }
  __syncthreads();
  if (threadIdx.x == 0)
    for (int k = 1; k < THREADS / 32; k++)
      if (wins(values[k], places[k], best, at)) { best = values[k]; at = places[k]; }
#endif
#if THREADS > 1
  if (threadIdx.x == 0)
#endif
    y[o] = at;
}
