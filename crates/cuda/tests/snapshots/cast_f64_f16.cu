struct Params {
  u64 threads; u64 elements; u64 size[1];
  void* at[2]; i64 stride[2][1];
};
DEV void one(f64 v0, f32& out0) {
  f32 v1 = round_f16(before_half(v0));
  out0 = v1;
}
extern "C" __global__ void __launch_bounds__(256) expr(const Params p) {
  BEGIN;
  u32 t = (u32)blockIdx.x * 256 + threadIdx.x;
  if (t >= p.threads) return;
  i64 c0 = (i64)t * 2;
  const f64* a0 = (const f64*)p.at[0] + (c0);
  f16* a1 = (f16*)p.at[1] + (c0);
  if (c0 + 2 > (i64)p.elements) {
    for (int j = 0; j < (int)(p.elements - c0); j++) {
      f32 o0;
      one(get<f64>(a0[j]), o0);
      a1[j] = put<f16>(o0);
    }
    return;
  }
  Vec<f64, 2> x0 = *(const Vec<f64, 2>*)a0;
  Vec<f16, 2> x1;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    f32 o0;
    one(get<f64>(x0.v[j]), o0);
    x1.v[j] = put<f16>(o0);
  }
  *(Vec<f16, 2>*)a1 = x1;
}
