// Rotary positions. A block for each position of a batch row: its angles serve all heads. T: elements; TRADITIONAL:
// pairs are neighbours; EXPLICIT: frequencies are given.

extern "C" __global__ void __launch_bounds__(256)
rope(const T* x, i64 sb, i64 sh, i64 sl, T* y, u64 heads, u64 len, u64 dim, u64 dims, const i32* offsets, u64 per_batch,
     const f32* frequencies, f32 base, f32 scale) {
  BEGIN;
  extern __shared__ float table[];
  u64 l = blockIdx.x, b = blockIdx.y, half = dims / 2;
  float position = (float)((i64)offsets[per_batch ? b : 0] + (i64)l) * scale;
  for (u64 i = threadIdx.x; i < half; i += 256) {
#if EXPLICIT
    float f = frequencies[i];
#else
    float f = (float)pow((double)base, -2.0 * (double)i / (double)dims);
#endif
    float s, c;
    sincosf(position * f, &s, &c);
    table[i] = c;
    table[half + i] = s;
  }
  __syncthreads();
  u64 rest = dim - dims, each = half + rest;
  for (u64 t = threadIdx.x; t < heads * each; t += 256) {
    u64 h = t / each, i = t - h * each;
    const T* from = x + (i64)b * sb + (i64)h * sh + (i64)l * sl;
    T* to = y + ((b * heads + h) * len + l) * dim;
    if (i >= half) {
      to[dims + i - half] = from[dims + i - half];
      continue;
    }
#if TRADITIONAL
    u64 p = 2 * i, q = 2 * i + 1;
#else
    u64 p = i, q = i + half;
#endif
    float c = table[i], s = table[half + i], u = get<T>(from[p]), v = get<T>(from[q]);
    to[p] = put<T>(u * c - v * s);
    to[q] = put<T>(u * s + v * c);
  }
}
