// Packed weights: w = scale * q + bias, with `q` of BITS bits in a little-endian stream of words for each row, and a
// scale and bias for every GROUP elements. S: type of scales and biases.

#define WORDS(n) ((n) * BITS / 32)

// Element `e` of a row.
DEV u32 unpack(const u32* row, u64 e) {
  u64 bit = e * BITS;
  u32 shift = (u32)(bit & 31);
  u32 v = row[bit >> 5] >> shift;
#if 32 % BITS != 0
  if (shift + BITS > 32) v |= row[(bit >> 5) + 1] << (32 - shift);
#endif
  return v & ((1u << BITS) - 1u);
}

// Byte `i` of a word as a float, exactly: under the exponent of 2^23 it is the last digits.
template <int i> DEV float byte_float(u32 w) {
  return __uint_as_float(__byte_perm(w, 0x4b000000u, 0x7440 | i)) - 8388608.0f;
}

#ifdef KERNEL_dequantize
// OUT: results. A thread for each EACH elements, which lie in one group.
extern "C" __global__ void __launch_bounds__(256)
dequantize(const u32* words, const S* scales, const S* biases, OUT* y, u64 n, u64 total) {
  u64 t = ((u64)blockIdx.x * 256 + threadIdx.x) * EACH;
  if (t >= total) return;
  u64 row = t / n, e = t - row * n, g = t / GROUP;
  const u32* w = words + row * WORDS(n);
  float s = get<S>(scales[g]), b = get<S>(biases[g]);
  Vec<OUT, EACH> r;
#if EACH == 8 && BITS == 4
  u32 v = w[e >> 3], low = v & 0x0f0f0f0fu, high = (v >> 4) & 0x0f0f0f0fu;
#define PAIR(i)                                          \
  r.v[2 * i] = put<OUT>(s * byte_float<i>(low) + b);     \
  r.v[2 * i + 1] = put<OUT>(s * byte_float<i>(high) + b);
  PAIR(0) PAIR(1) PAIR(2) PAIR(3)
#else
#pragma unroll
  for (int j = 0; j < EACH; j++) r.v[j] = put<OUT>(s * (float)unpack(w, e + j) + b);
#endif
  *(Vec<OUT, EACH>*)(y + t) = r;
}
#endif

#ifdef KERNEL_gemv
// y = x @ w.T for BITS 4 or 8 and groups of whole pieces of 16 bytes. A warp does R rows of `w` and M of `x`, so that
// what is loaded and unpacked serves several products. T: x and y.
#define PER_WORD (32 / BITS)
#define PIECE (128 / BITS)
extern "C" __global__ void __launch_bounds__(128)
gemv(const T* x, const u32* words, const S* scales, const S* biases, T* y, u64 n, u64 outs, u64 rows) {
  u64 o = ((u64)blockIdx.x * 4 + threadIdx.y) * R, m0 = (u64)blockIdx.y * M;
  if (o >= outs) return;
  const int lane = threadIdx.x;
  float acc[R][M] = {};
  for (u64 e = (u64)lane * PIECE; e < n; e += 32 * PIECE) {
    uint4 w[R];
    float s[R], b[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
      u64 row = o + r < outs ? o + r : outs - 1;
      w[r] = __ldcs((const uint4*)(words + row * WORDS(n) + e / PER_WORD));
      s[r] = get<S>(scales[row * (n / GROUP) + e / GROUP]);
      b[r] = get<S>(biases[row * (n / GROUP) + e / GROUP]);
    }
    float dot[R][M] = {}, sum[M] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float v[M][PER_WORD];
#pragma unroll
      for (int m = 0; m < M; m++) {
        const T* from = x + (m0 + m < rows ? m0 + m : rows - 1) * n + e + k * PER_WORD;
#if ALIGNED
        Vec<T, PER_WORD> part = *(const Vec<T, PER_WORD>*)from;
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) v[m][j] = get<T>(part.v[j]);
#else
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) v[m][j] = get<T>(from[j]);
#endif
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) sum[m] += v[m][j];
      }
#pragma unroll
      for (int r = 0; r < R; r++) {
        u32 word = k == 0 ? w[r].x : k == 1 ? w[r].y : k == 2 ? w[r].z : w[r].w;
        float q[PER_WORD];
#if BITS == 4
        u32 low = word & 0x0f0f0f0fu, high = (word >> 4) & 0x0f0f0f0fu;
        q[0] = byte_float<0>(low); q[1] = byte_float<0>(high);
        q[2] = byte_float<1>(low); q[3] = byte_float<1>(high);
        q[4] = byte_float<2>(low); q[5] = byte_float<2>(high);
        q[6] = byte_float<3>(low); q[7] = byte_float<3>(high);
#else
        q[0] = byte_float<0>(word); q[1] = byte_float<1>(word);
        q[2] = byte_float<2>(word); q[3] = byte_float<3>(word);
#endif
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int j = 0; j < PER_WORD; j++) dot[r][m] = fmaf(q[j], v[m][j], dot[r][m]);
      }
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int m = 0; m < M; m++) acc[r][m] += s[r] * dot[r][m] + b[r] * sum[m];
  }
#pragma unroll
  for (int r = 0; r < R; r++)
#pragma unroll
    for (int m = 0; m < M; m++) {
      float all = warp_all<OpAdd>(acc[r][m]);
      if (lane == 0 && o + r < outs && m0 + m < rows) y[(m0 + m) * outs + o + r] = put<T>(all);
    }
}
#endif

#ifdef KERNEL_gemv_any
// The same for any width and group: a warp for each result.
extern "C" __global__ void __launch_bounds__(128)
gemv_any(const T* x, const u32* words, const S* scales, const S* biases, T* y, u64 n, u64 outs, u64 rows) {
  u64 o = (u64)blockIdx.x * 4 + threadIdx.y, m = blockIdx.y;
  if (o >= outs) return;
  const u32* w = words + o * WORDS(n);
  float acc = 0.0f;
  for (u64 e = threadIdx.x; e < n; e += 32) {
    u64 g = o * (n / GROUP) + e / GROUP;
    acc += get<T>(x[m * n + e]) * (get<S>(scales[g]) * (float)unpack(w, e) + get<S>(biases[g]));
  }
  acc = warp_all<OpAdd>(acc);
  if (threadIdx.x == 0) y[m * outs + o] = put<T>(acc);
}
#endif
