// Attention without the matrix of scores, for few queries: a block for each query and part of the keys, whose warps take
// turns at keys and keep running maxima (Milakov and Gimelshein 2018); parts are combined afterwards. T: q, k, v; D and DV:
// width of keys and values; MASK: 0 none, 1 causal, 2 truth values, 3 added; SINKS.
#define LANES_D ((D + 31) / 32)
#define LANES_V ((DV + 31) / 32)
#define WARPS 4

struct Shape {
  u64 heads, groups, lq, lk;
  i64 q[3], k[3], v[3], mask[4];  // strides of batch, head and position
  u64 window;                     // newest keys that are seen, or 0 for all
  u64 parts, chunk;
};

#ifdef KERNEL_vector
extern "C" __global__ void __launch_bounds__(32 * WARPS)
vector(const T* q, const T* k, const T* v, const void* mask, const f32* sinks, const Shape s, f32 scale, T* out, f32* partial) {
  BEGIN;
  u64 id = blockIdx.x, part = blockIdx.y;
  u64 i = id % s.lq, bh = id / s.lq, h = bh % s.heads, b = bh / s.heads;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const T* qi = q + (i64)b * s.q[0] + (i64)h * s.q[1] + (i64)i * s.q[2];
  const T* kh = k + (i64)b * s.k[0] + (i64)(h / s.groups) * s.k[1];
  const T* vh = v + (i64)b * s.v[0] + (i64)(h / s.groups) * s.v[1];
  float qr[LANES_D];
#pragma unroll
  for (int j = 0; j < LANES_D; j++) {
    int d = j * 32 + lane;
    qr[j] = d < D ? get<T>(qi[d]) * scale : 0.0f;
  }
  i64 first = 0, end = (i64)s.lk;
#if MASK == 1
  i64 newest = (i64)s.lk - (i64)s.lq + (i64)i;
  if (newest + 1 < end) end = newest + 1;
  if (s.window && newest - (i64)s.window + 1 > first) first = newest - (i64)s.window + 1;
#endif
  i64 from = (i64)(part * s.chunk), to = from + (i64)s.chunk;
  if (from < first) from = first;
  if (to > end) to = end;
  float high = -INF, sum = 0.0f, acc[LANES_V] = {};
  for (i64 j0 = from + warp * 4; j0 < to; j0 += WARPS * 4) {
    float score[4];
#pragma unroll
    for (int u = 0; u < 4; u++) {
      i64 j = j0 + u < to ? j0 + u : to - 1;
      const T* kj = kh + j * s.k[2];
      float dot = 0.0f;
#pragma unroll
      for (int c = 0; c < LANES_D; c++) {
        int d = c * 32 + lane;
        if (D % 32 == 0 || d < D) dot = fmaf(qr[c], get<T>(kj[d]), dot);
      }
      score[u] = dot;
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      score[u] = warp_all<OpAdd>(score[u]);
      i64 j = j0 + u;
      if (j >= to) { score[u] = -INF; continue; }
#if MASK >= 2
      i64 at = (i64)b * s.mask[0] + (i64)h * s.mask[1] + (i64)i * s.mask[2] + j * s.mask[3];
#endif
#if MASK == 2
      if (((const u8*)mask)[at] == 0) score[u] = -INF;
#elif MASK == 3
      score[u] += ((const f32*)mask)[at];
#endif
    }
    float best = fmaxf(fmaxf(score[0], score[1]), fmaxf(score[2], score[3]));
    if (best == -INF) continue;
    float next = fmaxf(high, best), keep = expf(high - next);
    high = next;
    sum *= keep;
#pragma unroll
    for (int c = 0; c < LANES_V; c++) acc[c] *= keep;
#pragma unroll
    for (int u = 0; u < 4; u++) {
      i64 j = j0 + u < to ? j0 + u : to - 1;
      float p = expf(score[u] - high);
      sum += p;
      const T* vj = vh + j * s.v[2];
#pragma unroll
      for (int c = 0; c < LANES_V; c++) {
        int d = c * 32 + lane;
        if (DV % 32 == 0 || d < DV) acc[c] = fmaf(p, get<T>(vj[d]), acc[c]);
      }
    }
  }
  __shared__ float highs[WARPS], sums[WARPS], values[WARPS][DV];
  if (lane == 0) { highs[warp] = high; sums[warp] = sum; }
#pragma unroll
  for (int c = 0; c < LANES_V; c++) {
    int d = c * 32 + lane;
    if (d < DV) values[warp][d] = acc[c];
  }
  __syncthreads();
  high = -INF;
#pragma unroll
  for (int w = 0; w < WARPS; w++) high = fmaxf(high, highs[w]);
#if SINKS
  // One more key without a value, counted in the first part.
  if (part == 0) high = fmaxf(high, sinks[h]);
#endif
  float shift = high == -INF ? 0.0f : high;
  sum = 0.0f;
#if SINKS
  if (part == 0) sum = expf(sinks[h] - shift);
#endif
#pragma unroll
  for (int w = 0; w < WARPS; w++) sum += sums[w] * expf(highs[w] - shift);
  for (int d = threadIdx.x; d < DV; d += 32 * WARPS) {
    float all = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) all += values[w][d] * expf(highs[w] - shift);
    if (s.parts == 1) out[id * DV + d] = put<T>(sum > 0.0f || sum != sum ? all / sum : 0.0f);
    else partial[(id * s.parts + part) * (DV + 2) + 2 + d] = all;
  }
  if (s.parts > 1 && threadIdx.x == 0) {
    partial[(id * s.parts + part) * (DV + 2)] = high;
    partial[(id * s.parts + part) * (DV + 2) + 1] = sum;
  }
}
#endif

#ifdef KERNEL_combine
// Results from those of the parts.
extern "C" __global__ void __launch_bounds__(128) combine(const f32* partial, u64 parts, T* out) {
  BEGIN;
  const f32* mine = partial + (u64)blockIdx.x * parts * (DV + 2);
  float high = -INF, sum = 0.0f;
  for (u64 p = 0; p < parts; p++) high = fmaxf(high, mine[p * (DV + 2)]);
  float shift = high == -INF ? 0.0f : high;
  for (u64 p = 0; p < parts; p++) sum += mine[p * (DV + 2) + 1] * expf(mine[p * (DV + 2)] - shift);
  for (int d = threadIdx.x; d < DV; d += 128) {
    float all = 0.0f;
    for (u64 p = 0; p < parts; p++) all += mine[p * (DV + 2) + 2 + d] * expf(mine[p * (DV + 2)] - shift);
    out[(u64)blockIdx.x * DV + d] = put<T>(sum > 0.0f || sum != sum ? all / sum : 0.0f);
  }
}
#endif
