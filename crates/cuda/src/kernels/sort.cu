// Sorting by merging. Elements become unsigned keys whose order is theirs, NaN last; keys and places are sorted
// in tiles, runs of tiles are merged, and the places give the results. Equal keys keep their order. T: elements;
// K: keys; DESCENDING.

#define TILE 1024

#if defined(KERNEL_tiles)
DEV u32 ordered(u32 bits) { return bits & 0x80000000u ? ~bits : bits | 0x80000000u; }
DEV K key(T v) {
  typename Reg<T>::type r = get<T>(v);
#if IS_FLOAT
  if (r != r) return (K)~(K)0;
#if IS_DOUBLE
  u64 bits = (u64)__double_as_longlong(r == 0 ? 0.0 : r);
  K k = bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
#else
  K k = ordered(__float_as_uint(r == 0 ? 0.0f : r));
#endif
#elif IS_SIGNED
  K k = (K)r ^ ((K)1 << (sizeof(K) * 8 - 1));
#else
  K k = (K)r;
#endif
  return DESCENDING ? (K)~k : k;
}

// Sorts each tile of each line by key and place (Batcher's bitonic network).
extern "C" __global__ void __launch_bounds__(512)
tiles(const T* x, Axes lines, i64 stride, u64 n, u64 per_line, K* keys, u32* places) {
  BEGIN;
  __shared__ K k[TILE];
  __shared__ u32 p[TILE];
  u64 line = blockIdx.x / per_line, base = (blockIdx.x - line * per_line) * TILE;
  const T* from = x + lines.at(line);
  for (int i = threadIdx.x; i < TILE; i += 512) {
    u64 at = base + i;
    k[i] = at < n ? key(from[(i64)at * stride]) : (K)~(K)0;
    p[i] = at < n ? (u32)at : 0xffffffffu;
  }
  __syncthreads();
  for (int size = 2; size <= TILE; size <<= 1)
    for (int by = size >> 1; by > 0; by >>= 1) {
      int i = 2 * threadIdx.x - (threadIdx.x & (by - 1)), j = i + by;
      bool up = (i & size) == 0;
      bool after = k[i] > k[j] || (k[i] == k[j] && p[i] > p[j]);
      if (after == up) {
        K a = k[i]; k[i] = k[j]; k[j] = a;
        u32 b = p[i]; p[i] = p[j]; p[j] = b;
      }
      __syncthreads();
    }
  for (int i = threadIdx.x; i < TILE; i += 512)
    if (base + i < n) {
      keys[line * n + base + i] = k[i];
      places[line * n + base + i] = p[i];
    }
}
#endif

#ifdef KERNEL_merge
// Merges neighbouring runs: each element finds how many of the other run come before it.
extern "C" __global__ void __launch_bounds__(256)
merge(const K* keys, const u32* places, K* to_keys, u32* to_places, u64 n, u64 run, u64 total) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  u64 line = t / n, i = t - line * n, start = i / (2 * run) * (2 * run), middle = start + run;
  const K* k = keys + line * n;
  K mine = k[i];
  u64 to = i;
  if (middle < n) {
    bool left = i < middle;
    u64 low = left ? middle : start, high = left ? (middle + run < n ? middle + run : n) : middle, first = low;
    while (low < high) {
      u64 m = (low + high) / 2;
      // From the right run, equal ones of the left come first.
      if (left ? k[m] < mine : k[m] <= mine) low = m + 1;
      else high = m;
    }
    to = left ? i + (low - first) : start + (i - middle) + (low - first);
  }
  to_keys[line * n + to] = mine;
  to_places[line * n + to] = places[t];
}
#endif

#ifdef KERNEL_elements
// The elements at the sorted places.
extern "C" __global__ void __launch_bounds__(256)
elements(const u32* places, const T* x, Axes lines, i64 stride, T* y, Axes outs, i64 out, u64 n, u64 total) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  u64 line = t / n, i = t - line * n;
  y[outs.at(line) + (i64)i * out] = x[lines.at(line) + (i64)places[t] * stride];
}
#endif

#ifdef KERNEL_indices
// The sorted places themselves.
extern "C" __global__ void __launch_bounds__(256)
indices(const u32* places, u32* y, Axes outs, i64 out, u64 n, u64 total) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  u64 line = t / n, i = t - line * n;
  y[outs.at(line) + (i64)i * out] = places[t];
}
#endif
