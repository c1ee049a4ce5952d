// Ranges.

#ifdef KERNEL_arange
// start + i * step: integers wrap, floats are computed in double and rounded once. OUT; WHOLE for integers.
extern "C" __global__ void __launch_bounds__(256) arange(OUT* y, u64 n, u64 start, u64 step) {
  BEGIN;
  u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
#if WHOLE
  y[i] = (OUT)(start + step * i);
#else
  double v = __longlong_as_double((i64)start) + __longlong_as_double((i64)step) * (double)i;
  y[i] = MAKE(v);
#endif
}
#endif
