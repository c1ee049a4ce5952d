//! Borrowed strided matrices whose bounds are checked once, when they are made.

use std::fmt;
use std::marker::PhantomData;

/// A complex number of two f32, laid out as `[re, im]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct C64 {
    /// Real part.
    pub re: f32,
    /// Imaginary part.
    pub im: f32,
}

/// What is wrong with the operands of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GemmError {
    /// The inner or outer sizes of `a @ b = c` do not match.
    Shape {
        /// Rows and columns of `a`.
        a: (usize, usize),
        /// Rows and columns of `b`.
        b: (usize, usize),
        /// Rows and columns of `c`.
        c: (usize, usize),
    },
    /// A matrix has an element outside its slice.
    Bounds {
        /// Which operand.
        operand: &'static str,
        /// Length of the slice, in elements.
        len: usize,
        /// Index of the first element.
        offset: usize,
        /// Rows and columns.
        shape: (usize, usize),
        /// Elements from row to row and from column to column.
        strides: (isize, isize),
    },
    /// Rows of the output would overlap.
    Overlap {
        /// Elements from row to row.
        row_stride: usize,
        /// Columns.
        cols: usize,
    },
}

impl fmt::Display for GemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GemmError::Shape { a, b, c } => write!(
                f,
                "[matmul] cannot multiply {} x {} by {} x {} into {} x {}",
                a.0, a.1, b.0, b.1, c.0, c.1
            ),
            GemmError::Bounds { operand, len, offset, shape, strides } => write!(
                f,
                "[matmul] {operand} of {} x {} elements with offset {offset} and strides {} and {} leaves its \
                 slice of {len} elements",
                shape.0, shape.1, strides.0, strides.1
            ),
            GemmError::Overlap { row_stride, cols } => {
                write!(f, "[matmul] output rows of {cols} elements overlap at row stride {row_stride}")
            }
        }
    }
}

impl std::error::Error for GemmError {}

/// Checks that every element of a matrix lies in a slice of `len` elements.
fn check(
    operand: &'static str,
    len: usize,
    offset: usize,
    shape: (usize, usize),
    strides: (isize, isize),
) -> Result<(), GemmError> {
    if shape.0 == 0 || shape.1 == 0 {
        return Ok(());
    }
    // Two products of 64-bit numbers and an offset fit in 128 bits only with a sign to spare when the
    // sizes are below 2^62; larger ones cannot be in bounds unless their stride is zero.
    let span = |size: usize, stride: isize| (size as i128 - 1).checked_mul(stride as i128);
    let ends = span(shape.0, strides.0).zip(span(shape.1, strides.1)).and_then(|(r, c)| {
        let low = (offset as i128).checked_add(r.min(0))?.checked_add(c.min(0))?;
        let high = (offset as i128).checked_add(r.max(0))?.checked_add(c.max(0))?;
        Some((low, high))
    });
    match ends {
        Some((low, high)) if low >= 0 && high < len as i128 => Ok(()),
        _ => Err(GemmError::Bounds { operand, len, offset, shape, strides }),
    }
}

/// A matrix to read: element `(i, j)` is `data[offset + i * row_stride + j * col_stride]`.
///
/// Strides may be negative (reversed), zero (broadcast) or overlap.
#[derive(Clone, Copy)]
pub struct MatRef<'a, T> {
    first: *const T,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    data: PhantomData<&'a [T]>,
}

// SAFETY: a `MatRef` is a shared borrow of elements of a `[T]`.
unsafe impl<T: Sync> Send for MatRef<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for MatRef<'_, T> {}

impl<'a, T> MatRef<'a, T> {
    /// A matrix of `rows` x `cols` elements of `data`; strides count elements.
    ///
    /// # Errors
    /// [`GemmError::Bounds`] if an element lies outside `data`.
    pub fn new(
        data: &'a [T],
        offset: usize,
        rows: usize,
        cols: usize,
        row_stride: isize,
        col_stride: isize,
    ) -> Result<Self, GemmError> {
        check("operand", data.len(), offset, (rows, cols), (row_stride, col_stride))?;
        // The first element of an empty matrix need not exist, and nobody looks at it.
        let first = data.as_ptr().wrapping_add(offset);
        Ok(MatRef { first, rows, cols, row_stride, col_stride, data: PhantomData })
    }

    /// The row-major matrix that fills `data`.
    ///
    /// # Errors
    /// [`GemmError::Bounds`] if `data` has fewer than `rows * cols` elements.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Result<Self, GemmError> {
        Self::new(data, 0, rows, cols, isize::try_from(cols).unwrap_or(isize::MAX), 1)
    }

    /// The same elements with rows and columns exchanged.
    pub fn t(self) -> Self {
        MatRef {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn raw(&self) -> Raw<T> {
        Raw { ptr: self.first, rs: self.row_stride, cs: self.col_stride }
    }
}

/// A matrix to write: element `(i, j)` is `data[offset + i * row_stride + j]`. Rows do not overlap.
pub struct MatMut<'a, T> {
    first: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    data: PhantomData<&'a mut [T]>,
}

// SAFETY: a `MatMut` is an exclusive borrow of elements of a `[T]`.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// A matrix of `rows` x `cols` elements of `data`, rows `row_stride` elements apart.
    ///
    /// # Errors
    /// [`GemmError::Bounds`] if an element lies outside `data`, [`GemmError::Overlap`] if rows overlap.
    pub fn new(
        data: &'a mut [T],
        offset: usize,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Result<Self, GemmError> {
        check_output(data.len(), offset, rows, cols, row_stride)?;
        let first = data.as_mut_ptr().wrapping_add(offset);
        Ok(MatMut { first, rows, cols, row_stride, data: PhantomData })
    }

    /// The row-major matrix that fills `data`.
    ///
    /// # Errors
    /// [`GemmError::Bounds`] if `data` has fewer than `rows * cols` elements.
    pub fn row_major(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self, GemmError> {
        Self::new(data, 0, rows, cols, cols)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn raw(&mut self) -> RawMut<T> {
        RawMut { ptr: self.first, rs: self.row_stride as isize, cs: 1 }
    }
}

pub(super) fn check_output(
    len: usize,
    offset: usize,
    rows: usize,
    cols: usize,
    row_stride: usize,
) -> Result<(), GemmError> {
    let stride = isize::try_from(row_stride).unwrap_or(isize::MAX);
    check("output", len, offset, (rows, cols), (stride, 1))?;
    if rows > 1 && row_stride < cols {
        return Err(GemmError::Overlap { row_stride, cols });
    }
    Ok(())
}

/// Checks one operand of a batch.
pub(super) fn check_input(
    operand: &'static str,
    len: usize,
    offset: usize,
    shape: (usize, usize),
    strides: (isize, isize),
) -> Result<(), GemmError> {
    check(operand, len, offset, shape, strides)
}

/// A matrix inside the kernels: where element `(0, 0)` is, and the strides. Bounds are the maker's duty.
#[derive(Clone, Copy)]
pub(super) struct Raw<T> {
    pub ptr: *const T,
    pub rs: isize,
    pub cs: isize,
}

// SAFETY: kernels share a `Raw` only while the borrow it came from is held by their caller.
unsafe impl<T: Sync> Send for Raw<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Raw<T> {}

impl<T> Raw<T> {
    /// Address of element `(i, j)`. Wrapping, so that an address may be formed that nobody reads.
    pub fn at(&self, i: usize, j: usize) -> *const T {
        let index = (i as isize).wrapping_mul(self.rs).wrapping_add((j as isize).wrapping_mul(self.cs));
        self.ptr.wrapping_offset(index)
    }

    /// The matrix that begins `offset` elements later.
    pub fn from(self, offset: usize) -> Self {
        Raw { ptr: self.ptr.wrapping_add(offset), ..self }
    }

    pub fn t(self) -> Self {
        Raw { ptr: self.ptr, rs: self.cs, cs: self.rs }
    }
}

/// The same for an output; tasks write disjoint parts of it.
#[derive(Clone, Copy)]
pub(super) struct RawMut<T> {
    pub ptr: *mut T,
    pub rs: isize,
    pub cs: isize,
}

// SAFETY: tasks that share a `RawMut` write disjoint elements while their caller holds the borrow.
unsafe impl<T: Send> Send for RawMut<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for RawMut<T> {}

impl<T> RawMut<T> {
    pub fn at(&self, i: usize, j: usize) -> *mut T {
        let index = (i as isize).wrapping_mul(self.rs).wrapping_add((j as isize).wrapping_mul(self.cs));
        self.ptr.wrapping_offset(index)
    }

    pub fn from(self, offset: usize) -> Self {
        RawMut { ptr: self.ptr.wrapping_add(offset), ..self }
    }

    pub fn t(self) -> Self {
        RawMut { ptr: self.ptr, rs: self.cs, cs: self.rs }
    }
}
