// Reading and writing at positions. T: elements as bits for reading, with their type for writing; I: indices; COUNT:
// index arrays. Indices count from the end when negative; one out of range is reported, and its window is left out.

struct Indexed {
  const I* at;
  i64 stride[MAX_AXES];
  u64 size;     // of the indexed axis
  u64 window;   // along it
  i64 along;    // stride of that axis in the array
  u64 axis;
};

// A usable index, or -1.
DEV i64 checked(I given, u64 size, u64 window, u64 axis, Fault* fault, u64 seq) {
  i64 i = (i64)given;
  if ((I)-1 < (I)0 && i < 0) i += (i64)size;
  if (i < 0 || (u64)i + window > size) {
    report(fault, seq, (i64)given, size, axis);
    return -1;
  }
  return i;
}

#if defined(KERNEL_gather) || defined(KERNEL_claim) || defined(KERNEL_scatter)
struct Positions {
  u64 rank;
  u64 size[MAX_AXES];
  Indexed of[COUNT > 0 ? COUNT : 1];
  // Where the window of position `p` begins, in elements; false when an index is bad.
  DEV bool start(u64 p, i64& place, Fault* fault, u64 seq) const {
    i64 at[COUNT > 0 ? COUNT : 1] = {};
    for (int d = (int)rank - 1; d >= 0; d--) {
      u64 q = p / size[d], c = p - q * size[d];
#pragma unroll
      for (int k = 0; k < COUNT; k++) at[k] += (i64)c * of[k].stride[d];
      p = q;
    }
    place = 0;
    bool good = true;
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      i64 i = checked(of[k].at[at[k]], of[k].size, of[k].window, of[k].axis, fault, seq);
      good = good && i >= 0;
      place += i * of[k].along;
    }
    return good;
  }
};
#endif

#ifdef KERNEL_gather
extern "C" __global__ void __launch_bounds__(256)
gather(const T* x, const Positions at, Axes window, u64 each, T* y, u64 total, Fault* fault, u64 seq) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  u64 p = t / each, w = t - p * each;
  i64 place;
  T v = T();
  if (at.start(p, place, fault, seq)) v = x[place + window.at(w)];
  y[t] = v;
}
#endif

#ifdef KERNEL_take
// y[t] = x[..., indices[t], ...]
extern "C" __global__ void __launch_bounds__(256)
take(const T* x, const I* indices, Axes places, Axes others, i64 along, u64 size, u64 axis, T* y, u64 total, Fault* fault, u64 seq) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  i64 i = checked(indices[places.at(t)], size, 1, axis, fault, seq);
  T v = T();
  if (i >= 0) v = x[others.at(t) + i * along];
  y[t] = v;
}
#endif

#if (defined(KERNEL_scatter) || defined(KERNEL_put_along)) && !SET
template <bool LONG> struct Word { typedef u32 type; };
template <> struct Word<true> { typedef u64 type; };

// Lets a value meet what is there, in one step that no other thread sees half of.
DEV void meet(T* to, T v) {
#if NATIVE_ADD
  atomicAdd(to, v);
#else
  typename Reg<T>::type r = get<T>(v);
  if (sizeof(T) >= 4) {
    typedef typename Word<sizeof(T) >= 8>::type W;
    W* p = (W*)to;
    W old = *p, seen;
    do {
      seen = old;
      T here;
      *(W*)&here = seen;
      T next = put<T>(OP::f(get<T>(here), r));
      old = atomicCAS(p, seen, *(W*)&next);
    } while (old != seen);
  } else {
    // The word that holds it.
    u64 address = (u64)to;
    u32* p = (u32*)(address & ~3ull);
    int shift = (int)(address & 3) * 8;
    const u32 mask = sizeof(T) == 1 ? 0xffu : 0xffffu;
    u32 old = *p, seen;
    do {
      seen = old;
      u16 part = (u16)((seen >> shift) & mask);
      T here;
      if (sizeof(T) == 1) *(u8*)&here = (u8)part; else *(u16*)&here = part;
      T next = put<T>(OP::f(get<T>(here), r));
      u32 bits = sizeof(T) == 1 ? (u32) * (u8*)&next : (u32) * (u16*)&next;
      old = atomicCAS(p, seen, (seen & ~(mask << shift)) | (bits << shift));
    } while (old != seen);
  }
#endif
}
#endif

// With SET the last of several values for one place stays: `claim` notes the last one, `scatter` writes it.
#if defined(KERNEL_claim) || defined(KERNEL_scatter)
extern "C" __global__ void __launch_bounds__(256)
#ifdef KERNEL_claim
claim
#else
scatter
#endif
(const T* updates, Axes from, const Positions at, Axes window, u64 each, T* y, u32* last, u64 total, Fault* fault, u64 seq) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  u64 p = t / each, w = t - p * each;
  i64 place;
  if (!at.start(p, place, fault, seq)) return;
  place += window.at(w);
#ifdef KERNEL_claim
  atomicMax(last + place, (u32)t + 1u);
#elif SET
  if (last == nullptr || last[place] == (u32)t + 1u) y[place] = updates[from.at(t)];
#else
  meet(y + place, updates[from.at(t)]);
#endif
}
#endif

#if defined(KERNEL_put_along) || defined(KERNEL_claim_along)
extern "C" __global__ void __launch_bounds__(256)
#ifdef KERNEL_claim_along
claim_along
#else
put_along
#endif
(const T* values, Axes from, const I* indices, Axes places, Axes others, i64 along, u64 size, u64 axis, T* y, u32* last,
 u64 total, Fault* fault, u64 seq) {
  BEGIN;
  u64 t = (u64)blockIdx.x * 256 + threadIdx.x;
  if (t >= total) return;
  i64 i = checked(indices[places.at(t)], size, 1, axis, fault, seq);
  if (i < 0) return;
  i64 place = others.at(t) + i * along;
#ifdef KERNEL_claim_along
  atomicMax(last + place, (u32)t + 1u);
#elif SET
  if (last[place] == (u32)t + 1u) y[place] = values[from.at(t)];
#else
  meet(y + place, values[from.at(t)]);
#endif
}
#endif
