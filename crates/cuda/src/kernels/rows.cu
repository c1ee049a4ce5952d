// Softmax and normalisation of dense rows of `n` elements. T: elements; THREADS for a row; VEC: elements of a load;
// ITERS: loads of a thread that hold the whole row in registers, or 0 for rows that are read again instead.

struct Row {
  const T* x;
  u64 n;
#if ITERS
  float v[ITERS][VEC];
#endif
  DEV void load() {
#if ITERS
#pragma unroll
    for (int k = 0; k < ITERS; k++) {
      u64 i = ((u64)k * THREADS + threadIdx.x) * VEC;
      if (i < n) {
        Vec<T, VEC> r = *(const Vec<T, VEC>*)(x + i);
#pragma unroll
        for (int j = 0; j < VEC; j++) v[k][j] = get<T>(r.v[j]);
      }
    }
#endif
  }
  // Every element of this thread.
  template <class F> DEV void each(F f) const {
#if ITERS
#pragma unroll
    for (int k = 0; k < ITERS; k++) {
      u64 i = ((u64)k * THREADS + threadIdx.x) * VEC;
      if (i < n)
#pragma unroll
        for (int j = 0; j < VEC; j++) f(v[k][j]);
    }
#else
    for (u64 i = (u64)threadIdx.x * VEC; i < n; i += THREADS * VEC) {
      Vec<T, VEC> r = *(const Vec<T, VEC>*)(x + i);
#pragma unroll
      for (int j = 0; j < VEC; j++) f(get<T>(r.v[j]));
    }
#endif
  }
  // Writes what `f` makes of the element at a place.
  template <class F> DEV void write(T* y, F f) const {
#if ITERS
#pragma unroll
    for (int k = 0; k < ITERS; k++) {
      u64 i = ((u64)k * THREADS + threadIdx.x) * VEC;
      if (i < n) {
        Vec<T, VEC> r;
#pragma unroll
        for (int j = 0; j < VEC; j++) r.v[j] = put<T>(f(i + j, v[k][j]));
        *(Vec<T, VEC>*)(y + i) = r;
      }
    }
#else
    for (u64 i = (u64)threadIdx.x * VEC; i < n; i += THREADS * VEC) {
      Vec<T, VEC> r = *(const Vec<T, VEC>*)(x + i);
#pragma unroll
      for (int j = 0; j < VEC; j++) r.v[j] = put<T>(f(i + j, get<T>(r.v[j])));
      *(Vec<T, VEC>*)(y + i) = r;
    }
#endif
  }
};

#define ROW(y, width)                                          \
  u64 o = (u64)blockIdx.x * blockDim.y + threadIdx.y;           \
  if (o >= rows) return;                                        \
  Row row;                                                      \
  row.x = x + o * n;                                            \
  row.n = n;                                                    \
  row.load();                                                   \
  y += o * (width);

#ifdef KERNEL_softmax
// exp(v - shift). Results of halves need few digits: for those by the instruction for powers of two.
template <class E> DEV float exp_of(float v, float shift) {
  if (sizeof(E) == 4) return expf(v - shift);
  const float log2e = 1.4426950408889634f;
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"((v - shift) * log2e));
  return r;
}
// A row of nothing but -inf, and one with +inf, has no softmax: all NaN.
extern "C" __global__ void __launch_bounds__(THREADS < 256 ? 256 : THREADS) softmax(const T* x, T* y, u64 n, u64 rows) {
  BEGIN;
  ROW(y, n)
  float high = -INF;
  row.each([&](float v) { high = maximum(high, v); });
  high = block_all<OpMax, THREADS>(high);
  float shift = high == -INF ? 0.0f : high, sum = 0.0f;
#if ITERS
#pragma unroll
  for (int k = 0; k < ITERS; k++) {
    u64 i = ((u64)k * THREADS + threadIdx.x) * VEC;
    if (i < n)
#pragma unroll
        for (int j = 0; j < VEC; j++) { row.v[k][j] = exp_of<T>(row.v[k][j], shift); sum += row.v[k][j]; }
  }
  sum = block_all<OpAdd, THREADS>(sum);
  float part = 1.0f / sum;
  row.write(y, [&](u64, float v) { return sizeof(T) == 4 ? v / sum : v * part; });
#else
  row.each([&](float v) { sum += exp_of<T>(v, shift); });
  sum = block_all<OpAdd, THREADS>(sum);
  float part = 1.0f / sum;
  row.write(y, [&](u64, float v) {
    float e = exp_of<T>(v, shift);
    return sizeof(T) == 4 ? e / sum : e * part;
  });
#endif
}
#endif

#ifdef KERNEL_logsumexp
extern "C" __global__ void __launch_bounds__(THREADS < 256 ? 256 : THREADS) logsumexp(const T* x, T* y, u64 n, u64 rows) {
  BEGIN;
  ROW(y, 1)
  float high = -INF;
  row.each([&](float v) { high = maximum(high, v); });
  high = block_all<OpMax, THREADS>(high);
  float shift = fabsf(high) < INF ? high : 0.0f, sum = 0.0f;
  row.each([&](float v) { sum += expf(v - shift); });
  sum = block_all<OpAdd, THREADS>(sum);
  if (threadIdx.x == 0) y[0] = put<T>(logf(sum) + shift);
}
#endif

#ifdef KERNEL_rms_norm
// W: type of the weight, when HAS_W.
extern "C" __global__ void __launch_bounds__(THREADS < 256 ? 256 : THREADS)
rms_norm(const T* x, T* y, u64 n, u64 rows, float eps, const W* w, const B* b) {
  BEGIN;
  ROW(y, n)
  float sum = 0.0f;
  row.each([&](float v) { sum += v * v; });
  sum = block_all<OpAdd, THREADS>(sum);
  float r = 1.0f / sqrtf(sum / (float)n + eps);
  row.write(y, [&](u64 i, float v) {
    float z = v * r;
#if HAS_W
    z *= get<W>(w[i]);
#endif
    return z;
  });
}
#endif

#ifdef KERNEL_layer_norm
extern "C" __global__ void __launch_bounds__(THREADS < 256 ? 256 : THREADS)
layer_norm(const T* x, T* y, u64 n, u64 rows, float eps, const W* w, const B* b) {
  BEGIN;
  ROW(y, n)
  float sum = 0.0f;
  row.each([&](float v) { sum += v; });
  float mean = block_all<OpAdd, THREADS>(sum) / (float)n;
  float squares = 0.0f;
  row.each([&](float v) { squares += (v - mean) * (v - mean); });
  squares = block_all<OpAdd, THREADS>(squares);
  float r = 1.0f / sqrtf(squares / (float)n + eps);
  row.write(y, [&](u64 i, float v) {
    float z = (v - mean) * r;
#if HAS_W
    z *= get<W>(w[i]);
#endif
#if HAS_B
    z += get<B>(b[i]);
#endif
    return z;
  });
}
#endif
