// What all kernels share: element types and their conversions, elementwise functions, reporting of bad indices.
// No header of the CUDA toolkit is needed, so kernels compile where only NVRTC itself is installed.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
struct alignas(1) b8 { u8 v; };
struct alignas(2) f16 { u16 bits; };
struct alignas(2) bf16 { u16 bits; };
struct alignas(8) c64 { float re, im; };

#define DEV __device__ __forceinline__
#define INF __uint_as_float(0x7f800000u)
#define NAN_F __uint_as_float(0x7fc00000u)

// ---- storage to register and back: halves are computed as float, truth values as bool ----

DEV float f16_to_float(f16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h.bits)); return r; }
DEV f16 float_to_f16(float x) { f16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
DEV float bf16_to_float(bf16 h) { return __uint_as_float((u32)h.bits << 16); }
DEV bf16 float_to_bf16(float x) { bf16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
DEV float round_f16(float x) { return f16_to_float(float_to_f16(x)); }
DEV float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

template <class T> struct Reg { typedef T type; };
template <> struct Reg<b8> { typedef bool type; };
template <> struct Reg<f16> { typedef float type; };
template <> struct Reg<bf16> { typedef float type; };

template <class T> DEV typename Reg<T>::type get(T v) { return v; }
template <> DEV bool get<b8>(b8 v) { return v.v != 0; }
template <> DEV float get<f16>(f16 v) { return f16_to_float(v); }
template <> DEV float get<bf16>(bf16 v) { return bf16_to_float(v); }
template <class T> DEV T put(typename Reg<T>::type v) { return v; }
template <> DEV b8 put<b8>(bool v) { b8 r; r.v = v; return r; }
template <> DEV f16 put<f16>(float v) { return float_to_f16(v); }
template <> DEV bf16 put<bf16>(float v) { return float_to_bf16(v); }

template <class T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };

// Memory that is read once and need not stay in the cache.
DEV Vec<u32, 1> load_once(const Vec<u32, 1>* p) { Vec<u32, 1> r; r.v[0] = __ldcs((const u32*)p); return r; }
DEV Vec<u32, 2> load_once(const Vec<u32, 2>* p) {
  uint2 v = __ldcs((const uint2*)p);
  Vec<u32, 2> r = {{v.x, v.y}};
  return r;
}
DEV Vec<u32, 4> load_once(const Vec<u32, 4>* p) {
  uint4 v = __ldcs((const uint4*)p);
  Vec<u32, 4> r = {{v.x, v.y, v.z, v.w}};
  return r;
}

// The first statement of every kernel. Where the GPU can, a kernel is sent to it while the one before still runs: this lets
// the next one come, and waits for the one before, whose results are there afterwards.
#if __CUDA_ARCH__ >= 900
#define BEGIN                                           \
  asm volatile("griddepcontrol.launch_dependents;");    \
  asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define BEGIN
#endif

// ---- conversions of elements: floats saturate into integers, NaN becomes 0, integers wrap ----

// Rounded to odd, so that rounding again to a half gives what rounding once would.
DEV float to_odd(double a) {
  float near = (float)a;
  double back = (double)near;
  if (back == a || !(fabsf(near) < INF)) return near;
  u32 bits = __float_as_uint(near);
  if (fabs(back) > fabs(a)) bits -= 1;
  return __uint_as_float(bits | 1u);
}
DEV double odd_u64(u64 a) { return (double)(a < (1ull << 53) ? a : ((a & ~0x7ffull) | ((u64)((a & 0x7ff) != 0) << 11))); }
DEV double odd_i64(i64 a) { return a < 0 ? -odd_u64(0ull - (u64)a) : odd_u64((u64)a); }

template <class I> DEV I whole(double x, double low, double high, I least, I most) {
  if (x != x) return 0;
  if (x <= low) return least;
  if (x >= high) return most;
  return (I)x;
}
template <class I> struct Lim;
template <> struct Lim<u8> { static DEV u8 f(double x) { return whole<u8>(x, 0, 255, 0, 255); } };
template <> struct Lim<u16> { static DEV u16 f(double x) { return whole<u16>(x, 0, 65535, 0, 65535); } };
template <> struct Lim<u32> { static DEV u32 f(double x) { return whole<u32>(x, 0, 4294967295.0, 0, 0xffffffffu); } };
template <> struct Lim<u64> { static DEV u64 f(double x) { return whole<u64>(x, 0, 18446744073709551616.0, 0, ~0ull); } };
template <> struct Lim<i8> { static DEV i8 f(double x) { return whole<i8>(x, -128, 127, -128, 127); } };
template <> struct Lim<i16> { static DEV i16 f(double x) { return whole<i16>(x, -32768, 32767, -32768, 32767); } };
template <> struct Lim<i32> { static DEV i32 f(double x) { return whole<i32>(x, -2147483648.0, 2147483647.0, (i32)0x80000000, 0x7fffffff); } };
template <> struct Lim<i64> { static DEV i64 f(double x) { return whole<i64>(x, -9223372036854775808.0, 9223372036854775808.0, (i64)0x8000000000000000ull, 0x7fffffffffffffffll); } };

// To an integer type, a float, or a truth value, from any register type.
template <class D> struct To {
  static DEV D f(bool a) { return (D)a; }
  static DEV D f(float a) { return Lim<D>::f((double)a); }
  static DEV D f(double a) { return Lim<D>::f(a); }
  static DEV D f(c64 a) { return Lim<D>::f((double)a.re); }
  template <class S> static DEV D f(S a) { return (D)a; }
};
template <> struct To<bool> {
  static DEV bool f(c64 a) { return a.re != 0.0f || a.im != 0.0f; }
  template <class S> static DEV bool f(S a) { return a != (S)0; }
};
template <> struct To<float> {
  static DEV float f(c64 a) { return a.re; }
  template <class S> static DEV float f(S a) { return (float)a; }
};
template <> struct To<double> {
  static DEV double f(c64 a) { return (double)a.re; }
  template <class S> static DEV double f(S a) { return (double)a; }
};
template <> struct To<c64> {
  static DEV c64 f(c64 a) { return a; }
  template <class S> static DEV c64 f(S a) { c64 r = {To<float>::f(a), 0.0f}; return r; }
};
// The float that a half is rounded from.
DEV float before_half(float a) { return a; }
DEV float before_half(bool a) { return (float)a; }
DEV float before_half(c64 a) { return a.re; }
DEV float before_half(double a) { return to_odd(a); }
DEV float before_half(u8 a) { return (float)a; }
DEV float before_half(i8 a) { return (float)a; }
DEV float before_half(u16 a) { return (float)a; }
DEV float before_half(i16 a) { return (float)a; }
DEV float before_half(u32 a) { return to_odd((double)a); }
DEV float before_half(i32 a) { return to_odd((double)a); }
DEV float before_half(u64 a) { return to_odd(odd_u64(a)); }
DEV float before_half(i64 a) { return to_odd(odd_i64(a)); }

// ---- bad indices ----

// In device memory: whether somebody has reported, and the host's memory for it.
struct Fault { u64 taken; volatile u64* host; };

// Notes the first bad index of a stream for the host: state, piece of work, index, size, axis.
static __device__ __noinline__ void report(Fault* f, u64 seq, i64 index, u64 size, u64 axis) {
  if (atomicCAS(&f->taken, 0ull, 1ull) != 0ull) return;
  f->host[1] = seq;
  f->host[2] = (u64)index;
  f->host[3] = size;
  f->host[4] = axis;
  __threadfence_system();
  f->host[0] = 1ull;
}
