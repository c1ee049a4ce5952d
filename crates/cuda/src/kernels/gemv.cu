// y = w @ x for a dense matrix whose rows lie dense, at the speed of reading it: a warp for R rows. T: elements, whose rows
// are whole pieces of 16 bytes.
#define EACH (16 / sizeof(T))
#define FLIGHT 4

#ifdef KERNEL_dense
extern "C" __global__ void __launch_bounds__(256) dense(const T* x, const T* w, T* y, u64 n, u64 outs, i64 stride) {
  BEGIN;
  u64 o = ((u64)blockIdx.x * 8 + threadIdx.y) * R;
  if (o >= outs) return;
  const T* row[R];
#pragma unroll
  for (int r = 0; r < R; r++) row[r] = w + (i64)(o + r < outs ? o + r : outs - 1) * stride;
  float acc[R][EACH] = {};
  u64 e = threadIdx.x * EACH;
  const u64 step = 32 * EACH;
  for (; e + (FLIGHT - 1) * step < n; e += FLIGHT * step) {
    Vec<u32, 4> v[R][FLIGHT];
#pragma unroll
    for (int k = 0; k < FLIGHT; k++)
#pragma unroll
      for (int r = 0; r < R; r++) v[r][k] = load_once((const Vec<u32, 4>*)(row[r] + e + k * step));
#pragma unroll
    for (int k = 0; k < FLIGHT; k++) {
      Vec<T, EACH> xs = *(const Vec<T, EACH>*)(x + e + k * step);
#pragma unroll
      for (int r = 0; r < R; r++)
#pragma unroll
        for (int j = 0; j < EACH; j++) acc[r][j] = fmaf(get<T>(xs.v[j]), get<T>(((const T*)v[r][k].v)[j]), acc[r][j]);
    }
  }
  for (; e < n; e += step) {
    Vec<T, EACH> xs = *(const Vec<T, EACH>*)(x + e);
#pragma unroll
    for (int r = 0; r < R; r++) {
      Vec<T, EACH> v = *(const Vec<T, EACH>*)(row[r] + e);
#pragma unroll
      for (int j = 0; j < EACH; j++) acc[r][j] = fmaf(get<T>(xs.v[j]), get<T>(v.v[j]), acc[r][j]);
    }
  }
#pragma unroll
  for (int r = 0; r < R; r++) {
    float all = 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; j++) all += acc[r][j];
    all = warp_all<OpAdd>(all);
    if (threadIdx.x == 0 && o + r < outs) y[o + r] = put<T>(all);
  }
}
#endif
