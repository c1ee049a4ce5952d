//! One row for every kind of operation: how to make arguments, and what must come of them.
//!
//! A row draws an operation with its parameters and arguments; `reference` computes the same from elements on
//! the host, in `f64`, exact integers or complex `f64`. [`crate::check`] compares. Two matches have one arm
//! for every kind and no catch-all, so a new kind does not compile before it has a name here and a reference;
//! a test demands its row.
//!
//! To add a row, write in the file of the family: an arm of `reference`, and a [`Row`] in `rows`.

mod arrange;
mod binary;
mod cast;
mod conv;
mod create;
mod fft;
mod fused;
mod index;
mod linalg;
mod matmul;
mod network;
mod quant;
mod random;
mod reduce;
mod scan;
mod sort;
mod unary;

use crate::draw::{Draw, Input};
use crate::host::Host;
use olivine_core::op::{
    Arg, ArgKind, Binary, Create, Fft, FftKind, Index, Linalg, Matmul, Norm, Quant, Random, Reduce,
    ReduceKind, Scan, ScanKind, ScatterMode, Softmax, Sort, Unary, Update, View,
};
use olivine_core::{Dtype, Op};
use std::sync::OnceLock;

/// An operation and its arguments.
pub struct Case {
    /// The operation.
    pub op: Op,
    /// Its arguments.
    pub inputs: Vec<Input>,
}

impl Case {
    /// From parts.
    pub fn new(op: Op, inputs: Vec<Input>) -> Case {
        Case { op, inputs }
    }
}

type Drawer = Box<dyn Fn(&mut Draw, Dtype) -> Case + Send + Sync>;
type Judge = fn(&Case, &[Host]) -> Result<(), String>;

/// One kind of operation.
pub struct Row {
    /// Name of the kind, as [`key`] gives it.
    pub key: &'static str,
    /// Types of the arguments that it is tested with.
    pub dtypes: Vec<Dtype>,
    /// Makes a case.
    pub draw: Drawer,
    /// Most units in the last place that a result on the CPU may be off, where it is not exact.
    pub units: fn(Dtype) -> f64,
    /// Decides about results that are not unique, instead of a comparison with the reference.
    pub judge: Option<Judge>,
}

impl Row {
    /// A row whose results are compared with the reference and have to be exact.
    pub fn new(
        key: &'static str,
        dtypes: impl IntoIterator<Item = Dtype>,
        draw: impl Fn(&mut Draw, Dtype) -> Case + Send + Sync + 'static,
    ) -> Row {
        Row { key, dtypes: dtypes.into_iter().collect(), draw: Box::new(draw), units: |_| 0.0, judge: None }
    }

    /// With a tolerance in units in the last place.
    pub fn units(mut self, units: fn(Dtype) -> f64) -> Row {
        self.units = units;
        self
    }

    /// With a judge of its own.
    pub fn judge(mut self, judge: Judge) -> Row {
        self.judge = Some(judge);
        self
    }
}

macro_rules! kinds {
    ($op:ident; $($pattern:pat => $key:literal,)*) => {
        /// Name of an operation's kind.
        #[deny(clippy::wildcard_enum_match_arm)]
        pub fn key($op: &Op) -> &'static str {
            match $op {
                Op::Unary(u) => u.name(),
                Op::Binary(b) => b.name(),
                $( $pattern => $key, )*
            }
        }
        const KEYS: &[&str] = &[$($key),*];
    };
}

kinds! { op;
    Op::Leaf => "array",
    Op::Placeholder(_) => "placeholder",
    Op::Create(Create::Full { .. }) => "full",
    Op::Create(Create::Arange { .. }) => "arange",
    Op::Create(Create::Load(_)) => "load",
    Op::Select => "where",
    Op::Cast(_) => "astype",
    Op::Fused(_) => "fused",
    Op::Reduce(Reduce { kind: ReduceKind::Sum, .. }) => "sum",
    Op::Reduce(Reduce { kind: ReduceKind::Prod, .. }) => "prod",
    Op::Reduce(Reduce { kind: ReduceKind::Max, .. }) => "max",
    Op::Reduce(Reduce { kind: ReduceKind::Min, .. }) => "min",
    Op::Reduce(Reduce { kind: ReduceKind::All, .. }) => "all",
    Op::Reduce(Reduce { kind: ReduceKind::Any, .. }) => "any",
    Op::Arg(Arg { kind: ArgKind::Min, .. }) => "argmin",
    Op::Arg(Arg { kind: ArgKind::Max, .. }) => "argmax",
    Op::Scan(Scan { kind: ScanKind::Sum, .. }) => "cumsum",
    Op::Scan(Scan { kind: ScanKind::Prod, .. }) => "cumprod",
    Op::Scan(Scan { kind: ScanKind::Max, .. }) => "cummax",
    Op::Scan(Scan { kind: ScanKind::Min, .. }) => "cummin",
    Op::Scan(Scan { kind: ScanKind::LogSumExp, .. }) => "logcumsumexp",
    Op::Sort(Sort { indices: false, kth: None, .. }) => "sort",
    Op::Sort(Sort { indices: true, kth: None, .. }) => "argsort",
    Op::Sort(Sort { indices: false, kth: Some(_), .. }) => "partition",
    Op::Sort(Sort { indices: true, kth: Some(_), .. }) => "argpartition",
    Op::View(View::Broadcast(_)) => "broadcast_to",
    Op::View(View::Reshape(_)) => "reshape",
    Op::View(View::Transpose(_)) => "transpose",
    Op::View(View::Slice { .. }) => "slice",
    Op::View(View::Bitcast(_)) => "view",
    Op::View(View::Split { .. }) => "split",
    Op::View(View::Strided { .. }) => "as_strided",
    Op::View(View::Contiguous) => "contiguous",
    Op::View(View::Identity) => "identity",
    Op::View(View::StopGradient) => "stop_gradient",
    Op::View(View::Depends(_)) => "depends",
    Op::Update(Update::Concat { .. }) => "concatenate",
    Op::Update(Update::Slice { .. }) => "slice_update",
    Op::Index(Index::Gather { .. }) => "gather",
    Op::Index(Index::Scatter { mode: ScatterMode::Set, .. }) => "scatter",
    Op::Index(Index::Scatter { mode: ScatterMode::Add, .. }) => "scatter_add",
    Op::Index(Index::Scatter { mode: ScatterMode::Prod, .. }) => "scatter_prod",
    Op::Index(Index::Scatter { mode: ScatterMode::Max, .. }) => "scatter_max",
    Op::Index(Index::Scatter { mode: ScatterMode::Min, .. }) => "scatter_min",
    Op::Index(Index::SearchSorted { .. }) => "searchsorted",
    Op::Index(Index::TakeAlong { .. }) => "take_along_axis",
    Op::Index(Index::PutAlong { mode: ScatterMode::Set, .. }) => "put_along_axis",
    Op::Index(Index::PutAlong { mode: ScatterMode::Add, .. }) => "put_along_axis_add",
    Op::Index(Index::PutAlong { mode: ScatterMode::Prod, .. }) => "put_along_axis_prod",
    Op::Index(Index::PutAlong { mode: ScatterMode::Max, .. }) => "put_along_axis_max",
    Op::Index(Index::PutAlong { mode: ScatterMode::Min, .. }) => "put_along_axis_min",
    Op::Matmul(Matmul::Product) => "matmul",
    Op::Matmul(Matmul::Add { .. }) => "addmm",
    Op::Matmul(Matmul::Gather) => "gather_mm",
    Op::Matmul(Matmul::Segmented) => "segmented_mm",
    Op::Conv(_) => "conv",
    Op::Fft(Fft { kind: FftKind::Complex, inverse: false, .. }) => "fft",
    Op::Fft(Fft { kind: FftKind::Complex, inverse: true, .. }) => "ifft",
    Op::Fft(Fft { kind: FftKind::RealToHalf, .. }) => "rfft",
    Op::Fft(Fft { kind: FftKind::HalfToReal, .. }) => "irfft",
    Op::Hadamard(_) => "hadamard_transform",
    Op::Linalg(Linalg::Inverse) => "inv",
    Op::Linalg(Linalg::TriangularInverse { .. }) => "tri_inv",
    Op::Linalg(Linalg::Solve) => "solve",
    Op::Linalg(Linalg::SolveTriangular { .. }) => "solve_triangular",
    Op::Linalg(Linalg::Cholesky { .. }) => "cholesky",
    Op::Linalg(Linalg::Lu) => "lu",
    Op::Linalg(Linalg::Det) => "det",
    Op::Linalg(Linalg::SlogDet) => "slogdet",
    Op::Linalg(Linalg::Qr) => "qr",
    Op::Linalg(Linalg::Svd { .. }) => "svd",
    Op::Linalg(Linalg::Eigh { .. }) => "eigh",
    Op::Linalg(Linalg::Eig { .. }) => "eig",
    Op::Random(Random::Bits { .. }) => "bits",
    Op::Quant(Quant::Quantize(_)) => "quantize",
    Op::Quant(Quant::Dequantize { .. }) => "dequantize",
    Op::Quant(Quant::Matmul { .. }) => "quantized_matmul",
    Op::Quant(Quant::GatherMatmul { .. }) => "gather_qmm",
    Op::Norm(Norm::Rms { .. }) => "rms_norm",
    Op::Norm(Norm::Layer { .. }) => "layer_norm",
    Op::Softmax(Softmax::Softmax) => "softmax",
    Op::Softmax(Softmax::LogSumExp) => "logsumexp",
    Op::Rope(_) => "rope",
    Op::Attention(_) => "scaled_dot_product_attention",
    Op::Custom(_) => "custom",
}

/// Kinds that have no row, and why.
pub const WITHOUT_ROW: &[(&str, &str)] = &[
    ("array", "data that was given; every case reads some"),
    ("placeholder", "it has no value"),
    ("custom", "whoever defines one tests it"),
];

/// Names of all kinds.
pub fn keys() -> Vec<&'static str> {
    let unary = Unary::ALL.iter().map(|u| u.name());
    unary.chain(Binary::ALL.iter().map(|b| b.name())).chain(KEYS.iter().copied()).collect()
}

/// What an operation must give, by definition.
#[deny(clippy::wildcard_enum_match_arm)]
pub fn reference(op: &Op, inputs: &[Host]) -> Vec<Host> {
    match op {
        Op::Leaf | Op::Placeholder(_) | Op::Custom(_) => Vec::new(),
        Op::Create(o) => create::reference(o),
        Op::Unary(o) => vec![unary::reference(*o, &inputs[0])],
        Op::Binary(o) => vec![binary::reference(*o, &inputs[0], &inputs[1])],
        Op::Select => vec![arrange::select(inputs)],
        Op::Cast(d) => vec![cast::reference(*d, &inputs[0])],
        Op::Fused(e) => fused::reference(e, inputs),
        Op::Reduce(o) => vec![reduce::reference(o, &inputs[0])],
        Op::Arg(o) => vec![reduce::arg(o, &inputs[0])],
        Op::Scan(o) => vec![scan::reference(o, &inputs[0])],
        Op::Sort(o) => vec![sort::reference(o, &inputs[0])],
        Op::View(o) => arrange::view(o, inputs),
        Op::Update(o) => vec![arrange::update(o, inputs)],
        Op::Index(o) => vec![index::reference(o, inputs)],
        Op::Matmul(o) => vec![matmul::reference(o, inputs)],
        Op::Conv(o) => vec![conv::reference(o, inputs)],
        Op::Fft(o) => vec![fft::reference(o, &inputs[0])],
        // Their rows have judges.
        Op::Hadamard(_) | Op::Linalg(_) => Vec::new(),
        Op::Random(o) => vec![random::reference(o, &inputs[0])],
        Op::Quant(o) => quant::reference(o, inputs),
        Op::Norm(o) => vec![network::norm(o, inputs)],
        Op::Softmax(o) => vec![network::softmax(o, &inputs[0])],
        Op::Rope(o) => vec![network::rope(o, inputs)],
        Op::Attention(o) => vec![network::attention(o, inputs)],
    }
}

/// All rows.
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        [
            unary::rows(),
            binary::rows(),
            cast::rows(),
            create::rows(),
            fused::rows(),
            reduce::rows(),
            scan::rows(),
            sort::rows(),
            arrange::rows(),
            index::rows(),
            matmul::rows(),
            conv::rows(),
            fft::rows(),
            linalg::rows(),
            random::rows(),
            quant::rows(),
            network::rows(),
        ]
        .into_iter()
        .flatten()
        .collect()
    })
}

/// Real float types.
pub(crate) const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
/// Real float types of the fused operations of networks.
pub(crate) const SMALL_FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::BF16, Dtype::F32];
