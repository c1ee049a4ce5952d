//! Multi-head attention, and the encoder and decoder made of it.

use crate::{Activation, Dropout, LayerNorm, Linear, Module, activations};
use olivine_core::ops::Mask;
use olivine_core::transforms;
use olivine_core::{Array, Error, Result};

/// Scaled dot-product attention of several heads, with a projection before and after (Vaswani et al. 2017).
#[derive(Debug, Clone, Module)]
pub struct MultiHeadAttention {
    /// `[features of queries]` to the features of all heads.
    pub query_proj: Linear,
    /// Of the keys.
    pub key_proj: Linear,
    /// Of the values.
    pub value_proj: Linear,
    /// Of what comes out.
    pub out_proj: Linear,
    heads: usize,
}

/// Sizes of a [`MultiHeadAttention`] that are not all alike.
#[derive(Debug, Clone, Copy)]
pub struct AttentionDims {
    /// Features of all heads together, in which queries and keys meet.
    pub dims: usize,
    /// Features of the queries that come in.
    pub queries: usize,
    /// Features of the keys that come in.
    pub keys: usize,
    /// Features of the values that come in.
    pub values: usize,
    /// Features of the projected values.
    pub value_dims: usize,
    /// Features that come out.
    pub output: usize,
}

impl MultiHeadAttention {
    /// All sizes alike, no biases. Weights are drawn in the order of the fields.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the features.
    pub fn new(dims: usize, heads: usize) -> Result<MultiHeadAttention> {
        let all =
            AttentionDims { dims, queries: dims, keys: dims, values: dims, value_dims: dims, output: dims };
        MultiHeadAttention::with_dims(all, heads, false)
    }

    /// With sizes of their own.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the features.
    pub fn with_dims(sizes: AttentionDims, heads: usize, bias: bool) -> Result<MultiHeadAttention> {
        let AttentionDims { dims, queries, keys, values, value_dims, output } = sizes;
        if heads == 0 || dims % heads != 0 || value_dims % heads != 0 {
            let msg = format!("{heads} heads do not divide {dims} and {value_dims} features");
            return Err(Error::value("multi_head_attention", msg));
        }
        Ok(MultiHeadAttention {
            query_proj: Linear::new(queries, dims, bias)?,
            key_proj: Linear::new(keys, dims, bias)?,
            value_proj: Linear::new(values, value_dims, bias)?,
            out_proj: Linear::new(value_dims, output, bias)?,
            heads,
        })
    }

    /// From queries `[batch, l, features]` to keys and values `[batch, s, features]`: `[batch, l, output]`.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(&self, queries: &Array, keys: &Array, values: &Array, mask: &Mask) -> Result<Array> {
        let heads = |proj: &Linear, x: &Array| proj.forward(x)?.split_heads(self.heads);
        let (q, k) = (heads(&self.query_proj, queries)?, heads(&self.key_proj, keys)?);
        let v = heads(&self.value_proj, values)?;
        let scale = (1.0 / q.dim(-1)? as f64).sqrt() as f32;
        let y = Array::scaled_dot_product_attention(&q, &k, &v, scale, mask, None)?;
        self.out_proj.forward(&y.merge_heads()?)
    }
}

/// How the layers of an encoder or decoder are made.
#[derive(Debug, Clone, Copy)]
pub struct TransformerConfig {
    /// Features that come in and go out.
    pub dims: usize,
    /// Heads of every attention.
    pub heads: usize,
    /// Hidden features of the perceptrons; four times `dims` if `None`.
    pub mlp_dims: Option<usize>,
    /// Probability of dropout in every branch.
    pub dropout: f64,
    /// Of the perceptrons.
    pub activation: Activation,
    /// Normalise the input of a branch, not the sum.
    pub norm_first: bool,
    /// Recompute the layers in the backward pass, instead of keeping what is inside them.
    pub checkpoint: bool,
}

impl TransformerConfig {
    /// No dropout, `relu`, normalisation of the inputs of branches.
    pub fn new(dims: usize, heads: usize) -> TransformerConfig {
        TransformerConfig {
            dims,
            heads,
            mlp_dims: None,
            dropout: 0.0,
            activation: activations::relu,
            norm_first: true,
            checkpoint: false,
        }
    }

    fn hidden(&self) -> usize {
        self.mlp_dims.unwrap_or(4 * self.dims)
    }
}

const EPS: f32 = 1e-5;

/// A residual branch, normalised before or after.
fn residual(
    x: &Array,
    norm: &LayerNorm,
    first: bool,
    branch: impl FnOnce(&Array) -> Result<Array>,
) -> Result<Array> {
    if first { x.add(&branch(&norm.forward(x)?)?) } else { norm.forward(&x.add(&branch(x)?)?) }
}

/// Self-attention and a perceptron of two layers, each a normalised residual branch.
#[derive(Debug, Clone, Module)]
pub struct TransformerEncoderLayer {
    /// Of the sequence to itself.
    pub attention: MultiHeadAttention,
    /// Of the attention.
    pub ln1: LayerNorm,
    /// Of the perceptron.
    pub ln2: LayerNorm,
    /// Into the perceptron.
    pub linear1: Linear,
    /// Out of it.
    pub linear2: Linear,
    /// Of the attention.
    pub dropout1: Dropout,
    /// Of the perceptron.
    pub dropout2: Dropout,
    activation: Activation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// Weights are drawn in the order of the fields.
    ///
    /// # Errors
    /// `Value` when the heads do not divide the features, or the probability of dropout is outside of `0..1`.
    pub fn new(c: &TransformerConfig) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            attention: MultiHeadAttention::new(c.dims, c.heads)?,
            ln1: LayerNorm::new(c.dims, EPS)?,
            ln2: LayerNorm::new(c.dims, EPS)?,
            linear1: Linear::new(c.dims, c.hidden(), true)?,
            linear2: Linear::new(c.hidden(), c.dims, true)?,
            dropout1: Dropout::new(c.dropout)?,
            dropout2: Dropout::new(c.dropout)?,
            activation: c.activation,
            norm_first: c.norm_first,
        })
    }

    /// `[batch, length, dims]` to the same.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(&self, x: &Array, mask: &Mask) -> Result<Array> {
        let x = residual(x, &self.ln1, self.norm_first, |y| {
            self.dropout1.forward(&self.attention.forward(y, y, y, mask)?)
        })?;
        residual(&x, &self.ln2, self.norm_first, |y| {
            let hidden = (self.activation)(&self.linear1.forward(y)?)?;
            self.linear2.forward(&self.dropout2.forward(&hidden)?)
        })
    }
}

/// A stack of [`TransformerEncoderLayer`], with a normalisation at the end.
#[derive(Debug, Clone, Module)]
pub struct TransformerEncoder {
    /// One after the other.
    pub layers: Vec<TransformerEncoderLayer>,
    /// At the end.
    pub ln: LayerNorm,
    checkpoint: bool,
}

impl TransformerEncoder {
    /// So many layers.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(layers: usize, c: &TransformerConfig) -> Result<TransformerEncoder> {
        let layers = (0..layers).map(|_| TransformerEncoderLayer::new(c)).collect::<Result<_>>()?;
        Ok(TransformerEncoder { layers, ln: LayerNorm::new(c.dims, EPS)?, checkpoint: c.checkpoint })
    }

    /// `[batch, length, dims]` to the same.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(&self, x: &Array, mask: &Mask) -> Result<Array> {
        let mut x = x.clone();
        for layer in &self.layers {
            x = if self.checkpoint {
                transforms::checkpoint(|(l, x, mask): &(TransformerEncoderLayer, Array, Masks)| {
                    l.forward(x, &mask.0)
                })(&(layer.clone(), x, Masks(mask.clone())))?
            } else {
                layer.forward(&x, mask)?
            };
        }
        self.ln.forward(&x)
    }
}

/// Self-attention, attention to the encoder's output and a perceptron of two layers, each a normalised residual
/// branch.
#[derive(Debug, Clone, Module)]
pub struct TransformerDecoderLayer {
    /// Of the sequence to itself.
    pub self_attention: MultiHeadAttention,
    /// To what the encoder gives.
    pub cross_attention: MultiHeadAttention,
    /// Of the attention to itself.
    pub ln1: LayerNorm,
    /// Of the attention to the encoder.
    pub ln2: LayerNorm,
    /// Of the perceptron.
    pub ln3: LayerNorm,
    /// Into the perceptron.
    pub linear1: Linear,
    /// Out of it.
    pub linear2: Linear,
    /// Of the attention to itself.
    pub dropout1: Dropout,
    /// Of the attention to the encoder.
    pub dropout2: Dropout,
    /// Of the perceptron.
    pub dropout3: Dropout,
    activation: Activation,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// Weights are drawn in the order of the fields.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(c: &TransformerConfig) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            self_attention: MultiHeadAttention::new(c.dims, c.heads)?,
            cross_attention: MultiHeadAttention::new(c.dims, c.heads)?,
            ln1: LayerNorm::new(c.dims, EPS)?,
            ln2: LayerNorm::new(c.dims, EPS)?,
            ln3: LayerNorm::new(c.dims, EPS)?,
            linear1: Linear::new(c.dims, c.hidden(), true)?,
            linear2: Linear::new(c.hidden(), c.dims, true)?,
            dropout1: Dropout::new(c.dropout)?,
            dropout2: Dropout::new(c.dropout)?,
            dropout3: Dropout::new(c.dropout)?,
            activation: c.activation,
            norm_first: c.norm_first,
        })
    }

    /// `[batch, length, dims]` to the same, with attention to `memory`, `[batch, s, dims]`.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(&self, x: &Array, memory: &Array, mask: &Mask, memory_mask: &Mask) -> Result<Array> {
        let x = residual(x, &self.ln1, self.norm_first, |y| {
            self.dropout1.forward(&self.self_attention.forward(y, y, y, mask)?)
        })?;
        let x = residual(&x, &self.ln2, self.norm_first, |y| {
            self.dropout2.forward(&self.cross_attention.forward(y, memory, memory, memory_mask)?)
        })?;
        residual(&x, &self.ln3, self.norm_first, |y| {
            let hidden = (self.activation)(&self.linear1.forward(y)?)?;
            self.linear2.forward(&self.dropout3.forward(&hidden)?)
        })
    }
}

/// A stack of [`TransformerDecoderLayer`], with a normalisation at the end.
#[derive(Debug, Clone, Module)]
pub struct TransformerDecoder {
    /// One after the other.
    pub layers: Vec<TransformerDecoderLayer>,
    /// At the end.
    pub ln: LayerNorm,
    checkpoint: bool,
}

impl TransformerDecoder {
    /// So many layers.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(layers: usize, c: &TransformerConfig) -> Result<TransformerDecoder> {
        let layers = (0..layers).map(|_| TransformerDecoderLayer::new(c)).collect::<Result<_>>()?;
        Ok(TransformerDecoder { layers, ln: LayerNorm::new(c.dims, EPS)?, checkpoint: c.checkpoint })
    }

    /// `[batch, length, dims]` to the same, with attention to `memory`, `[batch, s, dims]`.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(&self, x: &Array, memory: &Array, mask: &Mask, memory_mask: &Mask) -> Result<Array> {
        type Arguments = (TransformerDecoderLayer, Array, Array, Masks, Masks);
        let mut x = x.clone();
        for layer in &self.layers {
            x = if self.checkpoint {
                let masks = (Masks(mask.clone()), Masks(memory_mask.clone()));
                transforms::checkpoint(|(l, x, memory, mask, memory_mask): &Arguments| {
                    l.forward(x, memory, &mask.0, &memory_mask.0)
                })(&(layer.clone(), x, memory.clone(), masks.0, masks.1))?
            } else {
                layer.forward(&x, memory, mask, memory_mask)?
            };
        }
        self.ln.forward(&x)
    }
}

/// An encoder and a decoder (Vaswani et al. 2017).
#[derive(Debug, Clone, Module)]
pub struct Transformer {
    /// Of the source.
    pub encoder: TransformerEncoder,
    /// Of the target.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// So many layers of each.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`].
    pub fn new(encoder: usize, decoder: usize, c: &TransformerConfig) -> Result<Transformer> {
        Ok(Transformer {
            encoder: TransformerEncoder::new(encoder, c)?,
            decoder: TransformerDecoder::new(decoder, c)?,
        })
    }

    /// Decodes the target `[batch, t, dims]` with attention to the encoded source `[batch, s, dims]`.
    ///
    /// # Errors
    /// `Shape` when the arguments do not fit.
    pub fn forward(
        &self,
        source: &Array,
        target: &Array,
        source_mask: &Mask,
        target_mask: &Mask,
        memory_mask: &Mask,
    ) -> Result<Array> {
        let memory = self.encoder.forward(source, source_mask)?;
        self.decoder.forward(target, &memory, target_mask, memory_mask)
    }
}

/// A mask as part of a tree.
#[derive(Debug, Clone)]
struct Masks(Mask);

impl Module for Masks {
    fn visit(&mut self, path: &str, visitor: &mut dyn crate::Visitor) -> Result<()> {
        let (kind, window) = match &self.0 {
            Mask::None => (0, 0),
            Mask::Causal => (1, 0),
            Mask::Window(w) => (2, *w),
            Mask::Array(_) => (3, 0),
        };
        visitor.setting(path, &[kind])?;
        visitor.setting(path, &window.to_le_bytes())?;
        match &mut self.0 {
            Mask::Array(a) => visitor.array(path, a),
            Mask::None | Mask::Causal | Mask::Window(_) => Ok(()),
        }
    }
}

crate::module_tree!(Masks);
