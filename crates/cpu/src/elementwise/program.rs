//! An expression as a list of loops over tiles, bound to memory.

use super::loops::{Step, held, is_half};
use super::strided::{Strided, gather_bytes};
use super::{convert, table};
use crate::pool;
use crate::raw::Ptr;
use olivine_core::expr::{Expr, Inst, ScalarOp};
use olivine_core::{Device, Dtype, Error, Result};
use smallvec::SmallVec;
use std::cell::Cell;

/// Elements of a tile: a handful of tiles of `f32` fit the first-level cache.
pub(super) const TILE: usize = 1024;
/// Bytes set aside for a tile of the widest type.
const TILE_BYTES: usize = TILE * 8;

/// Number of a place that loops read and write: its address changes from tile to tile.
type Place = u16;

/// How a place gets its address or content for a tile.
#[derive(Debug)]
enum Feed {
    /// Element `i` of the array lies `i * size` bytes behind the address.
    Dense { place: Place, base: Ptr, size: usize },
    /// Elements are collected into the place.
    Gather { place: Place, base: Ptr, size: usize, layout: Strided },
}

/// One loop.
#[derive(Clone, Copy)]
struct Call {
    step: Step,
    out: Place,
    args: [Place; 3],
}

/// An expression ready to run.
pub(super) struct Program {
    /// Done once by each task: constants, and arguments with one element.
    constants: SmallVec<[Constant; 2]>,
    feeds: SmallVec<[Feed; 4]>,
    calls: SmallVec<[Call; 4]>,
    /// Number of places.
    places: usize,
    /// Places that are tiles of scratch memory; the others are arrays.
    tiles: SmallVec<[Place; 8]>,
    /// Results go past the caches.
    streams: bool,
    /// Rough cost of an element, in simple operations.
    cost: usize,
}

/// A tile that holds one value everywhere.
struct Constant {
    place: Place,
    value: Value,
    /// Size of an element as it is stored.
    size: usize,
    /// Loop that makes the tile's type of it.
    widen: Option<Step>,
}

enum Value {
    Bits(u64),
    At(Ptr),
}

/// Builds a program: hands out places and tiles.
struct Builder {
    program: Program,
    /// Tiles that hold nothing needed any more.
    free: SmallVec<[Place; 8]>,
}

impl Builder {
    fn place(&mut self) -> Place {
        self.program.places += 1;
        (self.program.places - 1) as Place
    }

    fn tile(&mut self) -> Place {
        if let Some(t) = self.free.pop() {
            return t;
        }
        let t = self.place();
        self.program.tiles.push(t);
        t
    }

    fn call(&mut self, step: Step, out: Place, args: [Place; 3]) {
        self.program.calls.push(Call { step, out, args });
    }
}

/// Where a value of the expression is while the program is built.
#[derive(Clone, Copy)]
struct Home {
    place: Place,
    /// It is a tile that may be used again once the value is not needed.
    owned: bool,
}

impl Program {
    /// The program of `expr` on `n` elements of arguments at `sources`, writing to `results`. A result lies where the
    /// argument does that `donors` has for it.
    ///
    /// # Errors
    /// `Unsupported` for an instruction on types that its rule refuses.
    pub(super) fn new(
        op: &'static str,
        expr: &Expr,
        sources: SmallVec<[(Ptr, Strided); 4]>,
        results: SmallVec<[Ptr; 1]>,
        donors: &[Option<usize>],
        n: usize,
    ) -> Result<Program> {
        // A line that an argument was just read from is in the cache already.
        let streams = donors.iter().all(Option::is_none)
            && expr.outputs.iter().all(|&o| n * expr.dtype(o).size() >= convert::STREAM);
        let program = Program {
            constants: SmallVec::new(),
            feeds: SmallVec::new(),
            calls: SmallVec::new(),
            places: 0,
            tiles: SmallVec::new(),
            streams,
            cost: 1,
        };
        let mut b = Builder { program, free: SmallVec::new() };
        let values = expr.inputs.len() + expr.insts.len();
        // The last instruction that uses each value; outputs are needed to the end.
        let mut last: SmallVec<[usize; 16]> = SmallVec::from_elem(0, values);
        for (i, inst) in expr.insts.iter().enumerate() {
            for &a in inst.args() {
                last[a as usize] = i;
            }
        }
        for &o in &expr.outputs {
            last[o as usize] = usize::MAX;
        }
        let mut homes: SmallVec<[Home; 16]> = SmallVec::new();
        // Constants first: their tiles are never handed on.
        for (&d, (base, layout)) in expr.inputs.iter().zip(sources) {
            let home = b.input(d, base, layout);
            homes.push(home);
        }
        let mut imms: SmallVec<[Option<Place>; 16]> = SmallVec::new();
        for inst in &expr.insts {
            let place = match inst.op {
                ScalarOp::Imm(bits) => {
                    let place = b.tile();
                    let widen = is_half(inst.dtype).then(|| convert::widen(inst.dtype));
                    let size = inst.dtype.size();
                    b.program.constants.push(Constant { place, value: Value::Bits(bits), size, widen });
                    Some(place)
                }
                ScalarOp::Un(_) | ScalarOp::Bin(_) | ScalarOp::Select | ScalarOp::Cast => None,
            };
            imms.push(place);
        }
        let mut written: SmallVec<[bool; 1]> = SmallVec::from_elem(false, results.len());
        let outs: SmallVec<[Place; 1]> = expr
            .outputs
            .iter()
            .zip(&results)
            .map(|(&o, &base)| {
                let place = b.place();
                b.program.feeds.push(Feed::Dense { place, base, size: expr.dtype(o).size() });
                place
            })
            .collect();
        for (i, inst) in expr.insts.iter().enumerate() {
            if let Some(place) = imms[i] {
                homes.push(Home { place, owned: false });
                continue;
            }
            let value = (expr.inputs.len() + i) as u16;
            // Straight into the result, unless that would overwrite an argument that is still read, or the
            // result is stored in another form than it is computed in.
            let direct = (0..outs.len()).find(|&k| {
                let read_later = donors[k].is_some_and(|d| last[d] >= i);
                expr.outputs[k] == value && !is_half(inst.dtype) && !read_later && !streams
            });
            let home = match direct {
                Some(k) => {
                    written[k] = true;
                    Home { place: outs[k], owned: false }
                }
                None => Home { place: b.tile(), owned: true },
            };
            let needed = expr.insts[i + 1..].iter().any(|later| later.args().contains(&value));
            b.instruction(op, expr, inst, &homes, home.place, needed)?;
            homes.push(home);
            for &a in inst.args() {
                let h = &mut homes[a as usize];
                if last[a as usize] == i && h.owned {
                    h.owned = false;
                    b.free.push(h.place);
                }
            }
        }
        for (k, &o) in expr.outputs.iter().enumerate() {
            if written[k] {
                continue;
            }
            let d = expr.dtype(o);
            let mut from = homes[o as usize].place;
            if is_half(d) {
                let to = if streams { b.tile() } else { outs[k] };
                b.call(convert::narrow(d), to, [from; 3]);
                from = to;
            }
            if streams {
                b.call(convert::stream(d.size()), outs[k], [from; 3]);
            } else if !is_half(d) {
                b.call(convert::copy(d.size()), outs[k], [from; 3]);
            }
        }
        Ok(b.program)
    }

    /// Computes elements `0..n`.
    ///
    /// # Safety
    /// Arguments and results that the program was built for hold `n` elements each, complete and not
    /// changed by others meanwhile; results overlap no argument but the donors that the program was told of.
    pub(super) unsafe fn run(&self, n: usize) {
        let tiles = n.div_ceil(TILE);
        if tiles <= 1 {
            // SAFETY: the caller's promise.
            unsafe { self.tiles(0..n) };
            return;
        }
        let grain = (64 / self.cost).clamp(2, 32);
        pool::parallel_ranges(tiles, grain, &|range| {
            // SAFETY: the caller's promise; ranges are disjoint.
            unsafe { self.tiles(range.start * TILE..(range.end * TILE).min(n)) };
        });
    }

    /// # Safety
    /// As for [`Program::run`], for these elements.
    unsafe fn tiles(&self, range: std::ops::Range<usize>) {
        let mut scratch = Scratch::take(self.tiles.len());
        let mut at: SmallVec<[*mut u8; 24]> = SmallVec::from_elem(std::ptr::null_mut(), self.places);
        for (i, &t) in self.tiles.iter().enumerate() {
            at[t as usize] = scratch.tile(i);
        }
        let filled = range.len().min(TILE);
        for c in &self.constants {
            // SAFETY: the place is a tile, which holds `TILE` elements of any type.
            unsafe { c.fill(at[c.place as usize], filled) };
        }
        let mut start = range.start;
        while start < range.end {
            let n = (range.end - start).min(TILE);
            for feed in &self.feeds {
                match feed {
                    Feed::Dense { place, base, size } => {
                        at[*place as usize] = base.at((start * size) as isize).get();
                    }
                    Feed::Gather { place, base, size, layout } => {
                        // SAFETY: the elements lie inside the argument, and the place is a tile.
                        unsafe {
                            gather_bytes(base.get(), *size, layout, start..start + n, at[*place as usize])
                        };
                    }
                }
            }
            for c in &self.calls {
                let args = c.args.map(|a| at[a as usize].cast_const());
                // SAFETY: every place holds `n` elements of the type that the step was picked for: tiles
                // hold `TILE` elements of any type, arrays the elements from `start` on.
                unsafe { (c.step)(at[c.out as usize], args, n) };
            }
            start += n;
        }
        if self.streams {
            convert::stream_end();
        }
    }
}

impl Builder {
    /// Makes the elements of an argument available in the type of tiles.
    fn input(&mut self, d: Dtype, base: Ptr, layout: Strided) -> Home {
        let size = d.size();
        let widen = is_half(d).then(|| convert::widen(d));
        let base = base.at(layout.offset() * size as isize);
        if layout.is_splat() {
            let place = self.tile();
            self.program.constants.push(Constant { place, value: Value::At(base), size, widen });
            return Home { place, owned: false };
        }
        let dense = layout.is_dense();
        let place = if dense { self.place() } else { self.tile() };
        self.program.feeds.push(if dense {
            Feed::Dense { place, base, size }
        } else {
            // Gathering adds the offset by itself.
            let base = base.at(-(layout.offset() * size as isize));
            Feed::Gather { place, base, size, layout }
        });
        match widen {
            None => Home { place, owned: false },
            Some(step) => {
                let wide = self.tile();
                self.call(step, wide, [place; 3]);
                Home { place: wide, owned: true }
            }
        }
    }

    /// Adds the loops of one instruction; `needed` when later ones read its result.
    fn instruction(
        &mut self,
        op: &'static str,
        expr: &Expr,
        inst: &Inst,
        homes: &[Home],
        out: Place,
        needed: bool,
    ) -> Result<()> {
        let place = |k: usize| homes[inst.args[k] as usize].place;
        let from = expr.dtype(inst.args[0]);
        let d = held(from);
        let missing = || {
            let msg = format!("no loop computes {:?} on {from}", inst.op);
            Error::Unsupported { op, device: Device::CPU, msg }
        };
        match inst.op {
            ScalarOp::Un(u) => {
                let step = table::unary(u, d).ok_or_else(missing)?;
                self.program.cost += table::cost_unary(u);
                self.call(step, out, [place(0); 3]);
            }
            ScalarOp::Bin(f) => {
                let (step, swap) = table::binary(f, d).ok_or_else(missing)?;
                self.program.cost += table::cost_binary(f);
                let (a, b) = if swap { (place(1), place(0)) } else { (place(0), place(1)) };
                self.call(step, out, [a, b, b]);
            }
            ScalarOp::Select => {
                let step = convert::select(held(inst.dtype).size());
                self.call(step, out, [place(0), place(1), place(2)]);
            }
            ScalarOp::Cast => {
                let chain = convert::cast(from, inst.dtype);
                let mut arg = place(0);
                for (i, &step) in chain.iter().enumerate() {
                    let to = if i + 1 == chain.len() { out } else { self.tile() };
                    self.call(step, to, [arg; 3]);
                    if i > 0 {
                        self.free.push(arg);
                    }
                    arg = to;
                }
                if chain.is_empty() {
                    return Err(missing());
                }
            }
            ScalarOp::Imm(_) => {}
        }
        // Nothing reads an unrounded value: a half that is only stored is rounded by storing it.
        if is_half(inst.dtype) && needed {
            self.call(convert::round(inst.dtype), out, [out; 3]);
        }
        self.program.cost += 1;
        Ok(())
    }
}

impl Constant {
    /// Fills the first `n` elements of a tile.
    ///
    /// # Safety
    /// `tile` holds `n` elements of any type; an argument's element can be read.
    unsafe fn fill(&self, tile: *mut u8, n: usize) {
        let bits = match self.value {
            Value::Bits(bits) => bits,
            Value::At(p) => {
                let mut bytes = [0u8; 8];
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy_nonoverlapping(p.get(), bytes.as_mut_ptr(), self.size) };
                u64::from_le_bytes(bytes)
            }
        };
        let fill = |tile: *mut u8, size: usize, bits: u64| {
            // SAFETY: the caller's promise.
            unsafe {
                match size {
                    1 => std::slice::from_raw_parts_mut(tile, n).fill(bits as u8),
                    2 => std::slice::from_raw_parts_mut(tile.cast::<u16>(), n).fill(bits as u16),
                    4 => std::slice::from_raw_parts_mut(tile.cast::<u32>(), n).fill(bits as u32),
                    _ => std::slice::from_raw_parts_mut(tile.cast::<u64>(), n).fill(bits),
                }
            }
        };
        match self.widen {
            None => fill(tile, self.size, bits),
            Some(step) => {
                let (one, mut wide) = ([bits as u16; 1], [0f32; 1]);
                // SAFETY: one element of each.
                unsafe { step(wide.as_mut_ptr().cast(), [one.as_ptr().cast(); 3], 1) };
                fill(tile, 4, wide[0].to_bits() as u64);
            }
        }
    }
}

/// A cache line of scratch memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "only its size and alignment matter")] [u8; 64]);

/// Tiles of the running thread, kept for the next launch.
struct Scratch(Vec<Line>);

thread_local! {
    static SPARE: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    fn take(tiles: usize) -> Scratch {
        let mut lines = SPARE.take();
        let need = tiles * TILE_BYTES / 64;
        if lines.len() < need {
            lines.resize(need, Line([0; 64]));
        }
        Scratch(lines)
    }

    fn tile(&mut self, i: usize) -> *mut u8 {
        self.0[i * TILE_BYTES / 64..].as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.0));
    }
}
