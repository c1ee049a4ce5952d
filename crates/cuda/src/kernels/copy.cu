// Copies that turn axes around: the source is dense along one axis, the row-major result along another. T: an unsigned type
// of the elements' size; V: elements of a load and of a store.
#define SIDE (32 * V)

#ifdef KERNEL_turn
// Tiles of SIDE by SIDE go through shared memory, so that reads and writes are both dense. `a`: the axis that is dense in
// the result; `b`: the one that is dense in the source; `rest`: the others, in both.
extern "C" __global__ void __launch_bounds__(256)
turn(const T* x, T* y, u64 a, i64 xa, u64 b, i64 yb, u64 tiles_a, u64 tiles_b, Axes from, Axes to) {
  BEGIN;
  __shared__ T tile[SIDE][SIDE + 1];
  u64 id = blockIdx.x, ta = id % tiles_a, tb = id / tiles_a % tiles_b, r = id / tiles_a / tiles_b;
  u64 a0 = ta * SIDE, b0 = tb * SIDE;
  x += from.at(r);
  y += to.at(r);
  int tx = threadIdx.x, ty = threadIdx.y;
  u64 bx = b0 + (u64)tx * V;
  if (a0 + SIDE <= a && b0 + SIDE <= b) {
    Vec<T, V> v[SIDE / 8];
#pragma unroll
    for (int k = 0; k < SIDE / 8; k++) v[k] = *(const Vec<T, V>*)(x + (i64)(a0 + ty + 8 * k) * xa + bx);
#pragma unroll
    for (int k = 0; k < SIDE / 8; k++)
#pragma unroll
      for (int j = 0; j < V; j++) tile[ty + 8 * k][tx * V + j] = v[k].v[j];
  } else {
    for (int k = 0; k < SIDE / 8; k++)
      for (int j = 0; j < V; j++)
        if (a0 + ty + 8 * k < a && bx + j < b) tile[ty + 8 * k][tx * V + j] = x[(i64)(a0 + ty + 8 * k) * xa + bx + j];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SIDE / 8; k++) {
    u64 row = b0 + ty + 8 * k, ax = a0 + (u64)tx * V;
    if (row >= b) break;
    Vec<T, V> v;
#pragma unroll
    for (int j = 0; j < V; j++) v.v[j] = tile[tx * V + j][ty + 8 * k];
    if (ax + V <= a) *(Vec<T, V>*)(y + (i64)row * yb + ax) = v;
    else
      for (int j = 0; j < V; j++) if (ax + j < a) y[(i64)row * yb + ax + j] = v.v[j];
  }
}
#endif
