// Running reductions along one axis. T: elements; ACC: what is accumulated, as stored; OUT: results; OP, INIT; REVERSE;
// INCLUSIVE. Results are row-major, with the axis's stride `out`.
typedef typename Reg<ACC>::type A;
struct OpLse { template <class V> static DEV V f(V a, V b) { return log_add_exp(a, b); } };

#ifdef KERNEL_serial
// A thread for each line: for lines that lie beside each other.
extern "C" __global__ void __launch_bounds__(256)
serial(const T* x, Axes lines, i64 stride, OUT* y, Axes places, i64 out, u64 n, u64 count) {
  u64 o = (u64)blockIdx.x * 256 + threadIdx.x;
  if (o >= count) return;
  const T* from = x + lines.at(o);
  OUT* to = y + places.at(o);
  A acc = INIT;
  for (u64 k = 0; k < n; k++) {
    i64 i = (i64)(REVERSE ? n - 1 - k : k);
    A v = To<A>::f(get<T>(from[i * stride]));
    A next = k == 0 ? v : OP::f(acc, v);
    to[i * out] = put<OUT>(INCLUSIVE ? next : acc);
    acc = next;
  }
}
#endif

#ifdef KERNEL_block
// A block for each line.
#define EACH 4
extern "C" __global__ void __launch_bounds__(256)
block(const T* x, Axes lines, i64 stride, OUT* y, Axes places, i64 out, u64 n, u64 count) {
  __shared__ A warps[8];
  u64 o = blockIdx.x;
  const T* from = x + lines.at(o);
  OUT* to = y + places.at(o);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  A carry = INIT;
  bool some = false;
  for (u64 base = 0; base < n; base += 256 * EACH) {
    u64 first = base + (u64)threadIdx.x * EACH;
    A v[EACH];
    bool has[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      u64 k = first + j;
      has[j] = k < n;
      i64 i = (i64)(REVERSE ? n - 1 - k : k);
      v[j] = has[j] ? To<A>::f(get<T>(from[i * stride])) : INIT;
      if (j > 0 && has[j]) v[j] = OP::f(v[j - 1], v[j]);
    }
    // What this thread adds: its last element that exists. Threads beyond the end add nothing.
    int own = first >= n ? 0 : (n - first < EACH ? (int)(n - first) : EACH);
    A sum = own > 0 ? v[0] : INIT;
#pragma unroll
    for (int j = 1; j < EACH; j++) if (own > j) sum = v[j];
    A run = sum;
#pragma unroll
    for (int by = 1; by < 32; by <<= 1) {
      A before = shuffle_up(run, by);
      if (lane >= by && own > 0) run = OP::f(before, run);
    }
    // The total of a warp is what its last lane with elements has.
    u32 active = __ballot_sync(0xffffffffu, own > 0);
    if (active != 0 && lane == 31 - __clz(active)) warps[warp] = run;
    __syncthreads();
    A before = carry;
    bool any = some;
    for (int w = 0; w < warp; w++)
      if (base + (u64)w * 32 * EACH < n) { before = any ? OP::f(before, warps[w]) : warps[w]; any = true; }
    A left = shuffle_up(run, 1);
    if (lane > 0) { before = any ? OP::f(before, left) : left; any = true; }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      if (!has[j]) continue;
      u64 k = first + j;
      i64 i = (i64)(REVERSE ? n - 1 - k : k);
      A result;
      if (INCLUSIVE) result = any ? OP::f(before, v[j]) : v[j];
      else if (j == 0) result = any ? before : INIT;
      else result = any ? OP::f(before, v[j - 1]) : v[j - 1];
      to[i * out] = put<OUT>(result);
    }
    A all = carry;
    bool had = some;
    for (int w = 0; w < 8; w++)
      if (base + (u64)w * 32 * EACH < n) { all = had ? OP::f(all, warps[w]) : warps[w]; had = true; }
    carry = all;
    some = had;
    __syncthreads();
  }
}
#endif
