struct Params {
  u64 threads; u64 elements; u64 size[1];
  void* at[3]; i64 stride[3][1];
};
DEV void one(f32 v0, f32 v1, f32& out0) {
  f32 v2 = add(v0, v1);
  out0 = v2;
}
extern "C" __global__ void __launch_bounds__(256) expr(const Params p) {
  BEGIN;
  u32 t = (u32)blockIdx.x * 256 + threadIdx.x;
  if (t >= p.threads) return;
  i64 c0 = (i64)t * 4;
  const f32* a0 = (const f32*)p.at[0] + (c0);
  const f32* a1 = (const f32*)p.at[1] + (c0);
  f32* a2 = (f32*)p.at[2] + (c0);
  if (c0 + 4 > (i64)p.elements) {
    for (int j = 0; j < (int)(p.elements - c0); j++) {
      f32 o0;
      one(get<f32>(a0[j]), get<f32>(a1[j]), o0);
      a2[j] = put<f32>(o0);
    }
    return;
  }
  Vec<f32, 4> x0 = *(const Vec<f32, 4>*)a0;
  Vec<f32, 4> x1 = *(const Vec<f32, 4>*)a1;
  Vec<f32, 4> x2;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    f32 o0;
    one(get<f32>(x0.v[j]), get<f32>(x1.v[j]), o0);
    x2.v[j] = put<f32>(o0);
  }
  *(Vec<f32, 4>*)a2 = x2;
}
