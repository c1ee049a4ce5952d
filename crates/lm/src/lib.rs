//! Language models on Olivine.
