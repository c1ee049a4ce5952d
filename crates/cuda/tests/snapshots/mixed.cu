struct Params {
  u64 threads; u64 elements; u64 size[2];
  void* at[4]; i64 stride[4][2];
};
DEV void one(f32 v0, i64 v1, f32& out0, bool& out1) {
  f32 v2 = __uint_as_float(0x40400000u);
  bool v3 = less(v0, v2);
  f32 v4 = square(v0);
  f32 v5 = To<f32>::f(v1);
  f32 v6 = v3 ? v4 : v5;
  out0 = v6;
  out1 = v3;
}
extern "C" __global__ void __launch_bounds__(256) expr(const Params p) {
  BEGIN;
  u32 t = (u32)blockIdx.x * 256 + threadIdx.x;
  if (t >= p.threads) return;
  u32 r = t, q, n = (u32)(p.size[1] / 2);
  q = r / n; i64 c1 = (i64)(r - q * n) * 2; r = q;
  i64 c0 = (i64)r;
  const f32* a0 = (const f32*)p.at[0] + (c0 * p.stride[0][0] + c1);
  const i64* a1 = (const i64*)p.at[1] + (c0 * p.stride[1][0] + c1 * p.stride[1][1]);
  f32* a2 = (f32*)p.at[2] + (c0 * p.stride[2][0] + c1);
  b8* a3 = (b8*)p.at[3] + (c0 * p.stride[3][0] + c1);
  Vec<f32, 2> x0 = *(const Vec<f32, 2>*)a0;
  Vec<f32, 2> x2;
  Vec<b8, 2> x3;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    f32 o0;
    bool o1;
    one(get<f32>(x0.v[j]), get<i64>(a1[j * p.stride[1][1]]), o0, o1);
    x2.v[j] = put<f32>(o0);
    x3.v[j] = put<b8>(o1);
  }
  *(Vec<f32, 2>*)a2 = x2;
  *(Vec<b8, 2>*)a3 = x3;
}
