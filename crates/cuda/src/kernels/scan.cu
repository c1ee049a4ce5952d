// Running reductions along one axis. T: elements; ACC: what is accumulated, as stored; OUT: results; OP, INIT; REVERSE;
// INCLUSIVE. Results are row-major, with the axis's stride `out`.
typedef typename Reg<ACC>::type A;
struct OpLse { template <class V> static DEV V f(V a, V b) { return log_add_exp(a, b); } };

#ifdef KERNEL_serial
// A thread for each line: for lines that lie beside each other.
extern "C" __global__ void __launch_bounds__(256)
serial(const T* x, Axes lines, i64 stride, OUT* y, Axes places, i64 out, u64 n, u64 count) {
  BEGIN;
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

#ifdef KERNEL_totals
// The combination of each part of a line, for lines that are too long for one block.
extern "C" __global__ void __launch_bounds__(256)
totals(const T* x, Axes lines, i64 stride, u64 n, u64 chunk, u64 parts, ACC* y) {
  BEGIN;
  u64 o = blockIdx.x / parts, part = blockIdx.x % parts;
  const T* from = x + lines.at(o);
  u64 start = part * chunk, end = start + chunk < n ? start + chunk : n;
  A acc = INIT;
#pragma unroll 4
  for (u64 k = start + threadIdx.x; k < end; k += 256) {
    i64 i = (i64)(REVERSE ? n - 1 - k : k);
    acc = OP::f(acc, To<A>::f(get<T>(from[i * stride])));
  }
  acc = block_all<OP, 256>(acc);
  if (threadIdx.x == 0) y[blockIdx.x] = put<ACC>(acc);
}
#endif

#ifdef KERNEL_block
// A block for each line, or for each of its parts, whose totals are then known.
#define EACH 4
extern "C" __global__ void __launch_bounds__(256)
block(const T* x, Axes lines, i64 stride, OUT* y, Axes places, i64 out, u64 n, u64 chunk, u64 parts, const ACC* totals) {
  BEGIN;
  __shared__ A warps[8];
  u64 o = blockIdx.x / parts, part = blockIdx.x % parts;
  const T* from = x + lines.at(o);
  OUT* to = y + places.at(o);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  A carry = INIT;
  bool some = part > 0;
  if (some) {
    for (u64 p = threadIdx.x; p < part; p += 256) carry = OP::f(carry, get<ACC>(totals[o * parts + p]));
    carry = block_all<OP, 256>(carry);
  }
  const u64 whole = n;
  if ((part + 1) * chunk < n) n = (part + 1) * chunk;
  for (u64 base = part * chunk; base < n; base += 256 * EACH) {
    u64 first = base + (u64)threadIdx.x * EACH;
    A v[EACH];
    bool has[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      u64 k = first + j;
      has[j] = k < n;
      i64 i = (i64)(REVERSE ? whole - 1 - k : k);
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
      i64 i = (i64)(REVERSE ? whole - 1 - k : k);
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
