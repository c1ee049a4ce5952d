// Reductions. T: elements; ACC: what is accumulated, as stored; OUT: results; OP, INIT: the operation and its
// start; VEC: elements of a load (1 unless the reduced axis is dense).
typedef typename Reg<ACC>::type A;

// Long chains of additions lose digits: every so often a partial result is set aside.
#define CHAIN 32
#define FLIGHT 4

#ifdef KERNEL_rows
// A group of THREADS for each result and part; groups of 32 share a block.
extern "C" __global__ void __launch_bounds__(256)
rows(const T* x, Axes kept, Axes along, u64 n, RESULT* y, u64 outs, u64 chunk, u64 parts) {
  BEGIN;
  u64 o = (u64)blockIdx.x * blockDim.y + threadIdx.y;
  if (o >= outs) return;
  u64 part = blockIdx.y;
  u64 start = part * chunk, end = start + chunk < n ? start + chunk : n;
  const T* row = x + kept.at(o);
  A acc[VEC], top[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) acc[j] = top[j] = INIT;
  u64 i = start + (u64)threadIdx.x * VEC;
  int links = 0;
#if DENSE
  const u64 step = (u64)THREADS * VEC;
  for (; i + (FLIGHT - 1) * step + VEC <= end; i += FLIGHT * step) {
    Vec<T, VEC> v[FLIGHT];
#pragma unroll
    for (int k = 0; k < FLIGHT; k++) v[k] = *(const Vec<T, VEC>*)(row + i + k * step);
#pragma unroll
    for (int k = 0; k < FLIGHT; k++)
#pragma unroll
      for (int j = 0; j < VEC; j++) acc[j] = OP::f(acc[j], To<A>::f(get<T>(v[k].v[j])));
    links += FLIGHT;
    if (links >= CHAIN) {
      links = 0;
#pragma unroll
      for (int j = 0; j < VEC; j++) { top[j] = OP::f(top[j], acc[j]); acc[j] = INIT; }
    }
  }
  for (; i < end; i += step)
#pragma unroll
    for (int j = 0; j < VEC; j++)
      if (i + j < end) acc[j] = OP::f(acc[j], To<A>::f(get<T>(row[i + j])));
#else
  for (; i < end; i += THREADS) {
    acc[0] = OP::f(acc[0], To<A>::f(get<T>(row[along.at(i)])));
    if (++links >= CHAIN) { links = 0; top[0] = OP::f(top[0], acc[0]); acc[0] = INIT; }
  }
#endif
  A all = OP::f(top[0], acc[0]);
#pragma unroll
  for (int j = 1; j < VEC; j++) all = OP::f(all, OP::f(top[j], acc[j]));
  all = block_all<OP, THREADS>(all);
  if (threadIdx.x == 0) y[o * parts + part] = put<RESULT>(all);
}
#endif

#ifdef KERNEL_columns
// A column of 8 threads for each result, 32 results side by side: for results whose elements lie apart.
extern "C" __global__ void __launch_bounds__(256)
columns(const T* x, Axes kept, Axes along, u64 n, RESULT* y, u64 outs, u64 chunk, u64 parts) {
  BEGIN;
  __shared__ A shared[8][33];
  u64 o = (u64)blockIdx.x * 32 + threadIdx.x, part = blockIdx.y;
  u64 start = part * chunk, end = start + chunk < n ? start + chunk : n;
  A acc = INIT, top = INIT;
  if (o < outs) {
    const T* row = x + kept.at(o);
    int links = 0;
    u64 i = start + threadIdx.y;
    for (; i + 24 < end; i += 32) {
      T v[4];
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = row[along.at(i + 8 * k)];
#pragma unroll
      for (int k = 0; k < 4; k++) acc = OP::f(acc, To<A>::f(get<T>(v[k])));
      links += 4;
      if (links >= CHAIN) { links = 0; top = OP::f(top, acc); acc = INIT; }
    }
    for (; i < end; i += 8) acc = OP::f(acc, To<A>::f(get<T>(row[along.at(i)])));
  }
  shared[threadIdx.y][threadIdx.x] = OP::f(top, acc);
  __syncthreads();
  if (threadIdx.y == 0 && o < outs) {
    A all = shared[0][threadIdx.x];
#pragma unroll
    for (int k = 1; k < 8; k++) all = OP::f(all, shared[k][threadIdx.x]);
    y[o * parts + part] = put<RESULT>(all);
  }
}
#endif

#ifdef KERNEL_wide_columns
// The same where neighbouring results have neighbouring elements: a thread reads VEC results' elements at once.
extern "C" __global__ void __launch_bounds__(256)
wide_columns(const T* x, Axes kept, i64 stride, u64 n, RESULT* y, u64 outs, u64 chunk, u64 parts) {
  BEGIN;
  __shared__ A shared[8][32 * VEC + 1];
  u64 o = ((u64)blockIdx.x * 32 + threadIdx.x) * VEC, part = blockIdx.y;
  u64 start = part * chunk, end = start + chunk < n ? start + chunk : n;
  A acc[VEC], top[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) acc[j] = top[j] = INIT;
  if (o < outs) {
    const T* row = x + kept.at(o);
    int links = 0;
    u64 i = start + threadIdx.y;
    for (; i + 8 * (FLIGHT - 1) < end; i += 8 * FLIGHT) {
      Vec<T, VEC> v[FLIGHT];
#pragma unroll
      for (int k = 0; k < FLIGHT; k++) v[k] = *(const Vec<T, VEC>*)(row + (i64)(i + 8 * k) * stride);
#pragma unroll
      for (int k = 0; k < FLIGHT; k++)
#pragma unroll
        for (int j = 0; j < VEC; j++) acc[j] = OP::f(acc[j], To<A>::f(get<T>(v[k].v[j])));
      links += FLIGHT;
      if (links >= CHAIN) {
        links = 0;
#pragma unroll
        for (int j = 0; j < VEC; j++) { top[j] = OP::f(top[j], acc[j]); acc[j] = INIT; }
      }
    }
    for (; i < end; i += 8) {
      Vec<T, VEC> v = *(const Vec<T, VEC>*)(row + (i64)i * stride);
#pragma unroll
      for (int j = 0; j < VEC; j++) acc[j] = OP::f(acc[j], To<A>::f(get<T>(v.v[j])));
    }
  }
#pragma unroll
  for (int j = 0; j < VEC; j++) shared[threadIdx.y][threadIdx.x * VEC + j] = OP::f(top[j], acc[j]);
  __syncthreads();
  for (int c = threadIdx.y * 32 + threadIdx.x; c < 32 * VEC; c += 256) {
    u64 result = (u64)blockIdx.x * 32 * VEC + c;
    if (result >= outs) break;
    A all = shared[0][c];
#pragma unroll
    for (int k = 1; k < 8; k++) all = OP::f(all, shared[k][c]);
    y[result * parts + part] = put<RESULT>(all);
  }
}
#endif
