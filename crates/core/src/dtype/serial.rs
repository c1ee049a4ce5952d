//! Element types and scalars in files: types by name, scalars by their bits.

use super::{Dtype, Scalar};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

impl Serialize for Dtype {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Dtype {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Dtype, D::Error> {
        let name = String::deserialize(d)?;
        Dtype::ALL
            .into_iter()
            .find(|d| d.to_string() == name)
            .ok_or_else(|| de::Error::custom(format_args!("{name:?} is not an element type")))
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    dtype: Dtype,
    bits: u64,
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Stored { dtype: self.dtype, bits: self.bits }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Scalar, D::Error> {
        let Stored { dtype, bits } = Stored::deserialize(d)?;
        let scalar = Scalar::from_bits(bits, dtype);
        if scalar.bits != bits || (dtype == Dtype::Bool && bits > 1) {
            return Err(de::Error::custom(format_args!("{bits} are not the bits of a {dtype}")));
        }
        Ok(scalar)
    }
}
